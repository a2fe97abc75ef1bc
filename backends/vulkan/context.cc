#include "backends/vulkan/context.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/vulkan/vulkan_status.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::vulkan {
namespace {

absl::Status Unknown(const char* what, uint64_t handle) {
  return MakeError(v1::INTERNAL, absl::StrCat("no ", what, " has the handle ", handle));
}

}  // namespace

absl::StatusOr<std::unique_ptr<VulkanContext>> VulkanContext::Open(
    std::shared_ptr<Instance> instance, PhysicalDevice physical, v1::DeviceInfo info) {
  auto device = Device::Open(std::move(physical));
  if (!device.ok()) return device.status();
  return std::unique_ptr<VulkanContext>(
      new VulkanContext(std::move(instance), *std::move(device), std::move(info)));
}

VulkanContext::VulkanContext(std::shared_ptr<Instance> instance, std::unique_ptr<Device> device,
                             v1::DeviceInfo info)
    : instance_(std::move(instance)),
      device_(std::move(device)),
      info_(std::move(info)),
      allocator_(std::make_unique<Allocator>(device_.get())) {}

VulkanContext::~VulkanContext() { Close().IgnoreError(); }

absl::Status VulkanContext::Close() {
  if (device_ == nullptr) return absl::OkStatus();
  // A lost device waits for nothing, and its children are destroyed all the same.
  const VkResult idle = device_->vk().DeviceWaitIdle(device_->handle());
  markers_.TakeAll();
  queues_.TakeAll();
  kernels_.TakeAll();
  modules_.TakeAll();
  memory_.TakeAll();
  allocator_.reset();
  device_.reset();
  return ResultStatus(idle, "waiting for the device to become idle");
}

absl::StatusOr<ModuleHandle> VulkanContext::LoadModule(const v1::Artifact& artifact,
                                                       LoadStatistics*) {
  if (artifact.format() != "spirv") {
    return MakeError(v1::BAD_REQUEST, absl::StrCat("Vulkan loads artifacts of format spirv, not ",
                                                   Quoted(artifact.format())));
  }
  auto spirv = SpirvModule::Parse(artifact.binary());
  if (!spirv.ok()) return spirv.status();
  const auto cache = artifact.extra().find("pipeline-cache");
  auto loaded = LoadedModule::Load(
      device_.get(), *std::move(spirv),
      cache != artifact.extra().end() ? std::string_view(cache->second) : std::string_view());
  if (!loaded.ok()) return loaded.status();
  return modules_.Add(*std::move(loaded));
}

absl::Status VulkanContext::UnloadModule(ModuleHandle module) {
  return modules_.Take(module) != nullptr ? absl::OkStatus() : Unknown("module", module);
}

absl::StatusOr<KernelHandle> VulkanContext::ResolveKernel(ModuleHandle module,
                                                          const v1::Specialization& specialization,
                                                          v1::KernelInfo* info,
                                                          LoadStatistics* statistics) {
  std::shared_ptr<LoadedModule> shared = modules_.Find(module);
  if (shared == nullptr) return Unknown("module", module);
  auto kernel = Kernel::Create(std::move(shared), info->entry(), specialization,
                               statistics != nullptr ? &statistics->jit_microseconds : nullptr);
  if (!kernel.ok()) return kernel.status();
  // Sizes may depend on the specialization, so what the artifact said is replaced.
  *info = DescribeEntry((*kernel)->pipeline().entry());
  info->set_max_local_size(device_->physical().limits().maxComputeWorkGroupInvocations);
  return kernels_.Add(*std::move(kernel));
}

absl::Status VulkanContext::ReleaseKernel(KernelHandle kernel) {
  return kernels_.Take(kernel) != nullptr ? absl::OkStatus() : Unknown("kernel", kernel);
}

absl::StatusOr<MemoryHandle> VulkanContext::Allocate(uint64_t bytes, MemoryKind kind) {
  auto allocation = allocator_->Allocate(
      bytes, kind == MemoryKind::kDevice ? MemoryUse::kDevice : MemoryUse::kHost);
  if (!allocation.ok()) return allocation.status();
  return memory_.Add(*std::move(allocation));
}

absl::Status VulkanContext::Free(MemoryHandle memory) {
  return memory_.Take(memory) != nullptr ? absl::OkStatus() : Unknown("memory", memory);
}

absl::StatusOr<QueueHandle> VulkanContext::CreateQueue() {
  auto stream = Stream::Create(device_.get(), allocator_.get(), next_hardware_queue_++);
  if (!stream.ok()) return stream.status();
  return queues_.Add(*std::move(stream));
}

