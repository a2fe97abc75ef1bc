#include "backends/cudalike/relative_includes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::cudalike {
namespace {

constexpr std::string_view kBlank = " \t";

struct Include {
  size_t at = 0;     // of the name, in its line
  size_t bytes = 0;  // of the name
  bool is_quoted = false;
};

// The name in an #include "…" or #include <…> line.
std::optional<Include> ParseInclude(std::string_view line) {
  size_t at = line.find_first_not_of(kBlank);
  if (at == std::string_view::npos || line[at] != '#') return std::nullopt;
  at = line.find_first_not_of(kBlank, at + 1);
  constexpr std::string_view kInclude = "include";
  if (at == std::string_view::npos || line.substr(at, kInclude.size()) != kInclude) {
    return std::nullopt;
  }
  at += kInclude.size();
  constexpr std::string_view kNext = "_next";
  if (line.substr(at, kNext.size()) == kNext) at += kNext.size();
  at = line.find_first_not_of(kBlank, at);
  if (at == std::string_view::npos || (line[at] != '"' && line[at] != '<')) return std::nullopt;
  const bool is_quoted = line[at] == '"';
  const size_t end = line.find(is_quoted ? '"' : '>', at + 1);
  if (end == std::string_view::npos) return std::nullopt;
  return Include{at + 1, end - at - 1, is_quoted};
}

// Calls `visit(offset of the name in text, include)` for every #include line.
template <typename Visit>
void ForEachInclude(std::string_view text, Visit visit) {
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    if (const auto include = ParseInclude(text.substr(start, end - start))) {
      visit(start + include->at, *include);
    }
    start = end + 1;
  }
}

bool IsBelow(std::string_view path, const std::vector<std::string>& directories) {
  const std::string normal = "/" + JoinNormalized("", path);
  return std::any_of(directories.begin(), directories.end(), [&](const std::string& directory) {
    return normal.starts_with(directory + "/");
  });
}

std::string_view DirectoryOf(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

}  // namespace

std::string JoinNormalized(std::string_view directory, std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::string_view rest : {directory, path}) {
    while (!rest.empty()) {
      const size_t slash = rest.find('/');
      const std::string_view part = rest.substr(0, slash);
      rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
      if (part.empty() || part == ".") continue;
      if (part != "..") {
        parts.push_back(part);
      } else if (parts.empty()) {
        return "";
      } else {
        parts.pop_back();
      }
    }
  }
  std::string joined;
  for (const std::string_view part : parts) {
    if (!joined.empty()) joined += '/';
    joined += part;
  }
  return joined;
}

std::vector<v1::HeaderFile> ResolveRelativeIncludes(const std::vector<v1::HeaderFile>& headers) {
  absl::flat_hash_set<std::string> names;
  for (const v1::HeaderFile& header : headers) names.insert(header.name());
  std::vector<v1::HeaderFile> resolved = headers;
  for (v1::HeaderFile& header : resolved) {
    const std::string_view directory = DirectoryOf(header.name());
    const std::string_view text = header.content();
    std::string rewritten;
    size_t copied = 0;
    ForEachInclude(text, [&](size_t at, const Include& include) {
      if (!include.is_quoted) return;
      const std::string_view spelled = text.substr(at, include.bytes);
      const std::string full = JoinNormalized(directory, spelled);
      if (full == spelled || !names.contains(full)) return;
      rewritten.append(text.substr(copied, at - copied)).append(full);
      copied = at + spelled.size();
    });
    if (copied == 0) continue;
    rewritten.append(text.substr(copied));
    header.set_content(std::move(rewritten));
  }
  return resolved;
}

absl::Status CheckIncludes(std::string_view source, const std::vector<v1::HeaderFile>& headers,
                           const std::vector<std::string>& toolkit_directories) {
  absl::flat_hash_set<std::string> names;
  for (const v1::HeaderFile& header : headers) names.insert(header.name());
  absl::Status first;
  const auto check = [&](std::string_view where, std::string_view directory,
                         std::string_view text) {
    ForEachInclude(text, [&](size_t at, const Include& include) {
      const std::string_view spelled = text.substr(at, include.bytes);
      const bool is_absolute = spelled.starts_with('/');
      const bool climbs = spelled == ".." || spelled.starts_with("../") ||
                          spelled.find("/../") != std::string_view::npos;
      if (!is_absolute && !climbs) return;
      if (is_absolute ? IsBelow(spelled, toolkit_directories)
                      : names.contains(JoinNormalized(directory, spelled))) {
        return;
      }
      first.Update(MakeError(
          v1::COMPILE_FAILED,
          absl::StrCat(AbslView(where), " includes ", Quoted(spelled),
                       ", a path on the compiler's disk that is not the toolkit's; headers "
                       "travel by content")));
    });
  };
  check("the source", "", source);
  for (const v1::HeaderFile& header : headers) {
    check(absl::StrCat("the header ", Quoted(header.name())), DirectoryOf(header.name()),
          header.content());
  }
  return first;
}

}  // namespace kcache::backend::cudalike
