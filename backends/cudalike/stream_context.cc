#include "backends/cudalike/stream_context.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cudalike/fill_pattern.h"
#include "backends/cudalike/launch_arguments.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::cudalike {
namespace {

// A poll costs well below a microsecond, a blocking wait some tens of them.
constexpr int kPolls = 64;

absl::Status Unknown(std::string_view what, uint64_t handle) {
  return MakeError(v1::INTERNAL, absl::StrCat("no ", AbslView(what), " has the handle ", handle));
}

}  // namespace

StreamContext::StreamContext(std::unique_ptr<StreamApi> api, v1::DeviceInfo device)
    : api_(std::move(api)), device_(std::move(device)), pool_(api_.get()) {}

StreamContext::~StreamContext() = default;

// ---- modules and kernels ------------------------------------------------------------------------

absl::StatusOr<ModuleHandle> StreamContext::LoadModule(const v1::Artifact& artifact,
                                                       LoadStatistics* statistics) {
  if (absl::Status status = api_->MakeCurrent(); !status.ok()) return status;
  absl::StatusOr<NativeModule> module = api_->LoadModule(artifact, statistics);
  if (!module.ok()) return module.status();
  return modules_.Insert(*module);
}

absl::Status StreamContext::UnloadModule(ModuleHandle module) {
  const std::optional<NativeModule> native = modules_.Take(module);
  if (!native) return Unknown("module", module);
  if (absl::Status status = api_->MakeCurrent(); !status.ok()) return status;
  return api_->UnloadModule(*native);
}

absl::StatusOr<KernelHandle> StreamContext::ResolveKernel(ModuleHandle module,
                                                          const v1::Specialization& specialization,
                                                          v1::KernelInfo* info, LoadStatistics*) {
  if (specialization.constants_size() > 0) {
    return MakeError(v1::BAD_REQUEST,
                     "specialization constants belong to Vulkan; use defines or templates here");
  }
  const std::optional<NativeModule> native = modules_.Find(module);
  if (!native) return Unknown("module", module);
  if (absl::Status status = api_->MakeCurrent(); !status.ok()) return status;
  auto kernel = std::make_shared<Kernel>();
  kernel->entry = info->entry();
  const std::string& name = info->lowered_name().empty() ? info->entry() : info->lowered_name();
  absl::StatusOr<NativeFunction> function = api_->GetFunction(*native, name);
  if (!function.ok()) return function.status();
  kernel->function = *function;
  if (absl::Status status = api_->Describe(kernel->function, info); !status.ok()) {
    return Annotate(status, absl::StrCat("while describing ", name));
  }
  absl::StatusOr<uint32_t> dynamic = api_->RaiseDynamicSharedMemory(kernel->function, *info);
  if (!dynamic.ok()) return Annotate(dynamic.status(), absl::StrCat("while preparing ", name));
  kernel->max_dynamic_shared_bytes = *dynamic;
  kernel->arguments_known = info->arguments_known();
  for (const v1::ArgumentInfo& argument : info->arguments()) {
    kernel->argument_bytes.push_back(argument.bytes());
  }
  return kernels_.Insert(std::move(kernel));
}

absl::Status StreamContext::ReleaseKernel(KernelHandle kernel) {
  // The function belongs to its module: there is nothing of the driver's to release.
  if (!kernels_.Take(kernel)) return Unknown("kernel", kernel);
  return absl::OkStatus();
}

// ---- memory -------------------------------------------------------------------------------------

absl::StatusOr<MemoryHandle> StreamContext::Allocate(uint64_t bytes, MemoryKind kind) {
  if (absl::Status status = api_->MakeCurrent(); !status.ok()) return status;
  Memory memory;
  memory.bytes = bytes;
  if (kind == MemoryKind::kDevice) {
    absl::StatusOr<DeviceAddress> address = api_->AllocateDevice(bytes);
    if (!address.ok()) return address.status();
    memory.address = *address;
  } else {
    absl::StatusOr<HostMemory> host = api_->AllocateHost(bytes);
    if (!host.ok()) return host.status();
    memory.address = host->device;
    memory.host = host->host;
  }
  return memories_.Insert(memory);
}

