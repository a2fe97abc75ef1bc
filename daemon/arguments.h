// kcached's command line: what to do, the configuration file, and options as flags.
//
// Threads: at start-up.

#ifndef KCACHE_DAEMON_ARGUMENTS_H_
#define KCACHE_DAEMON_ARGUMENTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "daemon/ops/config_load.h"

namespace kcache {

struct Arguments {
  enum class Action { kServe, kHelp, kVersion, kCheckConfig, kPrintConfig, kPrintDefaults };
  Action action = Action::kServe;
  ops::ConfigSources sources;
};

// "--name=value" and "--name value", with "-" for "_" in names. InvalidArgument names what it does
// not know.
absl::StatusOr<Arguments> ParseArguments(int argc, char** argv);

std::string HelpText();

}  // namespace kcache

#endif  // KCACHE_DAEMON_ARGUMENTS_H_
