// corpus_vkfft_hip: VkFFT over HIP and hipRTC; run.h has the options.

#include "tests/corpus/vkfft/run.h"
#include "tests/corpus/vkfft/runtime_api.h"
#include "tests/corpus/vkfft/vkfft_transform.h"

namespace kcache::corpus {
namespace {

struct HipApi : RuntimeApi {
  explicit HipApi(const Place& place) : RuntimeApi(place, "hip-c++") {}
};

}  // namespace
}  // namespace kcache::corpus

int main(int argc, char** argv) {
  using namespace kcache::corpus;  // NOLINT(google-build-using-namespace)
  return RunCorpus({.program = "corpus_vkfft_hip",
                    .framework = "HIP",
                    .architectures = "gfx90a,gfx1030",
                    .make = [](const Place& place) -> std::unique_ptr<Transform> {
                      return std::make_unique<VkfftTransform<HipApi>>(place);
                    }},
                   argc, argv);
}
