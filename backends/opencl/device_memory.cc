#include "backends/opencl/device_memory.h"

#include <string>

#include "backends/opencl/cl_status.h"
#include "contract/error_reason.h"

namespace kcache::backend::opencl {

absl::StatusOr<cl_mem> DeviceMemory::View(uint64_t offset, uint64_t bytes) {
  if (offset == 0) return memory_.get();
  if (offset % alignment_ != 0) {
    return MakeError(v1::INVALID_ARGUMENTS, "buffer argument at offset " + std::to_string(offset) +
                                                ": this device takes multiples of " +
                                                std::to_string(alignment_) + " bytes");
  }
  const std::pair<uint64_t, uint64_t> key(offset, bytes);
  {
    MutexLock lock(&mutex_);
    if (const auto found = views_.find(key); found != views_.end()) return found->second.get();
  }
  const cl_buffer_region region{offset, bytes};
  cl_int error = CL_SUCCESS;
  ClMemory view(clCreateSubBuffer(memory_.get(), CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                  &region, &error));
  if (error != CL_SUCCESS) return FromCl(error, "clCreateSubBuffer");
  MutexLock lock(&mutex_);
  // Another thread may have been faster; its view is the one that others already use.
  return views_.emplace(key, std::move(view)).first->second.get();
}

absl::Status DeviceMemory::Release() {
  std::map<std::pair<uint64_t, uint64_t>, ClMemory> views;
  {
    MutexLock lock(&mutex_);
    views.swap(views_);
  }
  absl::Status first;
  for (auto& [key, view] : views)
    first.Update(FromCl(view.reset(), "clReleaseMemObject(sub-buffer)"));
  first.Update(FromCl(memory_.reset(), "clReleaseMemObject"));
  return first;
}

}  // namespace kcache::backend::opencl
