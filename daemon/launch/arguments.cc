#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "daemon/launch/launch.h"

namespace kcache::launch {
namespace {

uint64_t Number(std::string_view option, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    Fail("--" + std::string(option) + ": '" + std::string(text) + "' is not a number");
  }
  return value;
}

int LimitNamed(std::string_view name) {
  constexpr std::pair<std::string_view, int> kLimits[] = {
      {"as", RLIMIT_AS},       {"core", RLIMIT_CORE},     {"cpu", RLIMIT_CPU},
      {"data", RLIMIT_DATA},   {"fsize", RLIMIT_FSIZE},   {"nofile", RLIMIT_NOFILE},
      {"nproc", RLIMIT_NPROC},
  };
  for (const auto& [known, limit] : kLimits) {
    if (known == name) return limit;
  }
  Fail("--limit: no limit is called '" + std::string(name) + "'");
}

}  // namespace

void Fail(const std::string& message, int error_number) {
  std::fprintf(stderr, "kcache-launch: %s%s%s\n", message.c_str(), error_number != 0 ? ": " : "",
               error_number != 0 ? std::strerror(error_number) : "");
  std::fflush(stderr);
  std::_Exit(kSetupFailed);
}

Request ParseArguments(int argc, char** argv) {
  Request request;
  int i = 1;
  for (; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--") {
      ++i;
      break;
    }
    if (argument == "--count-apart") {
      request.count_apart = true;
      continue;
    }
    if (argument == "--no-exec") {
      request.no_exec = true;
      continue;
    }
    const size_t equals = argument.find('=');
    if (!argument.starts_with("--") || equals == std::string_view::npos) {
      Fail("'" + std::string(argument) + "' is not an option");
    }
    const std::string_view option = argument.substr(2, equals - 2);
    const std::string_view value = argument.substr(equals + 1);
    if (option == "parent") {
      request.parent = static_cast<pid_t>(Number(option, value));
    } else if (option == "uid") {
      request.change_user = true;
      request.uid = static_cast<uid_t>(Number(option, value));
    } else if (option == "gid") {
      request.gid = static_cast<gid_t>(Number(option, value));
    } else if (option == "groups") {
      for (size_t start = 0; start < value.size();) {
        const size_t comma = std::min(value.find(',', start), value.size());
        request.groups.push_back(
            static_cast<gid_t>(Number(option, value.substr(start, comma - start))));
        start = comma + 1;
      }
    } else if (option == "limit") {
      const size_t separator = value.find('=');
      if (separator == std::string_view::npos) Fail("--limit wants NAME=VALUE");
      request.limits.emplace_back(LimitNamed(value.substr(0, separator)),
                                  Number(option, value.substr(separator + 1)));
    } else if (option == "nice") {
      request.nice = static_cast<int>(Number(option, value));
    } else if (option == "directory") {
      request.directory = value;
    } else if (option == "root") {
      if (value != "minimal" && value != "hidden") Fail("--root is minimal or hidden");
      request.root = value == "minimal" ? Root::kMinimal : Root::kHidden;
    } else if (option == "show") {
      request.show.emplace_back(value);
    } else if (option == "hide") {
      request.hide.emplace_back(value);
    } else if (option == "write") {
      request.write.emplace_back(value);
    } else if (option == "device") {
      request.devices.emplace_back(value);
    } else if (option == "keep") {
      request.keep.push_back(static_cast<int>(Number(option, value)));
    } else if (option == "group-fd") {
      request.group_fd = static_cast<int>(Number(option, value));
    } else if (option == "status-fd") {
      request.status_fd = static_cast<int>(Number(option, value));
    } else if (option == "filter") {
      if (value != "device" && value != "compile") Fail("--filter is device or compile");
      request.filter = value == "device" ? Filter::kDevice : Filter::kCompile;
    } else {
      Fail("there is no option --" + std::string(option));
    }
  }
  if (request.parent == 0) Fail("--parent is missing");
  if (request.root != Root::kShared && request.directory.empty()) {
    Fail("--root needs a --directory");
  }
  if (i >= argc) Fail("there is no program to execute");
  for (; i < argc; ++i) request.command.push_back(argv[i]);
  request.command.push_back(nullptr);
  return request;
}

}  // namespace kcache::launch
