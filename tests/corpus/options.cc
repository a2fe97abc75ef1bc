#include "tests/corpus/options.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace kcache::corpus {

std::optional<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--native") {
      options.native = true;
      continue;
    }
    if (++i == argc) return std::nullopt;
    const std::string value = argv[i];
    if (name == "--kernels" || name == "--tests") {
      options.directory = value;
    } else if (name == "--device") {
      options.device = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (name == "--only") {
      options.only = value;
    } else if (name == "--shard") {
      if (std::sscanf(value.c_str(), "%u/%u", &options.shard, &options.shards) != 2 ||
          options.shards == 0 || options.shard >= options.shards) {
        return std::nullopt;
      }
    } else {
      return std::nullopt;
    }
  }
  if (options.directory.empty()) return std::nullopt;
  return options;
}

}  // namespace kcache::corpus
