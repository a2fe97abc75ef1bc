#include "backends/cudalike/relative_includes.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace kcache::backend::cudalike {
namespace {

constexpr std::string_view kBlank = " \t";

// The characters between the quotes of an #include "…" line: where they start and how many.
std::optional<std::pair<size_t, size_t>> QuotedInclude(std::string_view line) {
  size_t at = line.find_first_not_of(kBlank);
  if (at == std::string_view::npos || line[at] != '#') return std::nullopt;
  at = line.find_first_not_of(kBlank, at + 1);
  constexpr std::string_view kInclude = "include";
  if (at == std::string_view::npos || line.substr(at, kInclude.size()) != kInclude) {
    return std::nullopt;
  }
  at = line.find_first_not_of(kBlank, at + kInclude.size());
  if (at == std::string_view::npos || line[at] != '"') return std::nullopt;
  const size_t end = line.find('"', at + 1);
  if (end == std::string_view::npos) return std::nullopt;
  return std::make_pair(at + 1, end - at - 1);
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
    const size_t slash = header.name().rfind('/');
    const std::string directory = slash == std::string::npos ? "" : header.name().substr(0, slash);
    const std::string_view text = header.content();
    std::string rewritten;
    size_t copied = 0;
    for (size_t start = 0; start < text.size();) {
      size_t end = text.find('\n', start);
      if (end == std::string_view::npos) end = text.size();
      if (const auto quoted = QuotedInclude(text.substr(start, end - start))) {
        const size_t at = start + quoted->first;
        const std::string_view spelled = text.substr(at, quoted->second);
        const std::string full = JoinNormalized(directory, spelled);
        if (full != spelled && names.contains(full)) {
          rewritten.append(text.substr(copied, at - copied)).append(full);
          copied = at + spelled.size();
        }
      }
      start = end + 1;
    }
    if (copied == 0) continue;
    rewritten.append(text.substr(copied));
    header.set_content(std::move(rewritten));
  }
  return resolved;
}

}  // namespace kcache::backend::cudalike
