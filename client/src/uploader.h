// Uploads programs that the daemon asks for: what is missing of one, then the commit.
//
// Threads: on the executor. Ownership: shared, because answers come later.

#ifndef KCACHE_CLIENT_UPLOADER_H_
#define KCACHE_CLIENT_UPLOADER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "client/src/runtime.h"
#include "client/src/session.h"
#include "client/src/state.h"

namespace kcache::internal {

class Uploader : public std::enable_shared_from_this<Uploader> {
 public:
  // `failed` runs on the executor, for a program that the daemon did not take.
  using Failed = std::function<void(const Digest& program, const absl::Status& why)>;

  Uploader(std::shared_ptr<Runtime> runtime, Failed failed)
      : runtime_(std::move(runtime)), failed_(std::move(failed)) {}

  // Does nothing for a program whose upload is under way.
  void Upload(std::shared_ptr<const ProgramState> program, const Session::Credentials& credentials);

  uint64_t uploads() const { return uploads_.load(std::memory_order_relaxed); }

 private:
  void OnMissing(std::shared_ptr<const ProgramState> program, v1::BlobCredentials credentials,
                 absl::StatusOr<v1::MissingReply> reply);
  void Done(const Digest& program, const absl::Status& status);

  const std::shared_ptr<Runtime> runtime_;
  const Failed failed_;
  absl::flat_hash_set<Digest> running_;
  std::atomic<uint64_t> uploads_{0};
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_UPLOADER_H_
