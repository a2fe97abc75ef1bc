#include "backends/fake/context.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::fake {
namespace {

// A mistake of whoever calls the driver.
[[noreturn]] void Misuse(const std::string& what) {
  std::fprintf(stderr, "fake device: %s\n", what.c_str());
  std::abort();
}

// Copies as devices do: kernels on other queues may look at the same bytes meanwhile.
void CopyShared(char* to, const char* from, size_t bytes) {
  const bool words = (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 4 == 0;
  size_t at = 0;
  for (; words && at + 4 <= bytes; at += 4) {
    uint32_t word = std::atomic_ref<uint32_t>(
                        *reinterpret_cast<uint32_t*>(const_cast<char*>(from + at)))
                        .load(std::memory_order_relaxed);
    std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(to + at))
        .store(word, std::memory_order_relaxed);
  }
  for (; at < bytes; ++at) {
    std::atomic_ref<char>(to[at]).store(
        std::atomic_ref<char>(const_cast<char&>(from[at])).load(std::memory_order_relaxed),
        std::memory_order_relaxed);
  }
}

}  // namespace

// An in-order queue: commands run one after the other on its thread. The first failure stays: a real
// context is as dead after a kernel's fault.
class FakeContext::Queue {
 public:
  Queue() : thread_([this] { Run(); }) {}
  ~Queue() { Stop(); }

  void Push(std::function<absl::Status()> command) {
    MutexLock lock(&mutex_);
    commands_.push_back({std::move(command), /*is_marker=*/false});
    changed_.NotifyOne();
  }
  // A marker is no work: whoever has waited for it may take the queue for idle.
  void PushMarker(std::function<absl::Status()> command) {
    MutexLock lock(&mutex_);
    commands_.push_back({std::move(command), /*is_marker=*/true});
    changed_.NotifyOne();
  }

  bool idle() {
    MutexLock lock(&mutex_);
    return commands_.empty() && !running_;
  }

  // What has failed since the last marker; a dead context stays dead.
  absl::Status TakeStatus() {
    absl::Status status = status_;
    if (ReasonOf(status_) != v1::KERNEL_FAULT) status_ = absl::OkStatus();
    return status;
  }

  void Stop() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.NotifyOne();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Command {
    std::function<absl::Status()> run;
    bool is_marker = false;
  };

