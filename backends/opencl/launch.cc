// Launching kernels, and giving them their arguments.

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/opencl/cl_status.h"
#include "backends/opencl/context.h"
#include "backends/opencl/staging.h"

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

struct OpenClContext::StagedPart {
  StagedRange range;
  std::shared_ptr<DeviceMemory> source;
  std::unique_ptr<DeviceMemory> copy;
};

absl::Status OpenClContext::StageIn(cl_command_queue queue,
                                    std::span<const KernelArgument> arguments,
                                    std::vector<StagedPart>* staged) {
  absl::StatusOr<std::vector<StagedRange>> ranges = PlanStaging(arguments, sub_buffer_alignment_);
  if (!ranges.ok()) return ranges.status();
  for (const StagedRange& range : *ranges) {
    absl::StatusOr<std::shared_ptr<DeviceMemory>> source = BufferOf(range.memory);
    if (!source.ok()) return source.status();
    const uint64_t bytes = range.end - range.begin;
    const std::string what = "staging " + std::to_string(bytes) + " bytes at offset " +
                             std::to_string(range.begin) + ", which is no multiple of " +
                             std::to_string(sub_buffer_alignment_);
    cl_int error = CL_SUCCESS;
    ClMemory copy(clCreateBuffer(context_.get(), CL_MEM_READ_WRITE, bytes, nullptr, &error));
    if (error != CL_SUCCESS) return FromCl(error, what);
    error = clEnqueueCopyBuffer(queue, (*source)->get(), copy.get(), range.begin, 0, bytes, 0,
                                nullptr, nullptr);
    if (error != CL_SUCCESS) return FromCl(error, what);
    staged->push_back({range, *std::move(source),
                       std::make_unique<DeviceMemory>(std::move(copy), bytes, /*is_image=*/false,
                                                      sub_buffer_alignment_)});
  }
  return absl::OkStatus();
}

absl::Status OpenClContext::StageOut(cl_command_queue queue, std::vector<StagedPart>* staged) {
  absl::Status first;
  for (StagedPart& part : *staged) {
    first.Update(FromCl(clEnqueueCopyBuffer(queue, part.copy->get(), part.source->get(), 0,
                                            part.range.begin, part.range.end - part.range.begin, 0,
                                            nullptr, nullptr),
                        "copying a staged part back"));
  }
  // The driver keeps what enqueued commands use.
  for (StagedPart& part : *staged) first.Update(part.copy->Release());
  return first;
}

absl::Status OpenClContext::SetArgument(QueueBinding* binding, cl_uint index,
                                        const KernelArgument& argument,
                                        std::vector<StagedPart>* staged) {
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
      for (StagedPart& part : *staged) {
        if (!part.range.Holds(argument)) continue;
        const uint64_t offset = argument.offset - part.range.begin;
        absl::StatusOr<cl_mem> view = part.copy->View(offset, argument.bytes);
        if (!view.ok()) return Annotate(view.status(), "argument " + std::to_string(index));
        return set(sizeof(cl_mem), &*view);
      }
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

  std::vector<StagedPart> staged;
  if (NeedsStaging(command.arguments, sub_buffer_alignment_)) {
    if (absl::Status status = StageIn(cl_queue->get(), command.arguments, &staged); !status.ok()) {
      return Annotate(status, "kernel " + kernel->info().entry());
    }
  }
  if (absl::Status status = SetArguments(&binding, command.arguments, &staged); !status.ok()) {
    return Annotate(status, "kernel " + kernel->info().entry());
  }
  if (absl::Status status = Enqueue(cl_queue->get(), kernel.get(), binding, command);
      !status.ok()) {
    return status;
  }
  return StageOut(cl_queue->get(), &staged);
}

absl::Status OpenClContext::SetArguments(QueueBinding* binding,
                                         std::span<const KernelArgument> arguments,
                                         std::vector<StagedPart>* staged) {
  if (binding->arguments.size() != arguments.size()) {
    binding->arguments.assign(arguments.size(), {});
  }
  for (cl_uint index = 0; index < arguments.size(); ++index) {
    const KernelArgument& argument = arguments[index];
    BoundArgument& bound = binding->arguments[index];
    if (bound.Is(argument)) continue;
    bound.is_set = false;
    if (absl::Status status = SetArgument(binding, index, argument, staged); !status.ok()) {
      return status;
    }
    // A staged part is this launch's alone.
    const bool lasts = std::none_of(staged->begin(), staged->end(), [&](const StagedPart& part) {
      return part.range.Holds(argument);
    });
    if (lasts) bound.Become(argument);
  }
  return absl::OkStatus();
}

absl::Status OpenClContext::Enqueue(cl_command_queue queue, LoadedKernel* kernel,
                                    const QueueBinding& binding, const LaunchCommand& command) {
  const std::array<size_t, 3> global = Sizes(command.global);
  // Where the driver may choose, a size that needs no compiling is the best choice.
  const Extent local =
      command.driver_picks_local ? kernel->FinishedDivisorOf(command.global) : command.local;
  const std::array<size_t, 3> local_sizes = Sizes(local);
  const std::array<size_t, 3> offset = Sizes(command.global_offset);
  if (is_pocl_) CountLateCompile(kernel, command, local);

  const cl_uint dimensions = Dimensions(command, command.global);
  for (uint32_t i = 0; i < command.repeat; ++i) {
    const cl_int error =
        clEnqueueNDRangeKernel(queue, binding.kernel.get(), dimensions,
                               command.has_global_offset ? offset.data() : nullptr, global.data(),
                               IsZero(local) ? nullptr : local_sizes.data(), 0, nullptr, nullptr);
    if (error != CL_SUCCESS) {
      return WithDriverMessage(FromCl(error, "launching kernel " + kernel->info().entry()));
    }
  }
  return absl::OkStatus();
}

}  // namespace kcache::backend::opencl