absl::Status StreamContext::FreeMemory(const Memory& memory) {
  if (memory.host == nullptr) return api_->FreeDevice(memory.address);
  return api_->FreeHost(HostMemory{memory.host, memory.address});
}

absl::Status StreamContext::Free(MemoryHandle memory) {
  const std::optional<Memory> taken = memories_.Take(memory);
  if (!taken) return Unknown("memory", memory);
  if (absl::Status status = api_->MakeCurrent(); !status.ok()) return status;
  return FreeMemory(*taken);
}

absl::StatusOr<DeviceAddress> StreamContext::Address(MemoryHandle memory, uint64_t offset) {
  const std::optional<Memory> found = memories_.Find(memory);
  if (!found) return Unknown("memory", memory);
  return found->address + offset;
}

// ---- queues -------------------------------------------------------------------------------------

absl::StatusOr<QueueHandle> StreamContext::CreateQueue() {
  if (absl::Status status = api_->MakeCurrent(); !status.ok()) return status;
  absl::StatusOr<NativeStream> stream = api_->CreateStream();
  if (!stream.ok()) return stream.status();
  auto queue = std::make_shared<Queue>();
  queue->stream = *stream;
  return queues_.Insert(std::move(queue));
}

absl::Status StreamContext::DestroyQueue(QueueHandle queue) {
  const auto taken = queues_.Take(queue);
  if (!taken) return Unknown("queue", queue);
  pool_.GiveBack((*taken)->staged.blocks);  // idle by now, so no copy uses them
  if (absl::Status status = api_->MakeCurrent(); !status.ok()) return status;
  return api_->DestroyStream((*taken)->stream);
}

absl::StatusOr<std::shared_ptr<StreamContext::Queue>> StreamContext::FindQueue(QueueHandle queue) {
  auto found = queues_.Find(queue);
  if (!found) return Unknown("queue", queue);
  if (absl::Status status = api_->MakeCurrent(); !status.ok()) return status;
  return *std::move(found);
}

absl::Status StreamContext::Launch(QueueHandle queue, const LaunchCommand& command) {
  const auto kernel = kernels_.Find(command.kernel);
  if (!kernel) return Unknown("kernel", command.kernel);
  if (command.driver_picks_local || command.has_global_offset) {
    return MakeError(v1::INVALID_LAUNCH,
                     "this family takes a grid and a block: no driver-chosen local size and no "
                     "global offset");
  }
  if (command.dynamic_local_bytes > (*kernel)->max_dynamic_shared_bytes) {
    return MakeError(
        v1::INVALID_LAUNCH,
        absl::StrCat((*kernel)->entry, ": ", command.dynamic_local_bytes,
                     " bytes of dynamic shared memory asked for, the device has ",
                     (*kernel)->max_dynamic_shared_bytes, " beside the kernel's static use"));
  }
  absl::StatusOr<std::shared_ptr<Queue>> target = FindQueue(queue);
  if (!target.ok()) return target.status();
  LaunchArguments arguments;
  absl::Status packed = arguments.Pack(
      command.arguments, (*kernel)->arguments_known, (*kernel)->argument_bytes,
      [this](MemoryHandle memory, uint64_t offset) { return Address(memory, offset); });
  if (!packed.ok()) return Annotate(packed, (*kernel)->entry);
  for (uint32_t i = 0; i < std::max<uint32_t>(command.repeat, 1); ++i) {
    absl::Status launched =
        api_->Launch((*kernel)->function, command.grid, command.local, command.dynamic_local_bytes,
                     (*target)->stream, arguments.pointers());
    if (!launched.ok())
      return Annotate(launched, absl::StrCat("while launching ", (*kernel)->entry));
  }
  return absl::OkStatus();
}

