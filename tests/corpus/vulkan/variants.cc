#include "tests/corpus/vulkan/variants.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace kcache::corpus {
namespace {

constexpr char kItemSeparator = '\x1f';

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, separator);) items.push_back(item);
  return items;
}

absl::StatusOr<std::string> Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError("cannot read " + path.string());
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

// Adds what `text` includes. All files lie in one directory and include each other by bare names.
absl::Status AddIncludes(const std::string& text, const std::filesystem::path& directory,
                         std::map<std::string, std::string>* headers) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kInclude = "#include \"";
    const size_t at = line.find(kInclude);
    if (at == std::string::npos) continue;
    const size_t begin = at + kInclude.size();
    const std::string name = line.substr(begin, line.find('"', begin) - begin);
    if (headers->count(name) != 0) continue;
    auto content = Contents(directory / name);
    if (!content.ok()) return content.status();
    (*headers)[name] = *content;
    absl::Status inner = AddIncludes(*content, directory, headers);
    if (!inner.ok()) return inner;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Variant>> ReadRecord(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError("cannot read " + path);
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  std::vector<Variant> variants;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> fields = Split(line, '\t');
    fields.resize(4);
    Variant variant;
    variant.name = fields[0];
    variant.source_file = (directory / fields[1]).string();
    variant.flags = Split(fields[2], kItemSeparator);
    for (const std::string& define : Split(fields[3], kItemSeparator)) {
      const size_t equals = define.find('=');
      variant.defines.emplace_back(
          define.substr(0, equals),
          equals == std::string::npos ? std::nullopt : std::optional(define.substr(equals + 1)));
    }
    variants.push_back(std::move(variant));
  }
  std::sort(variants.begin(), variants.end(),
            [](const Variant& a, const Variant& b) { return a.name < b.name; });
  return variants;
}

absl::StatusOr<Program> ProgramOf(const Variant& variant) {
  const std::filesystem::path path(variant.source_file);
  auto source = Contents(path);
  if (!source.ok()) return source.status();
  std::map<std::string, std::string> headers;
  absl::Status added = AddIncludes(*source, path.parent_path(), &headers);
  if (!added.ok()) return added;
  ProgramBuilder builder("glsl", *source);
  for (const auto& [name, content] : headers) builder.AddHeader(name, content);
  for (const auto& [name, value] : variant.defines) builder.Define(name, value);
  for (const std::string& flag : variant.flags) builder.Flag(flag);
  return builder.Build();
}

}  // namespace kcache::corpus
