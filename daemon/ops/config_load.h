// Reads the configuration: defaults, then the file, then the environment, then flags.
//
// Every failure names where the value came from ("kcached.toml:12", "KCACHED_LOG_LEVEL",
// "--log.level"), the key, the value and what is acceptable. An unknown key is a failure that names
// the nearest known one. All failures are reported together.
//
// Threads: at start-up.

#ifndef KCACHE_DAEMON_OPS_CONFIG_LOAD_H_
#define KCACHE_DAEMON_OPS_CONFIG_LOAD_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/ops/config.h"

namespace kcache::ops {

struct ConfigSources {
  std::string file;            // empty: none
  bool file_must_exist = true;
  std::vector<std::pair<std::string, std::string>> flags;  // ("limits.max-sessions", "10")
  std::function<std::optional<std::string>(const std::string&)> environment;  // may be empty
};

absl::StatusOr<Config> LoadConfig(const ConfigSources& sources);

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_CONFIG_LOAD_H_
