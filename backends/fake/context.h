// The fake's context: memory of the host, kernels that are interpreted, and queues that are really
// asynchronous, each with a thread of its own. This is the template for a port: a real backend puts driver
// calls where this puts a few lines.
//
// It is strict where drivers are not, so that tests find what drivers forgive: a command that runs on memory or
// a kernel that has been given back, a handle given back twice, a queue destroyed while it works, or a module
// unloaded before its kernels, ends the process with a message.
//
// Threads: as driver.h says. Ownership: handles are numbers; what a command needs it holds itself.

#ifndef KCACHE_BACKENDS_FAKE_CONTEXT_H_
#define KCACHE_BACKENDS_FAKE_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/fake/interpreter.h"
#include "backends/fake/language.h"
#include "backends/fake/script.h"
#include "backends/sdk/driver.h"
#include "contract/mutex.h"

namespace kcache::backend::fake {

class FakeContext final : public Context {
 public:
  FakeContext(v1::DeviceInfo device, std::shared_ptr<Script> script);
  ~FakeContext() override;

  const v1::DeviceInfo& device() const override { return device_; }

  absl::StatusOr<ModuleHandle> LoadModule(const v1::Artifact& artifact,
                                          LoadStatistics* statistics) override;
  absl::Status UnloadModule(ModuleHandle module) override;
  absl::StatusOr<KernelHandle> ResolveKernel(ModuleHandle module,
                                             const v1::Specialization& specialization,
                                             v1::KernelInfo* info,
                                             LoadStatistics* statistics) override;
  absl::Status ReleaseKernel(KernelHandle kernel) override;

  absl::StatusOr<MemoryHandle> Allocate(uint64_t bytes, MemoryKind kind) override;
  absl::Status Free(MemoryHandle memory) override;

  absl::StatusOr<QueueHandle> CreateQueue() override;
  absl::Status DestroyQueue(QueueHandle queue) override;

  absl::Status Launch(QueueHandle queue, const LaunchCommand& command) override;
  absl::Status Write(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                     std::string_view data) override;
  absl::Status Read(QueueHandle queue, MemoryHandle source, uint64_t offset,
                    std::span<char> destination) override;
  absl::Status Copy(QueueHandle queue, MemoryHandle source, uint64_t source_offset,
                    MemoryHandle destination, uint64_t destination_offset, uint64_t bytes) override;
  absl::Status Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset, uint64_t bytes,
                    std::string_view pattern) override;
  absl::Status Flush(QueueHandle queue) override;
  absl::StatusOr<MarkerHandle> RecordMarker(QueueHandle queue) override;
  absl::Status WaitMarker(MarkerHandle marker) override;
  absl::Status Close() override;

  // For tests in this process: how much there is now, and what was ever made.
  uint64_t live_memory() const;
  uint64_t live_kernels() const;
  uint64_t live_modules() const;
  uint64_t kernels_resolved() const { return kernels_resolved_.load(); }
  uint64_t modules_loaded() const { return modules_loaded_.load(); }

 private:
  struct Module {
    std::string text;
    std::shared_ptr<const ProgramCode> code;
    std::atomic<int> kernels{0};
  };
  struct Kernel {
    std::shared_ptr<Module> module;
    const KernelCode* code = nullptr;
    std::vector<double> constants;
    std::atomic<bool> released{false};
  };
  struct Memory {
    std::vector<char> bytes;
    MemoryKind kind = MemoryKind::kDevice;
    std::atomic<bool> freed{false};
  };
  // Counted down by the queue's thread; what failed before it is in `status`.
  struct Marker {
    Mutex mutex;
    CondVar done_changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };
  class Queue;

  template <typename T>
  using Table = absl::flat_hash_map<uint64_t, std::shared_ptr<T>>;
  template <typename T>
  uint64_t Register(Table<T>* table, std::shared_ptr<T> object) ABSL_LOCKS_EXCLUDED(mutex_);
  template <typename T>
  std::shared_ptr<T> Find(const Table<T>& table, uint64_t handle, const char* what) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  template <typename T>
  std::shared_ptr<T> Take(Table<T>* table, uint64_t handle, const char* what)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Puts a command on the queue, unless the script refuses it. `run` is called on the queue's thread.
  absl::Status Enqueue(QueueHandle queue, std::string_view function, std::string_view subject,
                       std::function<absl::Status()> run);
  static std::span<char> Range(const std::shared_ptr<Memory>& memory, uint64_t offset,
                               uint64_t bytes);
  bool Await(const std::function<bool()>& condition);
  void NoteChange();

  const v1::DeviceInfo device_;
  const std::shared_ptr<Script> script_;
  std::atomic<uint64_t> kernels_resolved_{0};
  std::atomic<uint64_t> modules_loaded_{0};

  mutable Mutex mutex_;
  uint64_t last_handle_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t device_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  Table<Module> modules_;
  Table<Kernel> kernels_;
  Table<Memory> memory_;
  Table<Queue> queues_;
  Table<Marker> markers_;

  // `await` statements wait here until a command has run somewhere.
  Mutex change_mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(change_mutex_) = false;
};

}  // namespace kcache::backend::fake

#endif  // KCACHE_BACKENDS_FAKE_CONTEXT_H_
