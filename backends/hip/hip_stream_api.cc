#include "backends/hip/hip_stream_api.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::hip {
namespace {

using cudalike::DeviceAddress;
using cudalike::HostMemory;
using cudalike::NativeEvent;
using cudalike::NativeFunction;
using cudalike::NativeModule;
using cudalike::NativeStream;

}  // namespace

absl::StatusOr<std::unique_ptr<cudalike::StreamApi>> HipStreamApi::Open(const HipTable& hip,
                                                                        int ordinal) {
  HipResult result = hip.prepare_device(ordinal);
  if (result == kHipSuccess) result = hip.set_device(ordinal);
  if (result != kHipSuccess) {
    return HipError(hip, result, absl::StrCat("opening HIP device ", ordinal), v1::NOT_READY);
  }
  int max_shared = 0;
  result = hip.device_max_shared(&max_shared, ordinal);
  if (result != kHipSuccess) return HipError(hip, result, "hipDeviceGetAttribute");
  return std::unique_ptr<cudalike::StreamApi>(
      new HipStreamApi(hip, ordinal, static_cast<uint32_t>(max_shared)));
}

absl::Status HipStreamApi::MakeCurrent() {
  return Check(hip_.set_device(ordinal_), "hipSetDevice", v1::DEVICE_LOST);
}

absl::Status HipStreamApi::Close() { return Check(hip_.reset_device(), "hipDeviceReset"); }

// ---- modules ------------------------------------------------------------------------------------

absl::StatusOr<NativeModule> HipStreamApi::LoadModule(const v1::Artifact& artifact,
                                                      LoadStatistics* statistics) {
  const std::string& format = artifact.format();
  if (format != "code-object" && format != "cubin" && format != "ptx") {
    return MakeError(v1::BAD_REQUEST, absl::StrCat("artifact format ", Quoted(format),
                                                   " is not code-object, cubin or ptx"));
  }
  void* module = nullptr;
  const auto start = std::chrono::steady_clock::now();
  const HipResult result = hip_.module_load_data(&module, artifact.binary().c_str());
  if (format == "ptx") {
    statistics->jit_microseconds +=
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                  std::chrono::steady_clock::now() - start)
                                  .count());
  }
  if (result != kHipSuccess) {
    return HipError(hip_, result,
                    absl::StrCat("loading a ", format, " for ", artifact.architecture()));
  }
  return module;
}

absl::Status HipStreamApi::UnloadModule(NativeModule module) {
  return Check(hip_.module_unload(module), "hipModuleUnload");
}

absl::StatusOr<NativeFunction> HipStreamApi::GetFunction(NativeModule module,
                                                         const std::string& name) {
  void* function = nullptr;
  const HipResult result = hip_.module_get_function(&function, module, name.c_str());
  if (result == kHipErrorNotFound) {
    return MakeError(v1::UNKNOWN_ENTRY,
                     absl::StrCat("the module has no entry point ", Quoted(name)));
  }
  if (result != kHipSuccess) {
    return HipError(hip_, result, absl::StrCat("hipModuleGetFunction(", name, ")"));
  }
  return function;
}

absl::Status HipStreamApi::Describe(NativeFunction function, v1::KernelInfo* info) {
  const auto read = [&](HipFunctionAttribute attribute, auto set) {
    int value = 0;
    const HipResult result = hip_.func_get_attribute(&value, attribute, function);
    if (result == kHipSuccess) set(static_cast<uint32_t>(value));
    return Check(result, "hipFuncGetAttribute");
  };
  absl::Status status;
  status.Update(read(kHipFunctionMaxThreadsPerBlock,
                     [&](uint32_t value) { info->set_max_local_size(value); }));
  status.Update(read(kHipFunctionSharedSizeBytes,
                     [&](uint32_t value) { info->set_local_memory_bytes(value); }));
  status.Update(read(kHipFunctionLocalSizeBytes,
                     [&](uint32_t value) { info->set_private_memory_bytes(value); }));
  status.Update(read(kHipFunctionNumRegs, [&](uint32_t value) { info->set_registers(value); }));
  return status;
}

absl::StatusOr<uint32_t> HipStreamApi::RaiseDynamicSharedMemory(NativeFunction function,
                                                                const v1::KernelInfo& info) {
  const auto used =
      static_cast<uint32_t>(std::min<uint64_t>(info.local_memory_bytes(), max_shared_bytes_));
  const uint32_t limit = max_shared_bytes_ - used;
  if (hip_.func_set_max_dynamic_shared == nullptr) return limit;
  absl::Status status = Check(hip_.func_set_max_dynamic_shared(function, static_cast<int>(limit)),
                              "raising the limit of dynamic shared memory");
  if (!status.ok()) return status;
  return limit;
}

// ---- memory -------------------------------------------------------------------------------------

absl::StatusOr<DeviceAddress> HipStreamApi::AllocateDevice(uint64_t bytes) {
  HipAddress address = 0;
  const HipResult result = hip_.malloc(&address, bytes);
  if (result != kHipSuccess) {
    return HipError(hip_, result, absl::StrCat("hipMalloc of ", bytes, " bytes"),
                    v1::OUT_OF_DEVICE_MEMORY);
  }
  return address;
}

