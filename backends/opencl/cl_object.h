// Owners of OpenCL objects: released once, when the owner goes.
//
// Threads: an owner is a value of one thread; the objects themselves are as OpenCL says.

#ifndef KCACHE_BACKENDS_OPENCL_CL_OBJECT_H_
#define KCACHE_BACKENDS_OPENCL_CL_OBJECT_H_

#include <utility>

#include "backends/opencl/cl_api.h"

namespace kcache::backend::opencl {

template <typename T, cl_int (*Release)(T)>
class ClObject {
 public:
  ClObject() = default;
  explicit ClObject(T object) : object_(object) {}
  ~ClObject() { reset(); }
  ClObject(ClObject&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ClObject& operator=(ClObject&& other) noexcept {
    if (this != &other) {
      reset();
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }

  T get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

  // Gives the object to the caller.
  T release() { return std::exchange(object_, nullptr); }

  // Releases now and tells what the driver answered.
  cl_int reset() {
    if (object_ == nullptr) return CL_SUCCESS;
    return Release(std::exchange(object_, nullptr));
  }

 private:
  T object_ = nullptr;
};

using ClContext = ClObject<cl_context, clReleaseContext>;
using ClProgram = ClObject<cl_program, clReleaseProgram>;
using ClKernel = ClObject<cl_kernel, clReleaseKernel>;
using ClQueue = ClObject<cl_command_queue, clReleaseCommandQueue>;
using ClMemory = ClObject<cl_mem, clReleaseMemObject>;
using ClSampler = ClObject<cl_sampler, clReleaseSampler>;
using ClEvent = ClObject<cl_event, clReleaseEvent>;

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_CL_OBJECT_H_
