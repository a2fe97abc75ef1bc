// Modules, kernels, queues and markers, and the context's own life. Launches are in launch.cc,
// memory and transfers in transfers.cc, images in images.cc.

#include "backends/opencl/context.h"

#include <algorithm>
#include <chrono>

#include "backends/opencl/build_input.h"
#include "backends/opencl/cl_info.h"
#include "backends/opencl/cl_status.h"
#include "backends/opencl/program_build.h"
#include "backends/opencl/reflection.h"
#include "contract/strings.h"

namespace kcache::backend::opencl {

OpenClContext::OpenClContext(const CatalogDevice& device, const v1::DeviceInfo& info)
    : catalog_device_(device),
      info_(info),
      is_pocl_(IsPocl(device.platform)),
      sub_buffer_alignment_(std::max<uint64_t>(info.limits().buffer_offset_alignment(), 1)) {}

absl::StatusOr<std::unique_ptr<OpenClContext>> OpenClContext::Open(const CatalogDevice& device,
                                                                   const v1::DeviceInfo& info) {
  std::unique_ptr<OpenClContext> context(new OpenClContext(device, info));
  cl_int error = CL_SUCCESS;
  context->context_ = ClContext(
      clCreateContext(nullptr, 1, &device.device, &OnDriverMessage, context.get(), &error));
  if (error != CL_SUCCESS) return FromCl(error, "clCreateContext on " + info.name());
  context->setup_queue_ =
      ClQueue(clCreateCommandQueue(context->context_.get(), device.device, 0, &error));
  if (error != CL_SUCCESS) return FromCl(error, "clCreateCommandQueue on " + info.name());
  return context;
}

OpenClContext::~OpenClContext() { Close().IgnoreError(); }

absl::StatusOr<ModuleHandle> OpenClContext::LoadModule(const v1::Artifact& artifact,
                                                       LoadStatistics* statistics) {
  if (artifact.architecture() != info_.architecture()) {
    return MakeError(v1::UNSUPPORTED_ARCHITECTURE, "the artifact is for " +
                                                       Quoted(artifact.architecture()) +
                                                       ", this device is " + info_.architecture());
  }
  const auto found = artifact.extra().find(kLoadOptionsKey);
  const std::string options = found == artifact.extra().end() ? std::string() : found->second;
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<BuiltProgram> built = BuildProgram(
      context_.get(), catalog_device_, ProgramForm::kBinary, artifact.binary(), options, 64 << 10);
  if (!built.ok()) return built.status();
  // PoCL only unpacks here. Elsewhere a binary may be an intermediate form (NVIDIA's is PTX), and
  // what the driver does with it cannot be told apart, so all of it counts.
  if (!is_pocl_) {
    statistics->jit_microseconds +=
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                  std::chrono::steady_clock::now() - start)
                                  .count());
  }
  return AdoptProgram(std::move(built->program));
}

ModuleHandle OpenClContext::AdoptProgram(ClProgram program) {
  const ModuleHandle handle = NextHandle();
  modules_.Insert(handle, std::make_shared<ClProgram>(std::move(program)));
  return handle;
}

absl::Status OpenClContext::UnloadModule(ModuleHandle module) {
  absl::StatusOr<std::shared_ptr<ClProgram>> program = modules_.Take(module);
  if (!program.ok()) return program.status();
  return FromCl((*program)->reset(), "clReleaseProgram");
}

absl::StatusOr<KernelHandle> OpenClContext::ResolveKernel(ModuleHandle module,
                                                          const v1::Specialization&,
                                                          v1::KernelInfo* info, LoadStatistics*) {
  absl::StatusOr<std::shared_ptr<ClProgram>> program = modules_.Get(module);
  if (!program.ok()) return program.status();
  if (info->lowered_name().empty()) info->set_lowered_name(info->entry());
  cl_int error = CL_SUCCESS;
  const ClKernel kernel(clCreateKernel((*program)->get(), info->lowered_name().c_str(), &error));
  if (error == CL_INVALID_KERNEL_NAME) {
    const std::string names = InfoText([&](size_t size, void* value, size_t* returned) {
      return clGetProgramInfo((*program)->get(), CL_PROGRAM_KERNEL_NAMES, size, value, returned);
    });
    return MakeError(v1::UNKNOWN_ENTRY, "no kernel " + Quoted(info->entry()) +
                                            "; the program has " +
                                            (names.empty() ? "none" : names));
  }
  if (error != CL_SUCCESS) return FromCl(error, "clCreateKernel(" + info->lowered_name() + ")");

  absl::StatusOr<v1::KernelInfo> loaded = ReflectKernel(kernel.get(), catalog_device_.device);
  if (!loaded.ok()) return loaded.status();
  if (!info->arguments_known()) {
    info->set_arguments_known(loaded->arguments_known());
    *info->mutable_arguments() = loaded->arguments();
    *info->mutable_required_local_size() = loaded->required_local_size();
  }
  info->set_local_memory_bytes(loaded->local_memory_bytes());
  info->set_private_memory_bytes(loaded->private_memory_bytes());
  info->set_max_local_size(loaded->max_local_size());

  const KernelHandle handle = NextHandle();
  kernels_.Insert(handle, std::make_shared<LoadedKernel>((*program)->get(), *info));
  return handle;
}

