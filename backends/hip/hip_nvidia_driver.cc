// The functions of libcuda.so.1 that HIP's NVIDIA headers call by name, forwarded to the table that
// backends/nvidia opens: the program starts where there is no driver.
//
// Threads: as the driver. They are called only after LoadNvidiaHip, which needs the table itself.
#include "backends/nvidia/driver_table.h"

namespace {

using kcache::backend::nvidia::CuDevicePtr;
using kcache::backend::nvidia::CuFunction;
using kcache::backend::nvidia::CuFunctionAttribute;
using kcache::backend::nvidia::CuModule;
using kcache::backend::nvidia::CuResult;
using kcache::backend::nvidia::CuStream;

const kcache::backend::nvidia::DriverTable& Driver() {
  return **kcache::backend::nvidia::LoadDriver();
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the driver's names
extern "C" {

CuResult cuInit(unsigned flags) { return Driver().init(flags); }

CuResult cuModuleLoadData(CuModule* module, const void* image) {
  return Driver().module_load_data_ex(module, image, 0, nullptr, nullptr);
}

CuResult cuModuleUnload(CuModule module) { return Driver().module_unload(module); }

CuResult cuModuleGetFunction(CuFunction* function, CuModule module, const char* name) {
  return Driver().module_get_function(function, module, name);
}

CuResult cuFuncGetAttribute(int* value, CuFunctionAttribute attribute, CuFunction function) {
  return Driver().func_get_attribute(value, attribute, function);
}

CuResult cuFuncSetAttribute(CuFunction function, CuFunctionAttribute attribute, int value) {
  return Driver().func_set_attribute(function, attribute, value);
}

CuResult cuMemcpyHtoDAsync_v2(CuDevicePtr to, const void* from, size_t bytes, CuStream stream) {
  return Driver().memcpy_htod_async(to, from, bytes, stream);
}

CuResult cuMemcpyDtoHAsync_v2(void* to, CuDevicePtr from, size_t bytes, CuStream stream) {
  return Driver().memcpy_dtoh_async(to, from, bytes, stream);
}

CuResult cuMemcpyDtoDAsync_v2(CuDevicePtr to, CuDevicePtr from, size_t bytes, CuStream stream) {
  return Driver().memcpy_dtod_async(to, from, bytes, stream);
}

CuResult cuMemsetD8Async(CuDevicePtr to, unsigned char value, size_t count, CuStream stream) {
  return Driver().memset_d8_async(to, value, count, stream);
}

CuResult cuMemsetD16Async(CuDevicePtr to, unsigned short value, size_t count, CuStream stream) {
  return Driver().memset_d16_async(to, value, count, stream);
}

CuResult cuMemsetD32Async(CuDevicePtr to, unsigned value, size_t count, CuStream stream) {
  return Driver().memset_d32_async(to, value, count, stream);
}

CuResult cuLaunchKernel(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CuStream stream, void** parameters, void** extra) {
  return Driver().launch_kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                shared_bytes, stream, parameters, extra);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