  void Run() {
    for (;;) {
      Command command;
      {
        MutexLock lock(&mutex_);
        running_ = false;
        while (commands_.empty() && !stopping_) changed_.Wait(&mutex_);
        if (stopping_) return;
        command = std::move(commands_.front());
        commands_.pop_front();
        running_ = !command.is_marker;
      }
      const absl::Status status = command.run();
      if (status_.ok()) status_ = status;
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_;  // of the thread
  std::thread thread_;
};

FakeContext::FakeContext(v1::DeviceInfo device, std::shared_ptr<Script> script)
    : device_(std::move(device)), script_(std::move(script)) {}

FakeContext::~FakeContext() {
  MutexLock lock(&change_mutex_);
  closing_ = true;
  changed_.NotifyAll();
}

// ---- handles ------------------------------------------------------------------------------------

template <typename T>
uint64_t FakeContext::Register(Table<T>* table, std::shared_ptr<T> object) {
  MutexLock lock(&mutex_);
  table->emplace(++last_handle_, std::move(object));
  return last_handle_;
}

template <typename T>
std::shared_ptr<T> FakeContext::Find(const Table<T>& table, uint64_t handle,
                                     const char* what) const {
  MutexLock lock(&mutex_);
  const auto found = table.find(handle);
  if (found == table.end()) Misuse(absl::StrCat(what, " ", handle, " is not there"));
  return found->second;
}

template <typename T>
std::shared_ptr<T> FakeContext::Take(Table<T>* table, uint64_t handle, const char* what) {
  MutexLock lock(&mutex_);
  const auto found = table->find(handle);
  if (found == table->end()) Misuse(absl::StrCat(what, " ", handle, " is given back twice"));
  std::shared_ptr<T> object = std::move(found->second);
  table->erase(found);
  return object;
}

// ---- modules and kernels ------------------------------------------------------------------------

absl::StatusOr<ModuleHandle> FakeContext::LoadModule(const v1::Artifact& artifact,
                                                     LoadStatistics* statistics) {
  if (artifact.format() != "fake") {
    return MakeError(v1::BAD_REQUEST, "this device loads \"fake\", not " +
                                          Quoted(artifact.format()));
  }
  // A program may say how it is loaded.
  Script own;
  if (absl::Status bad = own.AddPragmas(artifact.binary()); !bad.ok()) return bad;
  for (Script* script : {&own, script_.get()}) {
    const Action action = script->Call("LoadModule");
    if (action.kind == Action::Kind::kFail) return action.status;
    if (action.kind == Action::Kind::kJit) statistics->jit_microseconds += action.number;
  }
  Environment environment;
  for (const auto& [name, value] : artifact.extra()) {
    environment.defines[name] = std::strtod(value.c_str(), nullptr);
  }
  absl::StatusOr<ProgramCode> code = Parse(artifact.binary(), environment);
  if (!code.ok()) return Annotate(code.status(), "while loading a binary");
  auto module = std::make_shared<Module>();
  module->text = artifact.binary();
  module->code = std::make_shared<ProgramCode>(*std::move(code));
  modules_loaded_.fetch_add(1);
  return Register(&modules_, std::move(module));
}

absl::Status FakeContext::UnloadModule(ModuleHandle handle) {
  const std::shared_ptr<Module> module = Take(&modules_, handle, "module");
  if (module->kernels.load() != 0) {
    Misuse(absl::StrCat("module ", handle, " is unloaded before its kernels"));
  }
  return script_->Call("UnloadModule").status;
}

absl::StatusOr<KernelHandle> FakeContext::ResolveKernel(ModuleHandle handle,
                                                        const v1::Specialization& specialization,
                                                        v1::KernelInfo* info,
                                                        LoadStatistics* statistics) {
  const std::shared_ptr<Module> module = Find(modules_, handle, "module");
  const Action action = script_->Call("ResolveKernel", info->entry());
  if (action.kind == Action::Kind::kFail) return action.status;
  if (action.kind == Action::Kind::kJit) statistics->jit_microseconds += action.number;
  auto kernel = std::make_shared<Kernel>();
  std::string known;
  for (const KernelCode& code : module->code->kernels) {
    if (code.name == info->entry()) kernel->code = &code;
    absl::StrAppend(&known, known.empty() ? "" : ", ", code.name);
  }
  if (kernel->code == nullptr) {
    return MakeError(v1::UNKNOWN_ENTRY, "no entry point " + Quoted(info->entry()) + "; there are " +
                                            known);
  }
  for (const SpecConstant& constant : module->code->constants) {
    double value = constant.value;
    for (const v1::SpecializationConstant& given : specialization.constants()) {
      if (given.id() != constant.id || given.value().size() != sizeof(uint32_t)) continue;
      uint32_t number = 0;
      std::memcpy(&number, given.value().data(), sizeof(number));
      value = number;
    }
    kernel->constants.push_back(value);
  }
  kernel->module = module;
  module->kernels.fetch_add(1);
  kernels_resolved_.fetch_add(1);
  return Register(&kernels_, std::move(kernel));
}

absl::Status FakeContext::ReleaseKernel(KernelHandle handle) {
  const std::shared_ptr<Kernel> kernel = Take(&kernels_, handle, "kernel");
  kernel->released.store(true);
  kernel->module->kernels.fetch_sub(1);
  return script_->Call("ReleaseKernel", kernel->code->name).status;
}

// ---- memory -------------------------------------------------------------------------------------

absl::StatusOr<MemoryHandle> FakeContext::Allocate(uint64_t bytes, MemoryKind kind) {
  const Action action =
      script_->Call(kind == MemoryKind::kDevice ? "Allocate" : "AllocateHostVisible",
                    std::to_string(bytes));
  if (action.kind == Action::Kind::kFail) return action.status;
  {
    MutexLock lock(&mutex_);
    if (kind == MemoryKind::kDevice) {
      if (bytes > script_->memory() || device_bytes_ > script_->memory() - bytes) {
        return MakeError(v1::OUT_OF_DEVICE_MEMORY,
                         absl::StrCat(bytes, " bytes, ", device_bytes_, " of ", script_->memory(),
                                      " are in use"));
      }
      device_bytes_ += bytes;
    }
  }
  auto memory = std::make_shared<Memory>();
  memory->kind = kind;
  memory->bytes.resize(bytes);
  return Register(&memory_, std::move(memory));
}

absl::Status FakeContext::Free(MemoryHandle handle) {
  const std::shared_ptr<Memory> memory = Take(&memory_, handle, "memory");
  memory->freed.store(true);
  if (memory->kind == MemoryKind::kDevice) {
    MutexLock lock(&mutex_);
    device_bytes_ -= memory->bytes.size();
  }
  return script_->Call("Free", std::to_string(memory->bytes.size())).status;
}

std::span<char> FakeContext::Range(const std::shared_ptr<Memory>& memory, uint64_t offset,
                                   uint64_t bytes) {
  if (memory->freed.load()) Misuse("a command runs on memory that has been freed");
  if (offset > memory->bytes.size() || bytes > memory->bytes.size() - offset) {
    Misuse(absl::StrCat("offset ", offset, " and ", bytes, " bytes of a block of ",
                        memory->bytes.size()));
  }
  return std::span<char>(memory->bytes).subspan(offset, bytes);
}

// ---- queues -------------------------------------------------------------------------------------

absl::StatusOr<QueueHandle> FakeContext::CreateQueue() {
  const Action action = script_->Call("CreateQueue");
  if (action.kind == Action::Kind::kFail) return action.status;
  return Register(&queues_, std::make_shared<Queue>());
}

absl::Status FakeContext::DestroyQueue(QueueHandle handle) {
  const std::shared_ptr<Queue> queue = Take(&queues_, handle, "queue");
  if (!queue->idle()) Misuse(absl::StrCat("queue ", handle, " is destroyed while it works"));
  queue->Stop();
  return script_->Call("DestroyQueue").status;
}

absl::Status FakeContext::Enqueue(QueueHandle handle, std::string_view function,
                                  std::string_view subject, std::function<absl::Status()> run) {
  const std::shared_ptr<Queue> queue = Find(queues_, handle, "queue");
  const Action action = script_->Call(function, subject);
  if (action.kind == Action::Kind::kFail) return action.status;
  if (action.kind == Action::Kind::kLate) {
    queue->Push([status = action.status] { return status; });
    return absl::OkStatus();
  }
  queue->Push([this, run = std::move(run)] {
    absl::Status status = run();
    NoteChange();
    return status;
  });
  return absl::OkStatus();
}

absl::Status FakeContext::Launch(QueueHandle queue, const LaunchCommand& command) {
  const std::shared_ptr<Kernel> kernel = Find(kernels_, command.kernel, "kernel");
  auto memories = std::make_shared<std::vector<std::shared_ptr<Memory>>>();
  auto arguments = std::make_shared<std::vector<BoundArgument>>();
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const KernelArgument& argument : command.arguments) {
    arguments->push_back({std::string(argument.scalar), {}});
    const bool buffer = argument.kind == KernelArgument::Kind::kBuffer;
    memories->push_back(buffer ? Find(memory_, argument.memory, "memory") : nullptr);
    ranges.emplace_back(argument.offset, argument.bytes);
  }
  const Dispatch dispatch{command.local, command.global, command.global_offset};
  auto run = [this, kernel, memories, arguments, ranges = std::move(ranges), dispatch] {
    if (kernel->released.load()) Misuse("kernel " + kernel->code->name + " runs after its release");
    for (size_t i = 0; i < memories->size(); ++i) {
      if ((*memories)[i] == nullptr) continue;
      (*arguments)[i].data = Range((*memories)[i], ranges[i].first, ranges[i].second);
    }
    return Run(*kernel->code, kernel->constants, *arguments, dispatch,
               [this](const std::function<bool()>& condition) { return Await(condition); });
  };
  for (uint32_t i = 0; i < command.repeat; ++i) {
    if (absl::Status status = Enqueue(queue, "Launch", kernel->code->name, run); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status FakeContext::Write(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                                std::string_view data) {
  return Enqueue(queue, "Write", std::to_string(data.size()),
                 [memory = Find(memory_, destination, "memory"), offset, data] {
                   CopyShared(Range(memory, offset, data.size()).data(), data.data(), data.size());
                   return absl::OkStatus();
                 });
}

absl::Status FakeContext::Read(QueueHandle queue, MemoryHandle source, uint64_t offset,
                               std::span<char> destination) {
  return Enqueue(queue, "Read", std::to_string(destination.size()),
                 [memory = Find(memory_, source, "memory"), offset, destination] {
                   CopyShared(destination.data(), Range(memory, offset, destination.size()).data(),
                              destination.size());
                   return absl::OkStatus();
                 });
}

absl::Status FakeContext::Copy(QueueHandle queue, MemoryHandle source, uint64_t source_offset,
                               MemoryHandle destination, uint64_t destination_offset,
                               uint64_t bytes) {
  return Enqueue(queue, "Copy", std::to_string(bytes),
                 [from = Find(memory_, source, "memory"), to = Find(memory_, destination, "memory"),
                  source_offset, destination_offset, bytes] {
                   CopyShared(Range(to, destination_offset, bytes).data(),
                              Range(from, source_offset, bytes).data(), bytes);
                   return absl::OkStatus();
                 });
}

absl::Status FakeContext::Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                               uint64_t bytes, std::string_view pattern) {
  return Enqueue(queue, "Fill", std::to_string(bytes),
                 [memory = Find(memory_, destination, "memory"), offset, bytes,
                  pattern = std::string(pattern)] {
                   const std::span<char> range = Range(memory, offset, bytes);
                   for (size_t at = 0; at < bytes; at += pattern.size()) {
                     CopyShared(range.data() + at, pattern.data(), pattern.size());
                   }
                   return absl::OkStatus();
                 });
}

absl::Status FakeContext::Flush(QueueHandle) { return script_->Call("Flush").status; }

absl::StatusOr<MarkerHandle> FakeContext::RecordMarker(QueueHandle handle) {
  const std::shared_ptr<Queue> queue = Find(queues_, handle, "queue");
  const Action action = script_->Call("RecordMarker");
  if (action.kind == Action::Kind::kFail) return action.status;
  auto marker = std::make_shared<Marker>();
  queue->PushMarker([marker, queue = queue.get()] {
    MutexLock lock(&marker->mutex);
    marker->status = queue->TakeStatus();
    marker->done = true;
    marker->done_changed.NotifyAll();
    return absl::OkStatus();
  });
  return Register(&markers_, std::move(marker));
}

absl::Status FakeContext::WaitMarker(MarkerHandle handle) {
  const std::shared_ptr<Marker> marker = Take(&markers_, handle, "marker");
  const Action action = script_->Call("WaitMarker");
  MutexLock lock(&marker->mutex);
  while (!marker->done) marker->done_changed.Wait(&marker->mutex);
  return action.kind == Action::Kind::kFail ? action.status : marker->status;
}

bool FakeContext::Await(const std::function<bool()>& condition) {
  MutexLock lock(&change_mutex_);
  while (!condition()) {
    if (closing_) return false;
    changed_.Wait(&change_mutex_);
  }
  return true;
}

void FakeContext::NoteChange() {
  MutexLock lock(&change_mutex_);
  changed_.NotifyAll();
}

absl::Status FakeContext::Close() {
  const Action action = script_->Call("Close");
  MutexLock lock(&mutex_);
  const size_t left = modules_.size() + kernels_.size() + memory_.size() + queues_.size();
  if (left != 0) {
    return MakeError(v1::INTERNAL, absl::StrCat("closed with ", modules_.size(), " modules, ",
                                                kernels_.size(), " kernels, ", memory_.size(),
                                                " blocks of memory and ", queues_.size(),
                                                " queues still there"));
  }
  return action.status;
}

uint64_t FakeContext::live_memory() const {
  MutexLock lock(&mutex_);
  return memory_.size();
}

uint64_t FakeContext::live_kernels() const {
  MutexLock lock(&mutex_);
  return kernels_.size();
}

uint64_t FakeContext::live_modules() const {
  MutexLock lock(&mutex_);
  return modules_.size();
}

}  // namespace kcache::backend::fake