absl::Status VulkanContext::DestroyQueue(QueueHandle queue) {
  const std::shared_ptr<Stream> stream = queues_.Take(queue);
  if (stream == nullptr) return Unknown("queue", queue);
  auto last = stream->Mark();
  return last.ok() ? stream->Wait(*last) : last.status();
}

absl::StatusOr<std::shared_ptr<Stream>> VulkanContext::QueueOf(QueueHandle queue) const {
  std::shared_ptr<Stream> stream = queues_.Find(queue);
  if (stream == nullptr) return Unknown("queue", queue);
  return stream;
}

absl::StatusOr<std::shared_ptr<Allocation>> VulkanContext::RangeOf(MemoryHandle memory,
                                                                   uint64_t offset,
                                                                   uint64_t bytes) const {
  std::shared_ptr<Allocation> allocation = memory_.Find(memory);
  if (allocation == nullptr) return Unknown("memory", memory);
  if (offset > allocation->bytes() || bytes > allocation->bytes() - offset) {
    return MakeError(v1::BUFFER_OUT_OF_RANGE,
                     absl::StrCat("bytes ", offset, " to ", offset, " + ", bytes,
                                  " of a buffer that has ", allocation->bytes()));
  }
  return allocation;
}

absl::Status VulkanContext::BindArguments(const LaunchCommand& command, Dispatch* dispatch,
                                          std::string* push_constants) const {
  const VkPhysicalDeviceLimits& limits = device_->physical().limits();
  const ShaderEntry& entry = dispatch->pipeline->entry();
  const std::vector<DescriptorSlot>& slots = dispatch->pipeline->slots();
  const auto refuse = [](size_t i, const std::string& why) {
    return MakeError(v1::INVALID_ARGUMENTS, absl::StrCat("argument ", i, ": ", why));
  };
  push_constants->assign(command.push_constants);
  const bool as_scalars = command.arguments.size() > slots.size();
  const size_t expected = slots.size() + (as_scalars ? entry.push_constants.size() : 0);
  if (command.arguments.size() != expected || (as_scalars && !command.push_constants.empty())) {
    return MakeError(
        v1::INVALID_ARGUMENTS,
        absl::StrCat(command.arguments.size(), " arguments and ", command.push_constants.size(),
                     " bytes of push constants; ", Quoted(entry.name), " takes ", slots.size(),
                     " buffers, and ", entry.push_constants.size(), " scalars or their block of ",
                     entry.push_constant_bytes, " bytes"));
  }
  if (as_scalars) push_constants->assign(entry.push_constant_bytes, '\0');
  if (push_constants->size() != entry.push_constant_bytes) {
    return MakeError(v1::INVALID_ARGUMENTS,
                     absl::StrCat(push_constants->size(), " bytes of push constants; ",
                                  Quoted(entry.name), " takes ", entry.push_constant_bytes));
  }
  for (size_t i = 0; i < command.arguments.size(); ++i) {
    const KernelArgument& argument = command.arguments[i];
    if (i >= slots.size()) {
      const PushConstantMember& member = entry.push_constants[i - slots.size()];
      if (argument.kind != KernelArgument::Kind::kScalar ||
          argument.scalar.size() != member.bytes) {
        return refuse(i, absl::StrCat("push constant ", Quoted(member.name), " is a scalar of ",
                                      member.bytes, " bytes"));
      }
      std::memcpy(push_constants->data() + member.offset, argument.scalar.data(), member.bytes);
      continue;
    }
    if (argument.kind != KernelArgument::Kind::kBuffer) return refuse(i, "must be a buffer");
    auto allocation = RangeOf(argument.memory, argument.offset, argument.bytes);
    if (!allocation.ok()) return Annotate(allocation.status(), absl::StrCat("argument ", i));
    const bool uniform = slots[i].type == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
    const uint64_t alignment =
        uniform ? limits.minUniformBufferOffsetAlignment : limits.minStorageBufferOffsetAlignment;
    const uint64_t most = uniform ? limits.maxUniformBufferRange : limits.maxStorageBufferRange;
    if (alignment > 1 && argument.offset % alignment != 0) {
      return refuse(i, absl::StrCat("offset ", argument.offset, " is no multiple of ", alignment,
                                    uniform ? " (minUniformBufferOffsetAlignment)"
                                            : " (minStorageBufferOffsetAlignment)"));
    }
    // The end of a buffer is rounded up to what it really has, so that a shader can write its last,
    // incomplete word.
    uint64_t bytes = argument.bytes;
    if (argument.offset + bytes == (*allocation)->bytes()) {
      bytes = (*allocation)->padded_bytes() - argument.offset;
    }
    if (bytes == 0 || bytes > most) {
      return refuse(
          i, absl::StrCat(bytes, " bytes; a shader can see 1 to ", most,
                          uniform ? " (maxUniformBufferRange)" : " (maxStorageBufferRange)"));
    }
    dispatch->buffers.push_back({*std::move(allocation), argument.offset, bytes});
  }
  dispatch->push_constants = *push_constants;
  return absl::OkStatus();
}

