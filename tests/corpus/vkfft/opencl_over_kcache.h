// As much of OpenCL as VkFFT calls, on top of kcache: VkFFT itself is unchanged and links this in
// the place of the ICD loader. Programs are acquired from the daemon, buffers and launches are the
// device host's.
//
// Threads: one. Ownership: OpenClOverKcache outlives what was made through it.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_OPENCL_OVER_KCACHE_H_
#define KCACHE_TESTS_CORPUS_VKFFT_OPENCL_OVER_KCACHE_H_

#include <CL/cl.h>

#include <cstddef>

#include "tests/corpus/vkfft/place.h"
#include "tests/corpus/vkfft/transform.h"

namespace kcache::corpus {

class OpenClOverKcache {
 public:
  explicit OpenClOverKcache(const Place& place);
  ~OpenClOverKcache();

  // What VkFFT is configured with.
  cl_device_id device();
  cl_context context();
  cl_command_queue queue();

  // VkFFT takes and gives back plain memory objects; ours are buffers of kcache.
  cl_mem Allocate(size_t bytes);
  absl::Status Write(cl_mem memory, const void* data, size_t bytes);
  absl::Status Read(cl_mem memory, void* data, size_t bytes);
  void Release(cl_mem memory);

  const Counts& counts() const;
  // The first thing that kcache refused, for VkFFT's own errors are numbers.
  const absl::Status& failure() const;
};

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_OPENCL_OVER_KCACHE_H_
