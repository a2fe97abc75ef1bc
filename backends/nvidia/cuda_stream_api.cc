#include "backends/nvidia/cuda_stream_api.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::nvidia {
namespace {

using cudalike::DeviceAddress;
using cudalike::HostMemory;
using cudalike::NativeEvent;
using cudalike::NativeFunction;
using cudalike::NativeModule;
using cudalike::NativeStream;

// JIT options carry integers in their pointer-sized values.
void* OptionValue(uintptr_t value) {
  return reinterpret_cast<void*>(value);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

absl::StatusOr<std::unique_ptr<cudalike::StreamApi>> CudaStreamApi::Open(const DriverTable& driver,
                                                                         int ordinal) {
  CuDevice device = 0;
  CuResult result = driver.device_get(&device, ordinal);
  if (result != kCudaSuccess) {
    return DriverError(driver, result, absl::StrCat("cuDeviceGet(", ordinal, ")"),
                       v1::UNKNOWN_DEVICE);
  }
  int max_shared = 0;
  result = driver.device_get_attribute(&max_shared, kAttributeMaxSharedMemoryPerBlockOptin, device);
  if (result != kCudaSuccess) return DriverError(driver, result, "cuDeviceGetAttribute");
  result = driver.primary_ctx_set_flags(device, kContextScheduleBlockingSync);
  if (result != kCudaSuccess) return DriverError(driver, result, "cuDevicePrimaryCtxSetFlags");
  CuContext context = nullptr;
  result = driver.primary_ctx_retain(&context, device);
  if (result != kCudaSuccess) {
    return DriverError(driver, result, "cuDevicePrimaryCtxRetain", v1::NOT_READY);
  }
  return std::unique_ptr<cudalike::StreamApi>(
      new CudaStreamApi(driver, device, context, static_cast<uint32_t>(max_shared)));
}

absl::Status CudaStreamApi::MakeCurrent() {
  return Check(driver_.ctx_set_current(context_), "cuCtxSetCurrent", v1::DEVICE_LOST);
}

absl::Status CudaStreamApi::Close() {
  return Check(driver_.primary_ctx_release(device_), "cuDevicePrimaryCtxRelease");
}

// ---- modules ------------------------------------------------------------------------------------

absl::StatusOr<NativeModule> CudaStreamApi::LoadModule(const v1::Artifact& artifact,
                                                       LoadStatistics* statistics) {
  const bool is_ptx = artifact.format() == "ptx";
  if (!is_ptx && artifact.format() != "cubin") {
    return MakeError(v1::BAD_REQUEST, absl::StrCat("artifact format ", Quoted(artifact.format()),
                                                   " is neither cubin nor ptx"));
  }
  // std::string ends with a NUL, which PTX needs and its size may or may not count.
  const char* image = artifact.binary().c_str();
  CuModule module = nullptr;
  if (!is_ptx) {
    const CuResult result = driver_.module_load_data_ex(&module, image, 0, nullptr, nullptr);
    if (result != kCudaSuccess) {
      return DriverError(driver_, result,
                         absl::StrCat("loading a cubin for ", artifact.architecture()));
    }
    return module;
  }
  std::array<char, 8192> log{};
  std::array<CuJitOption, 2> options = {kJitErrorLogBuffer, kJitErrorLogBufferSizeBytes};
  std::array<void*, 2> values = {log.data(), OptionValue(log.size())};
  const auto start = std::chrono::steady_clock::now();
  const CuResult result = driver_.module_load_data_ex(
      &module, image, static_cast<unsigned>(options.size()), options.data(), values.data());
  const auto elapsed = std::chrono::steady_clock::now() - start;
  statistics->jit_microseconds +=
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count());
  if (result != kCudaSuccess) {
    log.back() = '\0';
    absl::Status status = DriverError(driver_, result, "loading PTX");
    if (log[0] == '\0') return status;
    return MakeError(status.code(), ReasonOf(status),
                     absl::StrCat(status.message(), "\n", log.data()), DetailsOf(status));
  }
  return module;
}

absl::Status CudaStreamApi::UnloadModule(NativeModule module) {
  return Check(driver_.module_unload(module), "cuModuleUnload");
}

absl::StatusOr<NativeFunction> CudaStreamApi::GetFunction(NativeModule module,
                                                          const std::string& name) {
  CuFunction function = nullptr;
  const CuResult result = driver_.module_get_function(&function, module, name.c_str());
  if (result == kCudaErrorNotFound) {
    return MakeError(v1::UNKNOWN_ENTRY,
                     absl::StrCat("the module has no entry point ", Quoted(name)));
  }
  if (result != kCudaSuccess) {
    return DriverError(driver_, result, absl::StrCat("cuModuleGetFunction(", name, ")"));
  }
  return function;
}

absl::StatusOr<int> CudaStreamApi::FunctionAttribute(CuFunction function,
                                                     CuFunctionAttribute attribute) const {
  int value = 0;
  absl::Status status =
      Check(driver_.func_get_attribute(&value, attribute, function), "cuFuncGetAttribute");
  if (!status.ok()) return status;
  return value;
}

absl::Status CudaStreamApi::Describe(NativeFunction function, v1::KernelInfo* info) {
  const auto read = [&](CuFunctionAttribute attribute, auto set) -> absl::Status {
    absl::StatusOr<int> value = FunctionAttribute(function, attribute);
    if (value.ok()) set(static_cast<uint32_t>(*value));
    return value.status();
  };
  absl::Status status;
  status.Update(
      read(kFunctionMaxThreadsPerBlock, [&](uint32_t value) { info->set_max_local_size(value); }));
  status.Update(
      read(kFunctionSharedSizeBytes, [&](uint32_t value) { info->set_local_memory_bytes(value); }));
  status.Update(read(kFunctionLocalSizeBytes,
                     [&](uint32_t value) { info->set_private_memory_bytes(value); }));
  status.Update(read(kFunctionNumRegs, [&](uint32_t value) { info->set_registers(value); }));
  if (!status.ok() || driver_.func_get_param_info == nullptr) return status;

  struct Parameter {
    size_t offset = 0;
    size_t bytes = 0;
  };
  std::vector<Parameter> parameters;
  for (;;) {
    Parameter parameter;
    const CuResult result = driver_.func_get_param_info(function, parameters.size(),
                                                        &parameter.offset, &parameter.bytes);
    if (result == kCudaErrorInvalidValue) break;  // past the last one
    if (result != kCudaSuccess) return DriverError(driver_, result, "cuFuncGetParamInfo");
    parameters.push_back(parameter);
  }
  if (info->arguments_known() && static_cast<size_t>(info->arguments_size()) != parameters.size()) {
    return MakeError(v1::INTERNAL, absl::StrCat("the artifact describes ", info->arguments_size(),
                                                " arguments, the driver ", parameters.size()));
  }
  while (static_cast<size_t>(info->arguments_size()) < parameters.size()) info->add_arguments();
  for (size_t i = 0; i < parameters.size(); ++i) {
    v1::ArgumentInfo* argument = info->mutable_arguments(static_cast<int>(i));
    if (info->arguments_known() && argument->bytes() != parameters[i].bytes) {
      return MakeError(v1::INTERNAL, absl::StrCat("argument ", i, " has ", argument->bytes(),
                                                  " bytes in the artifact and ",
                                                  parameters[i].bytes, " in the driver"));
    }
    argument->set_bytes(parameters[i].bytes);
    argument->set_offset(parameters[i].offset);
  }
  info->set_arguments_known(true);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> CudaStreamApi::RaiseDynamicSharedMemory(NativeFunction function,
                                                                 const v1::KernelInfo& info) {
  const auto used =
      static_cast<uint32_t>(std::min<uint64_t>(info.local_memory_bytes(), max_shared_bytes_));
  const uint32_t limit = max_shared_bytes_ - used;
  absl::Status status =
      Check(driver_.func_set_attribute(function, kFunctionMaxDynamicSharedSizeBytes,
                                       static_cast<int>(limit)),
            "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)");
  if (!status.ok()) return status;
  return limit;
}

// ---- memory -------------------------------------------------------------------------------------

absl::StatusOr<DeviceAddress> CudaStreamApi::AllocateDevice(uint64_t bytes) {
  CuDevicePtr address = 0;
  const CuResult result = driver_.mem_alloc(&address, bytes);
  if (result != kCudaSuccess) {
    return DriverError(driver_, result, absl::StrCat("cuMemAlloc of ", bytes, " bytes"),
                       v1::OUT_OF_DEVICE_MEMORY);
  }
  return address;
}

absl::Status CudaStreamApi::FreeDevice(DeviceAddress address) {
  return Check(driver_.mem_free(address), "cuMemFree");
}

absl::StatusOr<HostMemory> CudaStreamApi::AllocateHost(uint64_t bytes) {
  void* host = nullptr;
  CuResult result = driver_.mem_host_alloc(&host, bytes, kHostAllocPortable | kHostAllocDeviceMap);
  if (result != kCudaSuccess) {
    return DriverError(driver_, result, absl::StrCat("cuMemHostAlloc of ", bytes, " bytes"),
                       v1::OUT_OF_DEVICE_MEMORY);
  }
  CuDevicePtr device = 0;
  result = driver_.mem_host_get_device_pointer(&device, host, 0);
  if (result != kCudaSuccess) {
    (void)driver_.mem_free_host(host);
    return DriverError(driver_, result, "cuMemHostGetDevicePointer");
  }
  return HostMemory{static_cast<char*>(host), device};
}

absl::Status CudaStreamApi::FreeHost(const HostMemory& memory) {
  return Check(driver_.mem_free_host(memory.host), "cuMemFreeHost");
}

absl::Status CudaStreamApi::CopyToDevice(DeviceAddress destination, const void* source,
                                         uint64_t bytes, NativeStream stream) {
  return Check(driver_.memcpy_htod_async(destination, source, bytes, stream), "cuMemcpyHtoDAsync",
               v1::BUFFER_OUT_OF_RANGE);
}

absl::Status CudaStreamApi::CopyToHost(void* destination, DeviceAddress source, uint64_t bytes,
                                       NativeStream stream) {
  return Check(driver_.memcpy_dtoh_async(destination, source, bytes, stream), "cuMemcpyDtoHAsync",
               v1::BUFFER_OUT_OF_RANGE);
}

absl::Status CudaStreamApi::CopyOnDevice(DeviceAddress destination, DeviceAddress source,
                                         uint64_t bytes, NativeStream stream) {
  return Check(driver_.memcpy_dtod_async(destination, source, bytes, stream), "cuMemcpyDtoDAsync",
               v1::BUFFER_OUT_OF_RANGE);
}

absl::Status CudaStreamApi::Set(DeviceAddress destination, uint32_t value, uint32_t width,
                                uint64_t count, NativeStream stream) {
  switch (width) {
    case 1:
      return Check(
          driver_.memset_d8_async(destination, static_cast<unsigned char>(value), count, stream),
          "cuMemsetD8Async", v1::BUFFER_OUT_OF_RANGE);
    case 2:
      return Check(
          driver_.memset_d16_async(destination, static_cast<uint16_t>(value), count, stream),
          "cuMemsetD16Async", v1::BUFFER_OUT_OF_RANGE);
    default:
      return Check(driver_.memset_d32_async(destination, value, count, stream), "cuMemsetD32Async",
                   v1::BUFFER_OUT_OF_RANGE);
  }
}

// ---- streams, events, launches ------------------------------------------------------------------

absl::StatusOr<NativeStream> CudaStreamApi::CreateStream() {
  CuStream stream = nullptr;
  absl::Status status = Check(driver_.stream_create(&stream, kStreamNonBlocking), "cuStreamCreate");
  if (!status.ok()) return status;
  return stream;
}

absl::Status CudaStreamApi::DestroyStream(NativeStream stream) {
  return Check(driver_.stream_destroy(stream), "cuStreamDestroy");
}

absl::StatusOr<NativeEvent> CudaStreamApi::CreateEvent() {
  CuEvent event = nullptr;
  absl::Status status = Check(
      driver_.event_create(&event, kEventBlockingSync | kEventDisableTiming), "cuEventCreate");
  if (!status.ok()) return status;
  return event;
}

absl::Status CudaStreamApi::DestroyEvent(NativeEvent event) {
  return Check(driver_.event_destroy(event), "cuEventDestroy");
}

absl::Status CudaStreamApi::RecordEvent(NativeEvent event, NativeStream stream) {
  return Check(driver_.event_record(event, stream), "cuEventRecord");
}

absl::StatusOr<bool> CudaStreamApi::QueryEvent(NativeEvent event) {
  const CuResult result = driver_.event_query(event);
  if (result == kCudaErrorNotReady) return false;
  if (result != kCudaSuccess) return DriverError(driver_, result, "cuEventQuery");
  return true;
}

absl::Status CudaStreamApi::WaitEvent(NativeEvent event) {
  return Check(driver_.event_synchronize(event), "cuEventSynchronize");
}

absl::Status CudaStreamApi::Launch(NativeFunction function, const Extent& grid, const Extent& block,
                                   uint32_t dynamic_shared_bytes, NativeStream stream,
                                   void** parameters) {
  const CuResult result =
      driver_.launch_kernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                            dynamic_shared_bytes, stream, parameters, nullptr);
  if (result == kCudaSuccess) return absl::OkStatus();
  return DriverError(
      driver_, result,
      absl::StrCat("cuLaunchKernel of (", grid.x, ",", grid.y, ",", grid.z, ") blocks of (",
                   block.x, ",", block.y, ",", block.z, ") threads with ", dynamic_shared_bytes,
                   " bytes of dynamic shared memory"),
      v1::INVALID_LAUNCH);
}

}  // namespace kcache::backend::nvidia
