// Two PoCL devices, a compiler, and contexts opened from its artifacts.
//
// Threads: one. The family and the compiler are shared by all tests of the process, since drivers
// read their environment once.

#ifndef KCACHE_TESTS_UNIT_OPENCL_FIXTURE_H_
#define KCACHE_TESTS_UNIT_OPENCL_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/opencl/driver_caches.h"
#include "backends/opencl/family.h"
#include "contract/error_reason.h"

namespace kcache::backend::opencl {

// What the tests share; made at the first use.
struct Backend {
  DriverCaches caches;
  std::unique_ptr<OpenClFamily> family;
  std::unique_ptr<Compiler> compiler;
};
Backend& TheBackend();
void ReleaseBackend();  // and its directories: main's last act

// Loads the artifact in a fresh process, launches `entry` there (its arguments must be buffers)
// with each grid of `groups`, and tells how many work-group functions PoCL compiled for that, by
// what appeared in the process's cache. -1: the process failed.
int CompiledInFreshProcess(const v1::Artifact& artifact, const std::string& entry, Extent local,
                           const std::vector<uint32_t>& groups);
// The other side of it: runs in that process.
int RunFreshProcess(int argc, char** argv);

class OpenClTest : public ::testing::Test {
 protected:
  static v1::CompileRequest Source(std::string_view source);
  static absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request) {
    return TheBackend().compiler->Compile(request);
  }
  static v1::Artifact MustCompile(const v1::CompileRequest& request);

  // A device host's worth: context, one queue, the artifact's module.
  struct Host {
    std::unique_ptr<Context> context;
    QueueHandle queue = 0;
    ModuleHandle module = 0;
    LoadStatistics statistics;
    v1::Artifact artifact;

    KernelHandle Kernel(const std::string& entry);
    MemoryHandle Memory(uint64_t bytes);
    absl::Status Finish();
    template <typename T>
    std::vector<T> Read(MemoryHandle memory, size_t count) {
      std::vector<T> values(count);
      EXPECT_TRUE(
          context
              ->Read(queue, memory, 0, {reinterpret_cast<char*>(values.data()), count * sizeof(T)})
              .ok());
      EXPECT_EQ(Finish(), absl::OkStatus());
      return values;
    }
    template <typename T>
    void Write(MemoryHandle memory, const std::vector<T>& values) {
      ASSERT_TRUE(
          context
              ->Write(queue, memory, 0,
                      {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)})
              .ok());
      ASSERT_EQ(Finish(), absl::OkStatus());
    }
  };
  static Host Open(const v1::Artifact& artifact, uint32_t device = 0);
  // The same on a device that is said to want sub-buffers at multiples of `alignment`.
  static Host OpenAligned(const v1::Artifact& artifact, uint32_t alignment);

 private:
  static Host HostOf(absl::StatusOr<std::unique_ptr<Context>> context,
                     const v1::Artifact& artifact);
};

KernelArgument BufferArgument(MemoryHandle memory, uint64_t offset = 0, uint64_t bytes = 0);
KernelArgument LocalArgument(uint64_t bytes);
template <typename T>
KernelArgument ScalarArgument(const T& value) {
  KernelArgument argument;
  argument.kind = KernelArgument::Kind::kScalar;
  argument.scalar = {reinterpret_cast<const char*>(&value), sizeof(T)};
  return argument;
}

// A launch of `groups` work-groups of `local` work-items.
LaunchCommand LaunchOf(KernelHandle kernel, Extent groups, Extent local,
                       const std::vector<KernelArgument>& arguments);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_TESTS_UNIT_OPENCL_FIXTURE_H_