absl::Status HipStreamApi::FreeDevice(DeviceAddress address) {
  return Check(hip_.free(address), "hipFree");
}

absl::StatusOr<HostMemory> HipStreamApi::AllocateHost(uint64_t bytes) {
  void* host = nullptr;
  HipResult result = hip_.host_malloc(&host, bytes);
  if (result != kHipSuccess) {
    return HipError(hip_, result, absl::StrCat("hipHostMalloc of ", bytes, " bytes"),
                    v1::OUT_OF_DEVICE_MEMORY);
  }
  HipAddress device = 0;
  result = hip_.host_get_device_pointer(&device, host);
  if (result != kHipSuccess) {
    (void)hip_.host_free(host);
    return HipError(hip_, result, "hipHostGetDevicePointer");
  }
  return HostMemory{static_cast<char*>(host), device};
}

absl::Status HipStreamApi::FreeHost(const HostMemory& memory) {
  return Check(hip_.host_free(memory.host), "hipHostFree");
}

absl::Status HipStreamApi::CopyToDevice(DeviceAddress destination, const void* source,
                                        uint64_t bytes, NativeStream stream) {
  return Check(hip_.memcpy_htod_async(destination, source, bytes, stream), "hipMemcpyHtoDAsync",
               v1::BUFFER_OUT_OF_RANGE);
}

absl::Status HipStreamApi::CopyToHost(void* destination, DeviceAddress source, uint64_t bytes,
                                      NativeStream stream) {
  return Check(hip_.memcpy_dtoh_async(destination, source, bytes, stream), "hipMemcpyDtoHAsync",
               v1::BUFFER_OUT_OF_RANGE);
}

absl::Status HipStreamApi::CopyOnDevice(DeviceAddress destination, DeviceAddress source,
                                        uint64_t bytes, NativeStream stream) {
  return Check(hip_.memcpy_dtod_async(destination, source, bytes, stream), "hipMemcpyDtoDAsync",
               v1::BUFFER_OUT_OF_RANGE);
}

absl::Status HipStreamApi::Set(DeviceAddress destination, uint32_t value, uint32_t width,
                               uint64_t count, NativeStream stream) {
  switch (width) {
    case 1:
      return Check(
          hip_.memset_d8_async(destination, static_cast<unsigned char>(value), count, stream),
          "hipMemsetD8Async", v1::BUFFER_OUT_OF_RANGE);
    case 2:
      return Check(hip_.memset_d16_async(destination, static_cast<uint16_t>(value), count, stream),
                   "hipMemsetD16Async", v1::BUFFER_OUT_OF_RANGE);
    default:
      return Check(hip_.memset_d32_async(destination, static_cast<int>(value), count, stream),
                   "hipMemsetD32Async", v1::BUFFER_OUT_OF_RANGE);
  }
}

// ---- streams, events, launches ------------------------------------------------------------------

absl::StatusOr<NativeStream> HipStreamApi::CreateStream() {
  void* stream = nullptr;
  absl::Status status = Check(hip_.stream_create(&stream), "hipStreamCreateWithFlags");
  if (!status.ok()) return status;
  return stream;
}

absl::Status HipStreamApi::DestroyStream(NativeStream stream) {
  return Check(hip_.stream_destroy(stream), "hipStreamDestroy");
}

absl::StatusOr<NativeEvent> HipStreamApi::CreateEvent() {
  void* event = nullptr;
  absl::Status status = Check(hip_.event_create(&event), "hipEventCreateWithFlags");
  if (!status.ok()) return status;
  return event;
}

absl::Status HipStreamApi::DestroyEvent(NativeEvent event) {
  return Check(hip_.event_destroy(event), "hipEventDestroy");
}

absl::Status HipStreamApi::RecordEvent(NativeEvent event, NativeStream stream) {
  return Check(hip_.event_record(event, stream), "hipEventRecord");
}

absl::StatusOr<bool> HipStreamApi::QueryEvent(NativeEvent event) {
  const HipResult result = hip_.event_query(event);
  if (result == kHipErrorNotReady) return false;
  if (result != kHipSuccess) return HipError(hip_, result, "hipEventQuery");
  return true;
}

absl::Status HipStreamApi::WaitEvent(NativeEvent event) {
  return Check(hip_.event_synchronize(event), "hipEventSynchronize");
}

absl::Status HipStreamApi::Launch(NativeFunction function, const Extent& grid, const Extent& block,
                                  uint32_t dynamic_shared_bytes, NativeStream stream,
                                  void** parameters) {
  const uint32_t blocks[3] = {grid.x, grid.y, grid.z};
  const uint32_t threads[3] = {block.x, block.y, block.z};
  const HipResult result =
      hip_.launch_kernel(function, blocks, threads, dynamic_shared_bytes, stream, parameters);
  if (result == kHipSuccess) return absl::OkStatus();
  return HipError(
      hip_, result,
      absl::StrCat("hipModuleLaunchKernel of (", grid.x, ",", grid.y, ",", grid.z, ") blocks of (",
                   block.x, ",", block.y, ",", block.z, ") threads with ", dynamic_shared_bytes,
                   " bytes of dynamic shared memory"),
      v1::INVALID_LAUNCH);
}

}  // namespace kcache::backend::hip
