#include "tests/corpus/vkfft/opencl_over_kcache.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "tests/corpus/vkfft/vendor.h"

// OpenCL's handles point to these.
struct _cl_device_id {
  kcache::DeviceInfo info;
};
struct _cl_context {};
struct _cl_command_queue {
  kcache::Queue queue;
};
struct _cl_mem {
  kcache::Buffer buffer;
};
struct _cl_program {
  std::string source;
};
struct _cl_kernel {
  struct Argument {
    std::string bytes;
    cl_mem memory = nullptr;
  };
  kcache::Kernel kernel;
  std::vector<Argument> arguments;
};

namespace kcache::corpus {
namespace {

// OpenCL's functions have no state to pass, so there is one of these a process.
struct State {
  Client* client = nullptr;
  _cl_device_id device;
  _cl_context context;
  _cl_command_queue queue;
  Counts counts;
  absl::Status failure;
};
State* state = nullptr;

cl_int Answer(const absl::Status& status, cl_int failure = CL_INVALID_OPERATION) {
  if (status.ok()) return CL_SUCCESS;
  state->failure.Update(status);
  return failure;
}

template <class T>
cl_int Give(const T& value, size_t size, void* to, size_t* returned) {
  if (returned != nullptr) *returned = sizeof value;
  if (to == nullptr) return CL_SUCCESS;
  if (size < sizeof value) return CL_INVALID_VALUE;
  std::memcpy(to, &value, sizeof value);
  return CL_SUCCESS;
}

Dim3 Extent(const size_t* sizes, cl_uint dimensions) {
  const auto at = [&](cl_uint i) { return i < dimensions ? static_cast<uint32_t>(sizes[i]) : 1u; };
  return {at(0), at(1), at(2)};
}

}  // namespace

OpenClOverKcache::OpenClOverKcache(const Place& place) {
  state = new State;
  state->client = place.client;
  state->device.info = *place.device;
  auto queue = place.client->GetQueue(state->device.info.id);
  if (queue.ok()) {
    state->queue.queue = *queue;
  } else {
    state->failure = queue.status();
  }
}

OpenClOverKcache::~OpenClOverKcache() {
  delete state;
  state = nullptr;
}

cl_device_id OpenClOverKcache::device() { return &state->device; }
cl_context OpenClOverKcache::context() { return &state->context; }
cl_command_queue OpenClOverKcache::queue() { return &state->queue; }
const Counts& OpenClOverKcache::counts() const { return state->counts; }
const absl::Status& OpenClOverKcache::failure() const { return state->failure; }

cl_mem OpenClOverKcache::Allocate(size_t bytes) {
  return clCreateBuffer(context(), CL_MEM_READ_WRITE, bytes, nullptr, nullptr);
}

absl::Status OpenClOverKcache::Write(cl_mem memory, const void* data, size_t bytes) {
  return memory->buffer.Write(state->queue.queue, 0, {static_cast<const std::byte*>(data), bytes});
}

absl::Status OpenClOverKcache::Read(cl_mem memory, void* data, size_t bytes) {
  return memory->buffer.Read(state->queue.queue, 0, {static_cast<std::byte*>(data), bytes});
}

void OpenClOverKcache::Release(cl_mem memory) { clReleaseMemObject(memory); }

}  // namespace kcache::corpus

using kcache::corpus::Answer;
using kcache::corpus::Give;
using kcache::corpus::state;

