#include "daemon/ops/config_load.h"

#include <toml++/toml.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "contract/strings.h"
#include "daemon/ops/config_options.h"
#include "daemon/ops/system_error.h"

namespace kcache::ops {
namespace {

using Failures = std::vector<std::string>;

void Apply(const Option& option, std::string_view value, const std::string& where, Config* config,
           Failures* failures) {
  const absl::Status status = option.set(*config, value);
  if (status.ok()) return;
  failures->push_back(absl::StrCat(where, ": ", option.name, " = ", Quoted(value), ": ",
                                   status.message()));
}

void Unknown(const std::string& name, const std::string& where, Failures* failures) {
  const std::string nearest = NearestOption(name);
  failures->push_back(absl::StrCat(where, ": there is no option ", Quoted(name),
                                   nearest.empty() ? "" : "; the nearest is ", nearest));
}

// A value as Option::set reads it, or what is wrong with its type.
absl::StatusOr<std::string> AsText(const Option& option, const toml::node& node) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", AbslView(TypeName(option.type)),
                     option.range.empty() ? "" : ", ", option.range));
  };
  switch (option.type) {
    case OptionType::kBoolean:
      if (const auto value = node.value_exact<bool>()) return std::string(*value ? "true" : "false");
      return wrong();
    case OptionType::kInteger:
      if (const auto value = node.value_exact<int64_t>()) return std::to_string(*value);
      return wrong();
    case OptionType::kSize:
      if (const auto value = node.value_exact<int64_t>()) return std::to_string(*value);
      if (const auto value = node.value_exact<std::string>()) return *value;
      return wrong();
    case OptionType::kList: {
      const toml::array* array = node.as_array();
      if (array == nullptr) return wrong();
      std::vector<std::string> items;
      for (const toml::node& item : *array) {
        const auto text = item.value_exact<std::string>();
        if (!text || text->find(':') != std::string::npos) {
          return absl::InvalidArgumentError("expected a list of text without \":\"");
        }
        items.push_back(*text);
      }
      return absl::StrJoin(items, ":");
    }
    case OptionType::kMode:
    case OptionType::kDuration:
    case OptionType::kText:
    case OptionType::kChoice:
      if (const auto value = node.value_exact<std::string>()) return *value;
      return wrong();
  }
  return wrong();
}

void ApplyTable(const toml::table& table, const std::string& prefix, const std::string& file,
                Config* config, Failures* failures) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix.empty() ? std::string(key.str())
                                            : absl::StrCat(prefix, ".", std::string(key.str()));
    const std::string where = absl::StrCat(file, ":", key.source().begin.line);
    const Option* option = FindOption(name);
    if (option == nullptr) {
      if (const toml::table* section = node.as_table(); section != nullptr && prefix.empty()) {
        ApplyTable(*section, name, file, config, failures);
      } else {
        Unknown(name, where, failures);
      }
      continue;
    }
    const auto text = AsText(*option, node);
    if (!text.ok()) {
      std::ostringstream value;
      node.visit([&](const auto& typed) { value << typed; });
      failures->push_back(absl::StrCat(where, ": ", name, " = ", Quoted(value.str()), ": ",
                                       text.status().message()));
      continue;
    }
    Apply(*option, *text, where, config, failures);
  }
}

absl::Status ReadFile(const std::string& file, bool must_exist, Config* config,
                      Failures* failures) {
  std::ifstream stream(file);
  if (!stream) {
    if (errno == ENOENT && !must_exist) return absl::OkStatus();
    return SystemError(errno, "reading the configuration " + file);
  }
  std::ostringstream content;
  content << stream.rdbuf();
  try {
    const toml::table table = toml::parse(content.str(), file);
    ApplyTable(table, "", file, config, failures);
  } catch (const toml::parse_error& error) {
    failures->push_back(absl::StrCat(file, ":", error.source().begin.line, ": ",
                                     std::string(error.description())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Config> LoadConfig(const ConfigSources& sources) {
  Config config;
  Failures failures;
  if (!sources.file.empty()) {
    if (absl::Status read =
            ReadFile(sources.file, sources.file_must_exist, &config, &failures);
        !read.ok()) {
      return read;
    }
  }
  if (sources.environment) {
    for (const Option& option : Options()) {
      for (const std::string& variable : {option.environment_alias, EnvironmentName(option)}) {
        if (variable.empty()) continue;
        if (const auto value = sources.environment(variable)) {
          Apply(option, *value, "environment variable " + variable, &config, &failures);
        }
      }
    }
  }
  for (const auto& [flag, value] : sources.flags) {
    const std::string name = absl::StrReplaceAll(flag, {{"-", "_"}});
    const Option* option = FindOption(name);
    if (option == nullptr) {
      Unknown(name, "--" + flag, &failures);
      continue;
    }
    Apply(*option, value, "--" + flag, &config, &failures);
  }
  if (config.core.limits.grace > config.core.limits.max_grace) {
    failures.push_back("limits.grace is longer than limits.max_grace");
  }
  if (config.host_unresponsive < 2 * config.host_heartbeat) {
    failures.push_back("hosts.unresponsive is shorter than two of hosts.heartbeat");
  }
  if (!failures.empty()) return absl::InvalidArgumentError(absl::StrJoin(failures, "\n"));
  CompletePaths(&config);
  return config;
}

void CompletePaths(Config* config) {
  const bool root = geteuid() == 0;
  const bool own_runtime = !config->runtime_dir.empty();
  if (!own_runtime) {
    if (root) {
      config->runtime_dir = "/run/kcached";
    } else if (const char* xdg = std::getenv("XDG_RUNTIME_DIR"); xdg != nullptr && *xdg != '\0') {
      config->runtime_dir = absl::StrCat(xdg, "/kcached");
    } else {
      config->runtime_dir = absl::StrCat("/tmp/kcached-", geteuid());
    }
  }
  if (config->socket.empty()) config->socket = config->runtime_dir + "/kcached.sock";
  if (config->admin_socket.empty()) config->admin_socket = config->runtime_dir + "/admin.sock";
  if (config->state_dir.empty()) {
    config->state_dir = root && !own_runtime ? "/var/lib/kcached" : config->runtime_dir;
  }
}

}  // namespace kcache::ops