absl::Status StreamContext::Write(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                                  std::string_view data) {
  if (data.empty()) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<Queue>> target = FindQueue(queue);
  if (!target.ok()) return target.status();
  absl::StatusOr<DeviceAddress> address = Address(destination, offset);
  if (!address.ok()) return address.status();
  std::vector<char*> blocks;
  if (data.size() > kDirectWriteBytes) blocks = pool_.Take(data.size());
  if (blocks.empty()) {
    return api_->CopyToDevice(*address, data.data(), data.size(), (*target)->stream);
  }
  // Noted before the copies: blocks of a copy that was enqueued stay taken even if a later one
  // fails.
  Staged& staged = (*target)->staged;
  staged.blocks.insert(staged.blocks.end(), blocks.begin(), blocks.end());
  for (size_t i = 0, done = 0; done < data.size(); ++i) {
    const size_t bytes = std::min(PinnedPool::kBlockBytes, data.size() - done);
    std::memcpy(blocks[i], data.data() + done, bytes);
    absl::Status copied = api_->CopyToDevice(*address + done, blocks[i], bytes, (*target)->stream);
    if (!copied.ok()) return copied;
    done += bytes;
  }
  return absl::OkStatus();
}

absl::Status StreamContext::Read(QueueHandle queue, MemoryHandle source, uint64_t offset,
                                 std::span<char> destination) {
  if (destination.empty()) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<Queue>> target = FindQueue(queue);
  if (!target.ok()) return target.status();
  absl::StatusOr<DeviceAddress> address = Address(source, offset);
  if (!address.ok()) return address.status();
  const std::vector<char*> blocks = pool_.Take(destination.size());
  if (blocks.empty()) {
    return api_->CopyToHost(destination.data(), *address, destination.size(), (*target)->stream);
  }
  Staged& staged = (*target)->staged;
  staged.blocks.insert(staged.blocks.end(), blocks.begin(), blocks.end());
  for (size_t i = 0, done = 0; done < destination.size(); ++i) {
    const size_t bytes = std::min(PinnedPool::kBlockBytes, destination.size() - done);
    absl::Status copied = api_->CopyToHost(blocks[i], *address + done, bytes, (*target)->stream);
    if (!copied.ok()) return copied;
    staged.arrivals.push_back({blocks[i], destination.data() + done, bytes});
    done += bytes;
  }
  return absl::OkStatus();
}

absl::Status StreamContext::Copy(QueueHandle queue, MemoryHandle source, uint64_t source_offset,
                                 MemoryHandle destination, uint64_t destination_offset,
                                 uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const bool overlaps = source == destination && source_offset < destination_offset + bytes &&
                        destination_offset < source_offset + bytes;
  if (overlaps) {
    return MakeError(v1::BAD_REQUEST,
                     absl::StrCat("a copy of ", bytes, " bytes within one buffer, from offset ",
                                  source_offset, " to ", destination_offset, ", overlaps itself"));
  }
  absl::StatusOr<std::shared_ptr<Queue>> target = FindQueue(queue);
  if (!target.ok()) return target.status();
  absl::StatusOr<DeviceAddress> from = Address(source, source_offset);
  if (!from.ok()) return from.status();
  absl::StatusOr<DeviceAddress> to = Address(destination, destination_offset);
  if (!to.ok()) return to.status();
  return api_->CopyOnDevice(*to, *from, bytes, (*target)->stream);
}

absl::Status StreamContext::Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                                 uint64_t bytes, std::string_view pattern) {
  if (bytes == 0) return absl::OkStatus();
  if (pattern.empty() || bytes % pattern.size() != 0) {
    return MakeError(v1::BAD_REQUEST, absl::StrCat("a fill of ", bytes, " bytes with a pattern of ",
                                                   pattern.size()));
  }
  absl::StatusOr<std::shared_ptr<Queue>> target = FindQueue(queue);
  if (!target.ok()) return target.status();
  absl::StatusOr<DeviceAddress> address = Address(destination, offset);
  if (!address.ok()) return address.status();
  const FillPlan plan = PlanFill(*address, bytes, pattern);
  if (plan.width != 0) {
    return api_->Set(*address, plan.value, plan.width, plan.count, (*target)->stream);
  }
  absl::Status status =
      api_->CopyToDevice(*address, plan.seed.data(), plan.seed.size(), (*target)->stream);
  for (uint64_t done = plan.seed.size(); status.ok() && done < bytes;) {
    const uint64_t next = std::min(done, bytes - done);
    status = api_->CopyOnDevice(*address + done, *address, next, (*target)->stream);
    done += next;
  }
  return status;
}