absl::Status VulkanContext::Launch(QueueHandle queue, const LaunchCommand& command) {
  auto stream = QueueOf(queue);
  if (!stream.ok()) return stream.status();
  const std::shared_ptr<Kernel> kernel = kernels_.Find(command.kernel);
  if (kernel == nullptr) return Unknown("kernel", command.kernel);
  Dispatch dispatch;
  uint64_t jit_microseconds = 0;
  absl::Status prepared =
      kernel->Prepare(command, device_->physical().limits(), &dispatch, &jit_microseconds);
  if (!prepared.ok()) return prepared;
  if (jit_microseconds > 0) ++late_compiles_;
  std::string push_constants;
  absl::Status bound = BindArguments(command, &dispatch, &push_constants);
  if (!bound.ok()) return bound;
  return (*stream)->Launch(dispatch);
}

absl::Status VulkanContext::Write(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                                  std::string_view data) {
  auto stream = QueueOf(queue);
  if (!stream.ok()) return stream.status();
  auto allocation = RangeOf(destination, offset, data.size());
  if (!allocation.ok()) return allocation.status();
  return (*stream)->Write(*allocation, offset, data);
}

absl::Status VulkanContext::Read(QueueHandle queue, MemoryHandle source, uint64_t offset,
                                 std::span<char> destination) {
  auto stream = QueueOf(queue);
  if (!stream.ok()) return stream.status();
  auto allocation = RangeOf(source, offset, destination.size());
  if (!allocation.ok()) return allocation.status();
  return (*stream)->Read(*allocation, offset, destination);
}

absl::Status VulkanContext::Copy(QueueHandle queue, MemoryHandle source, uint64_t source_offset,
                                 MemoryHandle destination, uint64_t destination_offset,
                                 uint64_t bytes) {
  auto stream = QueueOf(queue);
  if (!stream.ok()) return stream.status();
  auto from = RangeOf(source, source_offset, bytes);
  if (!from.ok()) return from.status();
  auto to = RangeOf(destination, destination_offset, bytes);
  if (!to.ok()) return to.status();
  if (bytes == 0) return absl::OkStatus();
  if (*from == *to && source_offset < destination_offset + bytes &&
      destination_offset < source_offset + bytes) {
    return MakeError(
        v1::BAD_REQUEST,
        absl::StrCat("a copy within one buffer whose source (", source_offset,
                     ") and destination (", destination_offset, ") overlap: ", bytes, " bytes"));
  }
  return (*stream)->Copy(*from, source_offset, *to, destination_offset, bytes);
}

absl::Status VulkanContext::Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                                 uint64_t bytes, std::string_view pattern) {
  auto stream = QueueOf(queue);
  if (!stream.ok()) return stream.status();
  auto allocation = RangeOf(destination, offset, bytes);
  if (!allocation.ok()) return allocation.status();
  constexpr size_t kPatterns[] = {1, 2, 4, 8, 16};
  if (std::find(std::begin(kPatterns), std::end(kPatterns), pattern.size()) ==
          std::end(kPatterns) ||
      bytes % pattern.size() != 0) {
    return MakeError(v1::BAD_REQUEST,
                     absl::StrCat("a fill of ", bytes, " bytes with a pattern of ", pattern.size(),
                                  "; patterns have 1, 2, 4, 8 or 16 bytes and fit evenly"));
  }
  return (*stream)->Fill(*allocation, offset, bytes, pattern);
}

absl::Status VulkanContext::Flush(QueueHandle queue) {
  auto stream = QueueOf(queue);
  if (!stream.ok()) return stream.status();
  return (*stream)->Flush();
}

absl::StatusOr<MarkerHandle> VulkanContext::RecordMarker(QueueHandle queue) {
  auto stream = QueueOf(queue);
  if (!stream.ok()) return stream.status();
  auto value = (*stream)->Mark();
  if (!value.ok()) return value.status();
  auto marker = std::make_shared<Marker>();
  marker->stream = *std::move(stream);
  marker->value = *value;
  return markers_.Add(std::move(marker));
}

absl::Status VulkanContext::WaitMarker(MarkerHandle marker) {
  const std::shared_ptr<Marker> taken = markers_.Take(marker);
  if (taken == nullptr) return Unknown("marker", marker);
  return taken->stream->Wait(taken->value);
}

}  // namespace kcache::backend::vulkan
