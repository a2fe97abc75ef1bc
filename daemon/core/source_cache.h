// Sources and headers by content, and which trust domain has shown which program.
//
// A digest alone gets nobody anything (G14): a domain's first use of a program requires that the
// domain itself uploads its source and headers, even if another domain's are here already.
//
// Bounded in bytes: what has not been used longest is forgotten first and asked for again. A
// Program that somebody holds keeps its content alive.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_SOURCE_CACHE_H_
#define KCACHE_DAEMON_CORE_SOURCE_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/kernel_key.h"
#include "daemon/core/limits.h"
#include "kcache/v1/backend.pb.h"
#include "kcache/v1/types.pb.h"

namespace kcache::core {

using BlobPtr = std::shared_ptr<const std::string>;

// A whole program: manifest and content.
struct Program {
  Digest digest;
  v1::ProgramManifest manifest;
  BlobPtr source;
  std::vector<BlobPtr> headers;  // as manifest.headers
};

using ProgramPtr = std::shared_ptr<const Program>;

// Whether programs of this language are binaries that the daemon cannot vouch for: what is made of
// them stays in the trust domain that submitted them.
bool IsSubmitted(std::string_view language);

class SourceCache {
 public:
  explicit SourceCache(const Limits* limits) : limits_(limits) {}

  // BAD_REQUEST or LIMIT_EXCEEDED, naming the field or the limit.
  absl::Status Validate(const v1::ProgramManifest& manifest) const;

  // The blobs of the manifest that this domain must (still) upload.
  absl::StatusOr<std::vector<Digest>> Missing(const std::string& domain,
                                              const v1::ProgramManifest& manifest);

  absl::Status AddBlob(const std::string& domain, const Digest& digest, std::string content);

  // The domain has shown all of the program. NEED_SOURCE when a blob is missing.
  absl::StatusOr<ProgramPtr> Commit(const std::string& domain, const v1::ProgramManifest& manifest);

  // The domain has shown this program before.
  struct ShownProgram {
    bool submitted = false;  // a pre-built binary: see IsSubmitted
  };
  const ShownProgram* Shown(const std::string& domain, const Digest& program) const;

  // nullptr when its content is not here (any more).
  ProgramPtr Find(const Digest& program);

  // A manifest that is like this one, for `explain`: the most fields in common; nullptr: none.
  ProgramPtr Nearest(const v1::ProgramManifest& manifest) const;

  void ForgetDomain(const std::string& domain) { domains_.erase(domain); }

  uint64_t bytes() const { return bytes_; }

 private:
  struct Blob {
    BlobPtr content;
    std::list<Digest>::iterator use;
  };
  struct Known {
    ProgramPtr program;
    std::list<Digest>::iterator use;
  };
  struct Domain {
    absl::flat_hash_set<Digest> blobs;
    absl::flat_hash_map<Digest, ShownProgram> programs;
  };
  // Beyond this many, a domain shows its sources again.
  static constexpr size_t kMaxShownPerDomain = 1u << 18;
  static constexpr size_t kMaxPrograms = 16384;

  void EvictBlobs();

  const Limits* const limits_;
  uint64_t bytes_ = 0;
  absl::flat_hash_map<Digest, Blob> blobs_;
  std::list<Digest> blob_use_;  // most recently used first
  absl::flat_hash_map<Digest, Known> programs_;
  std::list<Digest> program_use_;
  absl::flat_hash_map<std::string, Domain> domains_;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_SOURCE_CACHE_H_
