// A backend program in its compile role, without a daemon: what kcached does, for programs that
// only compile.
//
// Threads: one call at a time per object. Ownership: the object owns the process and ends it.
#ifndef KCACHE_TESTS_CORPUS_COMPILE_ROLE_H_
#define KCACHE_TESTS_CORPUS_COMPILE_ROLE_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kcache/v1/backend.grpc.pb.h"

namespace kcache::corpus {

class CompileRole {
 public:
  // Starts `program --role=compile` with one end of a socket pair.
  static absl::StatusOr<std::unique_ptr<CompileRole>> Start(const std::string& program);
  ~CompileRole();
  CompileRole(const CompileRole&) = delete;
  CompileRole& operator=(const CompileRole&) = delete;

  // The artifact, or the failure that the backend answered with.
  absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request);

 private:
  CompileRole(pid_t process, int socket);

  const pid_t process_;
  std::unique_ptr<v1::Compile::Stub> stub_;
};

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_COMPILE_ROLE_H_
