#include "tests/corpus/vkfft/options.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "contract/strings.h"

namespace kcache::corpus {
namespace {

constexpr char kOnly[] = "--only     only plans whose name contains TEXT\n";

}  // namespace

absl::StatusOr<VkfftOptions> ParseVkfftOptions(int argc, char** argv,
                                               const std::string& architectures) {
  const bool compiles = !architectures.empty();  // without a device, too
  VkfftOptions options;
  std::string chosen = architectures;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equals = std::min(argument.find('='), argument.size());
    const std::string_view name = argument.substr(0, equals);
    const std::string value(argument.substr(std::min(equals + 1, argument.size())));
    if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else if (argument == "--daemon") {
      options.daemon = true;
    } else if (name == "--backend" && compiles && !value.empty()) {
      options.backend = value;
    } else if (name == "--architecture" && compiles && !value.empty()) {
      chosen = value;
    } else if (name == "--only") {
      options.only = value;
    } else if (name == "--device" && absl::SimpleAtoi(value, &options.device)) {
    } else {
      return absl::InvalidArgumentError(absl::StrCat("unknown argument '", argv[i], "'"));
    }
  }
  if (options.daemon && !options.backend.empty()) {
    return absl::InvalidArgumentError("--daemon or --backend, not both");
  }
  if (compiles && !options.help && !options.daemon && options.backend.empty()) {
    return absl::InvalidArgumentError("--backend=PROGRAM or --daemon is missing");
  }
  options.architectures = absl::StrSplit(chosen, ',');
  return options;
}

std::string VkfftUsage(const std::string& program, const std::string& architectures) {
  if (architectures.empty()) {
    return absl::StrCat(
        "usage: ", program, " [--daemon] [--device=INDEX] [--only=TEXT]\n",
        "Runs every plan through the kcached at $KCACHE_SOCKET, or one of its own, and "
        "compares results.\n");
  }
  return absl::StrCat(
      "usage: ", program, " --backend=PROGRAM | --daemon [--architecture=", architectures,
      "] [--device=INDEX] [--only=TEXT]\n",
      "--backend  compiles through this backend program, without a daemon or a device\n",
      "--daemon   through the kcached at $KCACHE_SOCKET, or one of its own; with a device, runs "
      "every "
      "plan and compares results\n",
      kOnly);
}

}  // namespace kcache::corpus
