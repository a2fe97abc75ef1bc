// corpus_vkfft_cuda: VkFFT over CUDA and NVRTC; run.h has the options.

#include "tests/corpus/vkfft/run.h"
#include "tests/corpus/vkfft/runtime_api.h"
#include "tests/corpus/vkfft/vkfft_transform.h"

namespace kcache::corpus {
namespace {

struct CudaApi : RuntimeApi {
  explicit CudaApi(const Place& place) : RuntimeApi(place, "cuda-c++") {}
};

}  // namespace
}  // namespace kcache::corpus

int main(int argc, char** argv) {
  using namespace kcache::corpus;  // NOLINT(google-build-using-namespace)
  return RunCorpus({.program = "corpus_vkfft_cuda",
                    .framework = "CUDA",
                    .architectures = "sm_90",
                    .make = [](const Place& place) -> std::unique_ptr<Transform> {
                      return std::make_unique<VkfftTransform<CudaApi>>(place);
                    }},
                   argc, argv);
}
