// Launching kernels, and giving them their arguments.

#include <array>
#include <cstring>
#include <limits>

#include "backends/opencl/cl_status.h"
#include "backends/opencl/context.h"

namespace kcache::backend::opencl {
namespace {

// get_work_dim() must be what the caller meant; where that was not told, trailing ones are dropped.
cl_uint Dimensions(const LaunchCommand& command, const Extent& global) {
  if (command.dimensions != 0) return command.dimensions;
  return global.z > 1 ? 3 : global.y > 1 ? 2 : 1;
}

std::array<size_t, 3> Sizes(const Extent& extent) { return {extent.x, extent.y, extent.z}; }

bool IsZero(const Extent& extent) { return extent.x == 0 && extent.y == 0 && extent.z == 0; }

cl_addressing_mode AddressingOf(v1::SamplerAddressing addressing) {
  switch (addressing) {
    case v1::ADDRESSING_CLAMP_TO_EDGE:
      return CL_ADDRESS_CLAMP_TO_EDGE;
    case v1::ADDRESSING_CLAMP:
      return CL_ADDRESS_CLAMP;
    case v1::ADDRESSING_REPEAT:
      return CL_ADDRESS_REPEAT;
    case v1::ADDRESSING_MIRRORED_REPEAT:
      return CL_ADDRESS_MIRRORED_REPEAT;
    default:
      return CL_ADDRESS_NONE;
  }
}

}  // namespace

absl::StatusOr<cl_sampler> OpenClContext::SamplerFor(const v1::Sampler& sampler) {
  const SamplerKey key(sampler.normalized_coordinates(), sampler.addressing(), sampler.linear());
  {
    MutexLock lock(&mutex_);
    if (const auto found = samplers_.find(key); found != samplers_.end())
      return found->second.get();
  }
  cl_int error = CL_SUCCESS;
  ClSampler made(clCreateSampler(context_.get(),
                                 sampler.normalized_coordinates() ? CL_TRUE : CL_FALSE,
                                 AddressingOf(sampler.addressing()),
                                 sampler.linear() ? CL_FILTER_LINEAR : CL_FILTER_NEAREST, &error));
  if (error != CL_SUCCESS) return FromCl(error, "clCreateSampler");
  MutexLock lock(&mutex_);
  return samplers_.emplace(key, std::move(made)).first->second.get();
}

absl::Status OpenClContext::SetArgument(QueueBinding* binding, cl_uint index,
                                        const KernelArgument& argument) {
  const auto set = [&](size_t bytes, const void* value) {
    const cl_int error = clSetKernelArg(binding->kernel.get(), index, bytes, value);
    if (error == CL_SUCCESS) return absl::OkStatus();
    return FromCl(error, "argument " + std::to_string(index));
  };
  switch (argument.kind) {
    case KernelArgument::Kind::kScalar:
      return set(argument.scalar.size(), argument.scalar.data());
    case KernelArgument::Kind::kLocalMemory:
      return set(argument.bytes, nullptr);
    case KernelArgument::Kind::kBuffer: {
      absl::StatusOr<std::shared_ptr<DeviceMemory>> memory = BufferOf(argument.memory);
      if (!memory.ok()) return memory.status();
      absl::StatusOr<cl_mem> view = (*memory)->View(argument.offset, argument.bytes);
      if (!view.ok()) return Annotate(view.status(), "argument " + std::to_string(index));
      return set(sizeof(cl_mem), &*view);
    }
    case KernelArgument::Kind::kImage: {
      absl::StatusOr<std::shared_ptr<DeviceMemory>> memory = ImageOf(argument.memory);
      if (!memory.ok()) return memory.status();
      const cl_mem image = (*memory)->get();
      return set(sizeof(image), &image);
    }
    case KernelArgument::Kind::kSampler: {
      absl::StatusOr<cl_sampler> sampler = SamplerFor(*argument.sampler);
      if (!sampler.ok()) return sampler.status();
      return set(sizeof(cl_sampler), &*sampler);
    }
  }
  return MakeError(v1::INTERNAL, "unknown kind of argument");
}

void OpenClContext::CountLateCompile(LoadedKernel* kernel, const LaunchCommand& command,
                                     const Extent& local) {
  const bool has_offset = command.has_global_offset && !IsZero(command.global_offset);
  if (!has_offset && kernel->FinishedFor(local)) return;
  if (kernel->FirstLaunchWith(local, has_offset))
    late_compiles_.fetch_add(1, std::memory_order_relaxed);
}

absl::Status OpenClContext::Launch(QueueHandle queue, const LaunchCommand& command) {
  const std::shared_ptr<ClQueue> cl_queue = queues_.Find(queue);
  const std::shared_ptr<LoadedKernel> kernel = kernels_.Find(command.kernel);
  if (cl_queue == nullptr || kernel == nullptr) {
    return MakeError(v1::INTERNAL, "a launch on queue " + std::to_string(queue) + " of kernel " +
                                       std::to_string(command.kernel) +
                                       ", one of which is not there");
  }
  absl::StatusOr<QueueBinding*> found = kernel->BindingOf(queue);
  if (!found.ok()) return found.status();
  QueueBinding& binding = **found;

  if (binding.arguments.size() != command.arguments.size()) {
    binding.arguments.assign(command.arguments.size(), {});
  }
  for (cl_uint index = 0; index < command.arguments.size(); ++index) {
    const KernelArgument& argument = command.arguments[index];
    BoundArgument& bound = binding.arguments[index];
    if (bound.Is(argument)) continue;
    bound.is_set = false;
    if (absl::Status status = SetArgument(&binding, index, argument); !status.ok()) {
      return Annotate(status, "kernel " + kernel->info().entry());
    }
    bound.Become(argument);
  }

  const std::array<size_t, 3> global = Sizes(command.global);
  // Where the driver may choose, a size that needs no compiling is the best choice.
  const Extent local =
      command.driver_picks_local ? kernel->FinishedDivisorOf(command.global) : command.local;
  const std::array<size_t, 3> local_sizes = Sizes(local);
  const std::array<size_t, 3> offset = Sizes(command.global_offset);
  if (is_pocl_) CountLateCompile(kernel.get(), command, local);

  const cl_uint dimensions = Dimensions(command, command.global);
  for (uint32_t i = 0; i < command.repeat; ++i) {
    const cl_int error =
        clEnqueueNDRangeKernel(cl_queue->get(), binding.kernel.get(), dimensions,
                               command.has_global_offset ? offset.data() : nullptr, global.data(),
                               IsZero(local) ? nullptr : local_sizes.data(), 0, nullptr, nullptr);
    if (error != CL_SUCCESS) {
      return WithDriverMessage(FromCl(error, "launching kernel " + kernel->info().entry()));
    }
  }
  return absl::OkStatus();
}

}  // namespace kcache::backend::opencl
