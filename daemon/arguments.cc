#include "daemon/arguments.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/ops/config_options.h"

namespace kcache {
namespace {

constexpr char kDefaultFile[] = "/etc/kcached/kcached.toml";

}  // namespace

absl::StatusOr<Arguments> ParseArguments(int argc, char** argv) {
  Arguments arguments;
  arguments.sources.file = kDefaultFile;
  arguments.sources.file_must_exist = false;
  arguments.sources.environment = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      arguments.action = Arguments::Action::kHelp;
    } else if (argument == "--version") {
      arguments.action = Arguments::Action::kVersion;
    } else if (argument == "--check-config") {
      arguments.action = Arguments::Action::kCheckConfig;
    } else if (argument == "--print-config") {
      arguments.action = Arguments::Action::kPrintConfig;
    } else if (argument == "--print-default-config") {
      arguments.action = Arguments::Action::kPrintDefaults;
    } else if (argument.starts_with("--")) {
      std::string name = argument.substr(2), value;
      if (size_t equals = name.find('='); equals != std::string::npos) {
        value = name.substr(equals + 1);
        name.resize(equals);
      } else if (i + 1 < argc) {
        value = argv[++i];
      } else {
        return absl::InvalidArgumentError(absl::StrCat(argument, " needs a value"));
      }
      if (name == "config") {
        arguments.sources.file = value;
        arguments.sources.file_must_exist = true;
      } else {
        arguments.sources.flags.emplace_back(absl::StrReplaceAll(name, {{"-", "_"}}), value);
      }
    } else {
      return absl::InvalidArgumentError(absl::StrCat("unexpected argument ", argument));
    }
  }
  return arguments;
}

std::string HelpText() {
  return absl::StrCat(
      "usage: kcached [--config FILE] [--OPTION=VALUE …]\n"
      "       kcached --check-config | --print-config | --version | --help\n\n"
      "Owns the compiled-kernel cache and the device contexts of this node's GPUs.\n\n"
      "  --config FILE     configuration file (default ", kDefaultFile, ", if it exists)\n"
      "  --check-config    says what is wrong with the configuration, and exits\n"
      "  --print-config    prints every option with its value, and exits\n"
      "  --print-default-config  prints a configuration file that changes nothing, and exits\n\n"
      "A private daemon: kcached --runtime-dir DIR puts both sockets into DIR.\n\nOptions:\n",
      ops::OptionsHelp());
}

}  // namespace kcache
