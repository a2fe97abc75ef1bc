#include "backends/opencl/build_input.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <vector>

#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::opencl {
namespace {

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

absl::Status BadFlag(std::string_view flag, std::string_view why) {
  return MakeError(v1::BAD_REQUEST, "build flag " + Quoted(flag) + ": " + std::string(why),
                   {{"flag", std::string(flag)}});
}

// Drivers split their option string at blanks and some of them honour quotes.
bool HasSeparator(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\'' || c == '\\' || c == 0x7f;
  });
}

// A define that is safe as one word of the option string.
bool FitsOption(const v1::Define& define) {
  const bool is_identifier =
      std::all_of(define.name().begin(), define.name().end(),
                  [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  return is_identifier && !HasSeparator(define.value());
}

// A path below the header directory, for -I. "." is the directory itself.
std::optional<std::string> IncludeDirectory(std::string_view path) {
  const std::string root(kHeaderDirectory);
  if (path == "." || path == "./") return root;
  if (StartsWith(path, "./")) path.remove_prefix(2);
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  if (!ValidateHeaderName(path).ok()) return std::nullopt;
  return root + "/" + std::string(path);
}

// Options that only steer code generation and diagnostics.
bool IsPlainOption(std::string_view flag) {
  for (const std::string_view exact : {"-w", "-g", "-Werror", "-Wall", "-Wextra"}) {
    if (flag == exact) return true;
  }
  for (const std::string_view prefix : {"-cl-", "-O", "-Wno-"}) {
    if (StartsWith(flag, prefix) && flag.size() > prefix.size()) return true;
  }
  return false;
}

}  // namespace

std::string LoadOptions(const v1::ProgramManifest& manifest) {
  std::string options;
  for (const std::string& flag : manifest.flags()) {
    if (!StartsWith(flag, "-cl-") || flag == "-cl-kernel-arg-info") continue;
    options += (options.empty() ? "" : " ") + flag;
  }
  return options;
}

std::string HeaderOption(const v1::CompileRequest& request) {
  if (request.headers().empty()) return {};
  std::map<std::string, std::string_view> headers;
  for (const v1::HeaderFile& header : request.headers()) headers[header.name()] = header.content();
  std::string text;
  for (const auto& [name, content] : headers) {
    text += std::to_string(name.size()) + ":" + name + std::to_string(content.size()) + ":";
    text += content;
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return " -DKCACHE_HEADERS=0x" + ToHex({reinterpret_cast<const char*>(digest), 8});
}

absl::Status ValidateHeaderName(std::string_view name) {
  const auto bad = [&](std::string_view why) {
    return MakeError(v1::BAD_REQUEST, "header name " + Quoted(name) + " " + std::string(why));
  };
  if (name.empty()) return bad("is empty");
  if (name.front() == '/') return bad("is absolute");
  if (name.size() > 1024) return bad("is longer than 1024 bytes");
  if (HasSeparator(name)) return bad("has a blank, quote, backslash or control character");
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return bad("has an empty, . or .. part");
    begin = end + 1;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> BuildOptions(const v1::ProgramManifest& manifest) {
  // Reflection needs the argument info, whatever the program asks for.
  std::string options = "-cl-kernel-arg-info";
  for (const v1::Define& define : manifest.defines()) {
    if (!FitsOption(define)) continue;
    options += " -D" + define.name();
    if (define.has_value()) options += "=" + define.value();
  }
  std::vector<std::string> includes;
  const auto& flags = manifest.flags();
  for (int i = 0; i < flags.size(); ++i) {
    const std::string& flag = flags[i];
    if (HasSeparator(flag))
      return BadFlag(flag, "has a blank, quote, backslash or control character");
    if (flag == "-cl-kernel-arg-info") continue;
    if (IsPlainOption(flag)) {
      options += " " + flag;
      continue;
    }
    const std::string_view letter = std::string_view(flag).substr(0, 2);
    if (letter != "-D" && letter != "-U" && letter != "-I") {
      return BadFlag(flag, "not one of -cl-…, -w, -W…, -g, -O…, -D, -U, -I");
    }
    std::string_view value = std::string_view(flag).substr(2);
    if (value.empty()) {
      if (++i == flags.size()) return BadFlag(flag, "its value is missing");
      value = flags[i];
      if (value.empty() || HasSeparator(value)) {
        return BadFlag(flag,
                       "its value is empty or has a blank, quote, backslash or control character");
      }
    }
    if (letter == "-I") {
      const std::optional<std::string> directory = IncludeDirectory(value);
      if (!directory) {
        return BadFlag(flag, "an include path is relative, below the program's own headers");
      }
      includes.push_back(*directory);
    } else {
      options += " " + std::string(letter) + std::string(value);
    }
  }
  // The headers' root is searched after what the program names.
  const std::string root(kHeaderDirectory);
  if (std::find(includes.begin(), includes.end(), root) == includes.end()) includes.push_back(root);
  for (const std::string& directory : includes) options += " -I" + directory;
  return options;
}

absl::StatusOr<std::string> SourcePrelude(const v1::ProgramManifest& manifest) {
  std::string prelude;
  for (const v1::Define& define : manifest.defines()) {
    const bool breaks_line =
        (define.name() + define.value()).find_first_of("\n\r") != std::string::npos;
    if (define.name().empty() || breaks_line) {
      return MakeError(v1::BAD_REQUEST, "define " + Quoted(define.name()) + "=" +
                                            Quoted(define.value()) +
                                            ": the name is empty, or there is a line break");
    }
    if (FitsOption(define)) continue;
    prelude +=
        "#define " + define.name() + " " + (define.has_value() ? define.value() : "1") + "\n";
  }
  if (!prelude.empty()) prelude += "#line 1\n";
  return prelude;
}

}  // namespace kcache::backend::opencl
