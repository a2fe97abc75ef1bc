#include "backends/cudalike/compile_flags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::cudalike {
namespace {

// Options that name an include directory, longest spelling first.
constexpr std::array<std::string_view, 5> kIncludeDirectory = {"--include-path", "-isystem",
                                                               "-idirafter", "-iquote", "-I"};

struct Refused {
  std::string_view option;
  std::string_view why;
};

// Matched as a whole word, up to '=' or the end.
constexpr std::array<Refused, 29> kRefused = {{
    {"--gpu-architecture", "the daemon chooses the architecture"},
    {"-arch", "the daemon chooses the architecture"},
    {"--offload-arch", "the daemon chooses the architecture"},
    {"-mcpu", "the daemon chooses the architecture"},
    {"--target", "the daemon chooses the architecture"},
    {"-target", "the daemon chooses the architecture"},
    {"--pre-include", "headers travel by content: include it in the source"},
    {"-include", "headers travel by content: include it in the source"},
    {"-imacros", "headers travel by content: include it in the source"},
    {"--pch", "precompiled headers are files of the compiler's own"},
    {"-pch", "precompiled headers are files of the compiler's own"},
    {"--create-pch", "precompiled headers are files of the compiler's own"},
    {"-create-pch", "precompiled headers are files of the compiler's own"},
    {"--use-pch", "precompiled headers are files of the compiler's own"},
    {"-use-pch", "precompiled headers are files of the compiler's own"},
    {"--pch-dir", "precompiled headers are files of the compiler's own"},
    {"-pch-dir", "precompiled headers are files of the compiler's own"},
    {"--time", "it writes a file"},
    {"-time", "it writes a file"},
    {"--fdevice-time-trace", "it writes a file"},
    {"-fdevice-time-trace", "it writes a file"},
    {"-o", "it writes a file"},
    {"--dlink-time-opt", "its output cannot be loaded"},
    {"-dlto", "its output cannot be loaded"},
    {"--optix-ir", "its output cannot be loaded"},
    {"-optix-ir", "its output cannot be loaded"},
    {"-fplugin", "it loads code into the compiler"},
    {"-fpass-plugin", "it loads code into the compiler"},
    {"-Xclang", "what it passes on cannot be checked"},
}};

absl::Status Reject(std::string_view flag, std::string_view why) {
  return MakeError(v1::BAD_REQUEST,
                   absl::StrCat("flag ", Quoted(flag), " is not accepted: ", AbslView(why)));
}

bool IsBelow(const std::string& path, const std::vector<std::string>& directories) {
  const std::string normal = std::filesystem::path(path).lexically_normal().string();
  return std::any_of(directories.begin(), directories.end(), [&](const std::string& directory) {
    return normal == directory || normal.starts_with(directory + "/");
  });
}

// The directory that an include option names; nullopt when the flag is not one.
std::optional<std::string_view> IncludeDirectory(std::string_view flag) {
  for (const std::string_view option : kIncludeDirectory) {
    if (!flag.starts_with(option)) continue;
    std::string_view value = flag.substr(option.size());
    const size_t start = value.find_first_not_of("= \t");
    return start == std::string_view::npos ? std::string_view() : value.substr(start);
  }
  return std::nullopt;
}

absl::Status CheckFlag(std::string_view flag, const std::vector<std::string>& toolkit_directories) {
  if (flag.empty()) return MakeError(v1::BAD_REQUEST, "a flag is empty");
  if (flag.find('\0') != std::string_view::npos) return Reject(flag, "it has a NUL in it");
  if (flag[0] == '@') return Reject(flag, "it reads options from a file");
  if (flag[0] != '-') return Reject(flag, "it is not an option; give option and value as one flag");
  if (const auto directory = IncludeDirectory(flag)) {
    if (IsBelow(std::string(*directory), toolkit_directories)) return absl::OkStatus();
    return Reject(
        flag, "only directories of the toolkit can be searched; other headers travel by content");
  }
  const std::string_view word = flag.substr(0, flag.find_first_of("= "));
  for (const Refused& refused : kRefused) {
    if (word == refused.option) return Reject(flag, refused.why);
  }
  if (word == "-rdc" || word == "--relocatable-device-code") {
    if (flag.ends_with("true")) return Reject(flag, "relocatable code cannot be loaded");
    return absl::OkStatus();
  }
  // An absolute path anywhere else in an option's value.
  const size_t equals = flag.find_first_of("= ,");
  if (equals != std::string_view::npos && flag.substr(equals + 1).starts_with('/')) {
    return Reject(flag, "it names a path on the disk");
  }
  return absl::OkStatus();
}

bool IsMacroName(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CompileOptions(
    const v1::ProgramManifest& manifest, const std::vector<std::string>& toolkit_directories) {
  std::vector<std::string> options;
  for (const v1::Define& define : manifest.defines()) {
    // NAME or NAME(parameters).
    const std::string_view name = define.name();
    const size_t parenthesis = name.find('(');
    const bool is_function = parenthesis != std::string_view::npos && name.ends_with(')');
    if (!IsMacroName(is_function ? name.substr(0, parenthesis) : name)) {
      return MakeError(v1::BAD_REQUEST,
                       absl::StrCat("define ", Quoted(name), " is not the name of a macro"));
    }
    if (define.value().find('\0') != std::string::npos) {
      return MakeError(v1::BAD_REQUEST, absl::StrCat("define ", Quoted(name), " has a NUL in it"));
    }
    options.push_back(define.has_value() ? absl::StrCat("-D", define.name(), "=", define.value())
                                         : absl::StrCat("-D", define.name()));
  }
  for (const std::string& flag : manifest.flags()) {
    if (absl::Status status = CheckFlag(flag, toolkit_directories); !status.ok()) return status;
    options.push_back(flag);
  }
  return options;
}

}  // namespace kcache::backend::cudalike