extern "C" {

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t size, void* value,
                       size_t* returned) {
  const kcache::DeviceLimits& limits = device->info.limits;
  switch (name) {
    case CL_DEVICE_VENDOR_ID:
      return Give(cl_uint{kcache::corpus::PciVendor(device->info)}, size, value, returned);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
      return Give(size_t{limits.max_local_size}, size, value, returned);
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS:
      return Give(cl_uint{3}, size, value, returned);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: {
      const kcache::Dim3& most = limits.max_local_dims;
      const size_t sizes[3] = {most.x, most.y, most.z};
      return Give(sizes, size, value, returned);
    }
    case CL_DEVICE_LOCAL_MEM_SIZE:
      return Give(cl_ulong{limits.local_memory_bytes}, size, value, returned);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_command_queue_properties,
                                      cl_int* error) {
  if (error != nullptr) *error = CL_SUCCESS;
  return &state->queue;
}

cl_int clReleaseCommandQueue(cl_command_queue) { return CL_SUCCESS; }

cl_int clFinish(cl_command_queue queue) { return Answer(queue->queue.Synchronize()); }

cl_mem clCreateBuffer(cl_context, cl_mem_flags flags, size_t size, void* data, cl_int* error) {
  auto buffer = state->client->Allocate(state->device.info.id, size);
  absl::Status status = buffer.status();
  if (status.ok() && (flags & CL_MEM_COPY_HOST_PTR) != 0) {
    status = buffer->Write(state->queue.queue, 0, {static_cast<const std::byte*>(data), size});
  }
  if (error != nullptr) *error = Answer(status, CL_MEM_OBJECT_ALLOCATION_FAILURE);
  return status.ok() ? new _cl_mem{*std::move(buffer)} : nullptr;
}

cl_int clReleaseMemObject(cl_mem memory) {
  delete memory;
  return CL_SUCCESS;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool, size_t offset,
                            size_t size, const void* data, cl_uint, const cl_event*, cl_event*) {
  return Answer(
      memory->buffer.Write(queue->queue, offset, {static_cast<const std::byte*>(data), size}));
}

cl_program clCreateProgramWithSource(cl_context, cl_uint, const char** texts, const size_t*,
                                     cl_int* error) {
  *error = CL_SUCCESS;
  return new _cl_program{texts[0]};  // VkFFT's lengths count its whole buffer
}

cl_program clCreateProgramWithBinary(cl_context, cl_uint, const cl_device_id*, const size_t*,
                                     const unsigned char**, cl_int*, cl_int* error) {
  *error = CL_INVALID_OPERATION;  // plans are not saved here
  return nullptr;
}

// Compiling is the acquire's, in clCreateKernel.
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id*, const char*,
                      void(CL_CALLBACK*)(cl_program, void*), void*) {
  return CL_SUCCESS;
}

cl_int clGetProgramBuildInfo(cl_program, cl_device_id, cl_program_build_info, size_t, void*,
                             size_t* returned) {
  if (returned != nullptr) *returned = 0;
  return CL_SUCCESS;
}

cl_int clGetProgramInfo(cl_program, cl_program_info, size_t, void*, size_t*) {
  return CL_INVALID_OPERATION;
}

cl_int clReleaseProgram(cl_program program) {
  delete program;
  return CL_SUCCESS;
}

cl_kernel clCreateKernel(cl_program program, const char* name, cl_int* error) {
  ++state->counts.programs;
  auto source = kcache::Program::FromSource("opencl-c", program->source);
  if (!source.ok()) {
    *error = Answer(source.status());
    return nullptr;
  }
  auto kernel =
      state->client->Acquire({.program = *source, .entry = name, .device = state->device.info.id});
  *error = Answer(kernel.status(), CL_BUILD_PROGRAM_FAILURE);
  if (!kernel.ok()) return nullptr;
  ++state->counts.compiled;
  auto* made = new _cl_kernel;
  made->arguments.resize(kernel->info().arguments.size());
  made->kernel = *std::move(kernel);
  return made;
}

cl_int clReleaseKernel(cl_kernel kernel) {
  delete kernel;
  return CL_SUCCESS;
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void* value) {
  if (index >= kernel->arguments.size()) return CL_INVALID_ARG_INDEX;
  _cl_kernel::Argument& argument = kernel->arguments[index];
  argument = {};
  if (kernel->kernel.info().arguments[index].kind == kcache::ArgumentKind::kBuffer) {
    std::memcpy(&argument.memory, value, sizeof argument.memory);
  } else {
    argument.bytes.assign(static_cast<const char*>(value), size);
  }
  return CL_SUCCESS;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t*, const size_t* global, const size_t* local, cl_uint,
                              const cl_event*, cl_event*) {
  std::vector<kcache::Argument> arguments;
  for (const _cl_kernel::Argument& argument : kernel->arguments) {
    if (argument.memory != nullptr) {
      arguments.emplace_back(argument.memory->buffer);
    } else {
      arguments.push_back(kcache::Argument::Bytes(std::as_bytes(std::span(argument.bytes))));
    }
  }
  ++state->counts.launches;
  return Answer(kernel->kernel.LaunchList(
      queue->queue,
      kcache::LaunchConfig::Global(kcache::corpus::Extent(global, dimensions),
                                   kcache::corpus::Extent(local, dimensions)),
      arguments));
}

}  // extern "C"