absl::Status StreamContext::Flush(QueueHandle) {
  return absl::OkStatus();  // these APIs submit what is enqueued at once
}

// ---- markers ------------------------------------------------------------------------------------

absl::StatusOr<NativeEvent> StreamContext::TakeEvent() {
  {
    MutexLock lock(&events_mutex_);
    if (!idle_events_.empty()) {
      const NativeEvent event = idle_events_.back();
      idle_events_.pop_back();
      return event;
    }
  }
  return api_->CreateEvent();
}

absl::StatusOr<MarkerHandle> StreamContext::RecordMarker(QueueHandle queue) {
  absl::StatusOr<std::shared_ptr<Queue>> target = FindQueue(queue);
  if (!target.ok()) return target.status();
  absl::StatusOr<NativeEvent> event = TakeEvent();
  if (!event.ok()) return event.status();
  auto marker = std::make_shared<Marker>();
  marker->event = *event;
  if (absl::Status status = api_->RecordEvent(*event, (*target)->stream); !status.ok()) {
    MutexLock lock(&events_mutex_);
    idle_events_.push_back(*event);
    return status;
  }
  marker->staged = std::exchange((*target)->staged, {});
  return markers_.Insert(std::move(marker));
}

absl::Status StreamContext::AwaitEvent(NativeEvent event) {
  for (int i = 0; i < kPolls; ++i) {
    absl::StatusOr<bool> done = api_->QueryEvent(event);
    if (!done.ok()) return done.status();
    if (*done) return absl::OkStatus();
  }
  return api_->WaitEvent(event);
}

absl::Status StreamContext::WaitMarker(MarkerHandle marker) {
  const auto taken = markers_.Take(marker);
  if (!taken) return Unknown("marker", marker);
  const Marker& done = **taken;
  if (absl::Status status = api_->MakeCurrent(); !status.ok()) return status;
  absl::Status status = AwaitEvent(done.event);
  // After a failure the context is dead and its blocks may still be written to: they stay taken
  // until Close.
  if (status.ok()) {
    for (const Staged::Arrival& arrival : done.staged.arrivals) {
      std::memcpy(arrival.destination, arrival.block, arrival.bytes);
    }
    pool_.GiveBack(done.staged.blocks);
  }
  MutexLock lock(&events_mutex_);
  idle_events_.push_back(done.event);
  return status;
}

// ---- the end ------------------------------------------------------------------------------------

absl::Status StreamContext::Close() {
  std::vector<std::string> failures;
  const auto attempt = [&failures](std::string_view label, const absl::Status& status) {
    if (!status.ok()) {
      failures.push_back(absl::StrCat(AbslView(label), ": ", status.message()));
    }
  };
  attempt("thread", api_->MakeCurrent());
  // The SDK has released all handles; what a failed release left behind goes here, newest first.
  for (const auto& marker : markers_.TakeAll()) attempt("event", api_->DestroyEvent(marker->event));
  for (const auto& queue : queues_.TakeAll()) attempt("stream", api_->DestroyStream(queue->stream));
  kernels_.TakeAll();
  for (const NativeModule module : modules_.TakeAll())
    attempt("module", api_->UnloadModule(module));
  for (const Memory& memory : memories_.TakeAll()) attempt("memory", FreeMemory(memory));
  std::vector<NativeEvent> events;
  {
    MutexLock lock(&events_mutex_);
    events = std::exchange(idle_events_, {});
  }
  for (const NativeEvent event : events) attempt("event", api_->DestroyEvent(event));
  attempt("pinned memory", pool_.Release());
  attempt("context", api_->Close());
  if (failures.empty()) return absl::OkStatus();
  return MakeError(v1::INTERNAL, absl::StrJoin(failures, "; "));
}

}  // namespace kcache::backend::cudalike