absl::Status OpenClContext::ReleaseKernel(KernelHandle kernel) {
  absl::StatusOr<std::shared_ptr<LoadedKernel>> loaded = kernels_.Take(kernel);
  if (!loaded.ok()) return loaded.status();
  return (*loaded)->Release();
}

absl::StatusOr<QueueHandle> OpenClContext::CreateQueue() {
  cl_int error = CL_SUCCESS;
  ClQueue queue(clCreateCommandQueue(context_.get(), catalog_device_.device, 0, &error));
  if (error != CL_SUCCESS) return FromCl(error, "clCreateCommandQueue");
  const QueueHandle handle = NextHandle();
  queues_.Insert(handle, std::make_shared<ClQueue>(std::move(queue)));
  return handle;
}

absl::Status OpenClContext::DestroyQueue(QueueHandle queue) {
  absl::StatusOr<std::shared_ptr<ClQueue>> taken = queues_.Take(queue);
  if (!taken.ok()) return taken.status();
  return FromCl((*taken)->reset(), "clReleaseCommandQueue");
}

absl::Status OpenClContext::Flush(QueueHandle queue) {
  absl::StatusOr<std::shared_ptr<ClQueue>> found = queues_.Get(queue);
  if (!found.ok()) return found.status();
  return FromCl(clFlush((*found)->get()), "clFlush");
}

absl::StatusOr<MarkerHandle> OpenClContext::RecordMarker(QueueHandle queue) {
  absl::StatusOr<std::shared_ptr<ClQueue>> found = queues_.Get(queue);
  if (!found.ok()) return found.status();
  cl_event event = nullptr;
  const cl_int error = clEnqueueMarkerWithWaitList((*found)->get(), 0, nullptr, &event);
  if (error != CL_SUCCESS) return WithDriverMessage(FromCl(error, "clEnqueueMarkerWithWaitList"));
  const MarkerHandle handle = NextHandle();
  markers_.Insert(handle, std::make_shared<ClEvent>(event));
  return handle;
}

absl::Status OpenClContext::WaitMarker(MarkerHandle marker) {
  absl::StatusOr<std::shared_ptr<ClEvent>> taken = markers_.Take(marker);
  if (!taken.ok()) return taken.status();
  const cl_event event = (*taken)->get();
  const cl_int error = clWaitForEvents(1, &event);
  if (error == CL_SUCCESS) return absl::OkStatus();
  cl_int status = CL_COMPLETE;
  clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr);
  return WithDriverMessage(
      FromCompletedCommand(status < 0 ? status : error, "a command of this queue failed"));
}

absl::Status OpenClContext::Close() {
  if (closed_) return absl::OkStatus();
  closed_ = true;
  absl::Status first;
  for (const auto& kernel : kernels_.TakeAll()) first.Update(kernel->Release());
  for (const auto& program : modules_.TakeAll())
    first.Update(FromCl(program->reset(), "clReleaseProgram"));
  for (const auto& memory : memory_.TakeAll()) first.Update(memory->Release());
  std::map<SamplerKey, ClSampler> samplers;
  {
    MutexLock lock(&mutex_);
    samplers.swap(samplers_);
  }
  for (auto& [key, sampler] : samplers) first.Update(FromCl(sampler.reset(), "clReleaseSampler"));
  for (const auto& event : markers_.TakeAll())
    first.Update(FromCl(event->reset(), "clReleaseEvent"));
  for (const auto& queue : queues_.TakeAll()) {
    first.Update(FromCl(queue->reset(), "clReleaseCommandQueue"));
  }
  first.Update(FromCl(setup_queue_.reset(), "clReleaseCommandQueue"));
  first.Update(FromCl(context_.reset(), "clReleaseContext"));
  return first;
}

void CL_CALLBACK OpenClContext::OnDriverMessage(const char* message, const void*, size_t,
                                                void* self) {
  auto* context = static_cast<OpenClContext*>(self);
  MutexLock lock(&context->mutex_);
  context->driver_message_ = message == nullptr ? "" : message;
}

std::string OpenClContext::DriverMessage() const {
  MutexLock lock(&mutex_);
  return driver_message_;
}

absl::Status OpenClContext::WithDriverMessage(const absl::Status& status) const {
  const std::string message = DriverMessage();
  return status.ok() || message.empty() ? status : Annotate(status, "the driver says: " + message);
}

}  // namespace kcache::backend::opencl
