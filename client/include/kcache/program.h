// A program: source, headers, defines and flags, by content.
//
// Threads: a Program is immutable and may be used from any thread; a ProgramBuilder by one at a
// time. Ownership: a Program is a cheap copy of a shared value. It keeps the source, because the
// daemon may ask for it (once a node, usually never).

#ifndef KCACHE_PROGRAM_H_
#define KCACHE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/launch.h"

namespace kcache {

namespace internal {
struct ProgramState;
}

class Program {
 public:
  Program() = default;  // empty: acquiring from it is a BAD_REQUEST

  // A program without headers or options.
  static absl::StatusOr<Program> FromSource(std::string language, std::string source);

  bool empty() const { return state_ == nullptr; }

  // SHA-256 over everything that makes the program what it is, as 64 hexadecimal digits. Equal
  // programs have equal digests in every process.
  std::string digest() const;
  const std::string& language() const;

  const std::shared_ptr<const internal::ProgramState>& state() const { return state_; }

 private:
  friend class ProgramBuilder;
  explicit Program(std::shared_ptr<const internal::ProgramState> state)
      : state_(std::move(state)) {}

  std::shared_ptr<const internal::ProgramState> state_;
};

// Collects a program. What is wrong is remembered, and Build answers the first of it.
//
//   auto program = kcache::ProgramBuilder("opencl-c", source)
//                      .AddHeader("tile.h", tile_h).Define("N",
//                      "16").Flag("-cl-mad-enable").Build();
class ProgramBuilder {
 public:
  // Languages: "opencl-c" "cuda-c++" "ptx" "hip-c++" "glsl" "spirv" "fake", or "binary" for a
  // device binary that the application brings; DeviceInfo::languages lists what a device takes.
  ProgramBuilder(std::string language, std::string source);
  ~ProgramBuilder();
  ProgramBuilder(ProgramBuilder&&) noexcept;
  ProgramBuilder& operator=(ProgramBuilder&&) noexcept;

  // A header as an #include spells it, relative ("kernels/common.h").
  ProgramBuilder& AddHeader(std::string name, std::string content);

  // Takes a snapshot, now, of the files below `directory` whose name has one of the usual header
  // and source extensions, or of all files with `all_files`. Their names are relative to it. The
  // directory itself is never known to the daemon.
  ProgramBuilder& AddIncludeDirectory(const std::string& directory, bool all_files = false);

  ProgramBuilder& Define(std::string name, std::optional<std::string> value = std::nullopt);
  ProgramBuilder& Flag(std::string flag);                  // order matters
  ProgramBuilder& NameExpression(std::string expression);  // a C++ template to instantiate

  // Asks the compile to finish `entry` for this local size, for drivers that compile at the first
  // launch of each size.
  ProgramBuilder& LaunchShape(std::string entry, Dim3 local_size);

  // The builder is empty afterwards.
  absl::StatusOr<Program> Build();

 private:
  std::unique_ptr<internal::ProgramState> state_;
  absl::Status error_;
};

}  // namespace kcache

#endif  // KCACHE_PROGRAM_H_
