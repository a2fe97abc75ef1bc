#include "tests/gpu/cuda_native.h"

#include <dlfcn.h>

#include <cstdio>

namespace kcache::gpu {
namespace {

using Result = int;
using Handle = void*;

class Driver : public CudaNative {
 public:
  bool Init() {
    library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return false;
    }
    auto init = Symbol<Result (*)(unsigned)>("cuInit");
    auto device_get = Symbol<Result (*)(int*, int)>("cuDeviceGet");
    auto retain = Symbol<Result (*)(Handle*, int)>("cuDevicePrimaryCtxRetain");
    auto set_current = Symbol<Result (*)(Handle)>("cuCtxSetCurrent");
    load_ = Symbol<decltype(load_)>("cuModuleLoadData");
    function_ = Symbol<decltype(function_)>("cuModuleGetFunction");
    launch_ = Symbol<decltype(launch_)>("cuLaunchKernel");
    synchronize_ = Symbol<decltype(synchronize_)>("cuStreamSynchronize");
    stream_create_ = Symbol<decltype(stream_create_)>("cuStreamCreate");
    int device = 0;
    return Ok(init(0), "cuInit") && Ok(device_get(&device, 0), "cuDeviceGet") &&
           Ok(retain(&context_, device), "cuDevicePrimaryCtxRetain") &&
           Ok(set_current(context_), "cuCtxSetCurrent") &&
           Ok(stream_create_(&stream_, 1), "cuStreamCreate");
  }
  bool Load(const std::string& cubin, const std::string& entry) override {
    return Ok(load_(&module_, cubin.data()), "cuModuleLoadData") &&
           Ok(function_(&kernel_, module_, entry.c_str()), "cuModuleGetFunction");
  }
  bool Launch(int count) override {
    for (int i = 0; i < count; ++i) {
      if (!Ok(launch_(kernel_, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
              "cuLaunchKernel")) {
        return false;
      }
    }
    return true;
  }
  bool Synchronize() override { return Ok(synchronize_(stream_), "cuStreamSynchronize"); }

 private:
  template <class Function>
  Function Symbol(const char* name) {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }
  bool Ok(Result result, const char* what) {
    if (result != 0) std::fprintf(stderr, "%s: error %d\n", what, result);
    return result == 0;
  }

  void* library_ = nullptr;
  Handle context_ = nullptr, stream_ = nullptr, module_ = nullptr, kernel_ = nullptr;
  Result (*load_)(Handle*, const void*) = nullptr;
  Result (*function_)(Handle*, Handle, const char*) = nullptr;
  Result (*launch_)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    Handle, void**, void**) = nullptr;
  Result (*synchronize_)(Handle) = nullptr;
  Result (*stream_create_)(Handle*, unsigned) = nullptr;
};

}  // namespace

std::unique_ptr<CudaNative> CudaNative::Open() {
  auto driver = std::make_unique<Driver>();
  if (!driver->Init()) return nullptr;
  return driver;
}

}  // namespace kcache::gpu
