// corpus_vkfft_opencl: VkFFT over OpenCL, through the daemon; run.h has the options.

#include "tests/corpus/vkfft/opencl_over_kcache.h"
#include "tests/corpus/vkfft/run.h"
#include "tests/corpus/vkfft/vkfft_transform.h"

namespace kcache::corpus {
namespace {

class OpenClApi : public OpenClOverKcache {
 public:
  using Memory = cl_mem;
  using OpenClOverKcache::OpenClOverKcache;

  void Configure(VkFFTConfiguration* configuration) {
    configuration->device = &device_;
    configuration->context = &context_;
  }
  VkFFTResult Append(VkFFTApplication* application, int direction, Memory* memory,
                     uint64_t offset) {
    VkFFTLaunchParams launch = {};
    launch.commandQueue = &queue_;
    launch.buffer = memory;
    launch.bufferOffset = offset;
    return VkFFTAppend(application, direction, &launch);
  }

 private:
  // VkFFT keeps pointers to these.
  cl_device_id device_ = device();
  cl_context context_ = context();
  cl_command_queue queue_ = queue();
};

}  // namespace
}  // namespace kcache::corpus

int main(int argc, char** argv) {
  using namespace kcache::corpus;  // NOLINT(google-build-using-namespace)
  return RunCorpus({.program = "corpus_vkfft_opencl",
                    .framework = "OpenCL",
                    .offsets = true,
                    .make = [](const Place& place) -> std::unique_ptr<Transform> {
                      return std::make_unique<VkfftTransform<OpenClApi>>(place);
                    }},
                   argc, argv);
}
