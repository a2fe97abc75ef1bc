// An execution stream that launches on every lease it was ever given, for as long as the host keeps the
// stream, whatever the daemon says meanwhile: what a fence must hold off.
//
// Threads: Use by one; it launches and reads on threads of its own, which end with the stream.

#ifndef KCACHE_TESTS_CHAOS_LAWLESS_STREAM_H_
#define KCACHE_TESTS_CHAOS_LAWLESS_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kcache/v1/execution.grpc.pb.h"
#include "kcache/v1/session.pb.h"

namespace kcache::chaos {

class LawlessStream {
 public:
  LawlessStream(const std::string& instance, uint64_t session, const v1::ContextInfo& context);
  ~LawlessStream();

  void Use(const v1::LeaseRef& lease);

 private:
  void Launch();

  grpc::ClientContext context_;
  std::unique_ptr<v1::Execution::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ExecutionRequest, v1::ExecutionReply>> stream_;
  std::mutex mutex_;
  std::vector<v1::LeaseRef> leases_;  // with mutex_
  bool stopping_ = false;             // with mutex_
  std::thread launching_, reading_;
};

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_LAWLESS_STREAM_H_
