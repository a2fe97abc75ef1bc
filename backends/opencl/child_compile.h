// Compiles in processes of their own: this program, started again with --compile-child.
//
// Why, and what the death of one means, is told in compiler.h. A child takes one request after the
// other over a socket, because PoCL's first build in a process costs half a second more than the
// next ones. It can finish programs for one list of local sizes only; asked for another it says so,
// and the request goes to a fresh child. The pool keeps a few that have settled on a list, least
// recently used out.
//
// Threads: the pool: one at a time. RunCompileChild: main. Ownership: a child and its directory end
// with its CompileChild, or with this process, whose end the child notices on its socket.

#ifndef KCACHE_BACKENDS_OPENCL_CHILD_COMPILE_H_
#define KCACHE_BACKENDS_OPENCL_CHILD_COMPILE_H_

#include <sys/types.h>

#include <list>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/opencl/private_directory.h"
#include "kcache/v1/backend.pb.h"

namespace kcache::backend::opencl {

class CompileChild {
 public:
  static absl::StatusOr<std::unique_ptr<CompileChild>> Start();
  ~CompileChild();  // ends the process and waits for it
  CompileChild(const CompileChild&) = delete;
  CompileChild& operator=(const CompileChild&) = delete;

  // Null: the child has settled on other local sizes than this program needs. Does not return when
  // the child dies of a signal.
  absl::StatusOr<std::unique_ptr<v1::CompileReply>> Compile(const v1::CompileRequest& request);

  bool alive() const;
  uint32_t served() const { return served_; }

 private:
  CompileChild(pid_t pid, int socket, PrivateDirectory directory)
      : pid_(pid), socket_(socket), directory_(std::move(directory)) {}

  // Waits for the end of the process and dies as it did, or tells how it ended.
  absl::Status Died();

  pid_t pid_;  // 0: has been waited for
  const int socket_;
  PrivateDirectory directory_;  // its TMPDIR
  uint32_t served_ = 0;
};

class CompileChildren {
 public:
  absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request);

 private:
  // PoCL and LLVM take some 150 MB each.
  static constexpr size_t kMostChildren = 2;
  // What a child has compiled stays on its disk and in its memory.
  static constexpr uint32_t kMostServed = 256;

  struct Settled {
    std::string shapes;  // the launch shapes of the request it settled with
    std::unique_ptr<CompileChild> child;
  };
  std::list<Settled> children_;  // most recently used first
};

// Whether this process is such a child, by its arguments.
bool IsCompileChild(int argc, char** argv);

// What it does then, until its parent has gone. Returns the exit code.
int RunCompileChild(char** argv);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_CHILD_COMPILE_H_
