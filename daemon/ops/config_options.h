// The one table that declares every option: its name in the file, on the command line and in the
// environment, its type, default, range and help. --help, --print-config, the shipped configuration
// file and every validation error come from it.
//
//   file         [limits]  max_sessions = 4096
//   flag         --limits.max-sessions=4096
//   environment  KCACHED_LIMITS_MAX_SESSIONS=4096
//
// Threads: pure functions over a constant table; any thread.

#ifndef KCACHE_DAEMON_OPS_CONFIG_OPTIONS_H_
#define KCACHE_DAEMON_OPS_CONFIG_OPTIONS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "daemon/ops/config.h"

namespace kcache::ops {

enum class OptionType {
  kBoolean,   // true, false
  kInteger,   // 4096
  kMode,      // "0660": permission bits, octal
  kSize,      // 65536, "64KiB", "2GiB"
  kDuration,  // "250ms", "2s", "10m", "inf"
  kText,
  kChoice,    // one of `choices`
  kList,      // ["/a", "/b"]; on the command line and in the environment separated by ":"
};

struct Option {
  std::string name;  // "limits.max_sessions"; no dot: top level
  OptionType type;
  std::string help;
  std::string range = {};            // for people: "1 … 1048576"
  std::vector<std::string> choices = {};  // kChoice
  // Sets from text; the failure says what is acceptable. Lists come ":"-separated.
  std::function<absl::Status(Config&, std::string_view)> set = {};
  std::function<std::string(const Config&)> get = {};  // as `set` reads it
  std::string environment_alias = {};  // a second variable, fixed by the clients' interface
};

const std::vector<Option>& Options();
// nullptr: none of that name.
const Option* FindOption(std::string_view name);
// The existing name that is closest to a mistyped one; empty: none is close.
std::string NearestOption(std::string_view name);

std::string FlagName(const Option& option);         // "--limits.max-sessions"
std::string EnvironmentName(const Option& option);  // "KCACHED_LIMITS_MAX_SESSIONS"
std::string_view TypeName(OptionType type);

// The whole configuration as a TOML file, help as comments. With `defaults_only`, every line is
// commented out: what deploy/config/kcached.toml is.
std::string PrintConfig(const Config& config, bool defaults_only);
// For --help: one paragraph an option.
std::string OptionsHelp();

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_CONFIG_OPTIONS_H_
