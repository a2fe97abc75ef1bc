// The corpus over one API: what the four programs' main() call.
//
//   corpus_vkfft_NAME [--daemon] [--backend=PROGRAM] [--architecture=NAME,…] [--device=INDEX] [--only=TEXT]
//
//   --daemon            through the daemon at $KCACHE_SOCKET, or, where that is not set, through one of
//                       its own. With a device, transforms run forward and back, and every result is
//                       compared with a transform by the definition. OpenCL and Vulkan: always, and a
//                       device has to be there. CUDA and HIP: without a device, programs are compiled
//   --backend=PROGRAM   CUDA and HIP: compile through this backend program, without a daemon or a device
//   --architecture=…    CUDA and HIP without a device: for what
//   --device=INDEX      which device of the family; 0
//   --only=TEXT         only plans whose name contains it ("1000, real")
//
// One line a plan, last `summary: plans=… failed=… programs=… compiled=… launches=… checked=…
// seconds=…`: `failed` are plans; `programs` what VkFFT generated, `compiled` how many of them
// could be; `checked` are plans whose results were compared. Exit status 0: none failed, and there
// were programs.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_RUN_H_
#define KCACHE_TESTS_CORPUS_VKFFT_RUN_H_

#include <memory>
#include <string>

#include "tests/corpus/vkfft/place.h"
#include "tests/corpus/vkfft/transform.h"

namespace kcache::corpus {

struct Api {
  std::string program;    // "corpus_vkfft_cuda"
  std::string framework;  // "CUDA"
  // Compiled for where there is no device, comma-separated. Empty: a device is needed.
  std::string architectures = {};
  bool offsets = false;  // offsets can be given with a launch
  std::unique_ptr<Transform> (*make)(const Place& place) = nullptr;
};

// Returns main()'s exit status.
int RunCorpus(const Api& api, int argc, char** argv);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_RUN_H_
