#include "backends/opencl/include_check.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::opencl {
namespace {

// The text as a preprocessor sees lines: continued lines joined, comments gone, literals kept.
std::string WithoutComments(std::string_view text) {
  std::string joined;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      // clang joins also over blanks between the backslash and the end of the line.
      const size_t end = text.find_first_not_of(" \t\r", i + 1);
      if (end != std::string_view::npos && text[end] == '\n') {
        i = end;
        continue;
      }
    }
    joined += text[i];
  }
  std::string plain;
  for (size_t i = 0; i < joined.size();) {
    const char c = joined[i];
    if (c == '/' && joined.compare(i, 2, "//") == 0) {
      i = std::min(joined.find('\n', i), joined.size());
    } else if (c == '/' && joined.compare(i, 2, "/*") == 0) {
      const size_t end = joined.find("*/", i + 2);
      i = end == std::string::npos ? joined.size() : end + 2;
      plain += ' ';
    } else if (c == '"' || c == '\'') {
      // A literal ends at its quote or, broken, with its line.
      size_t end = i + 1;
      while (end < joined.size() && joined[end] != c && joined[end] != '\n') {
        end += joined[end] == '\\' ? 2 : 1;
      }
      end = std::min(end + 1, joined.size());
      plain.append(joined, i, end - i);
      i = end;
    } else {
      plain += c;
      ++i;
    }
  }
  return plain;
}

// Whether `path`, as seen from `directory` (both relative), stays below the root.
bool StaysBelow(std::string_view directory, std::string_view path) {
  int depth = 0;
  for (std::string_view rest : {directory, path}) {
    while (!rest.empty()) {
      const size_t slash = std::min(rest.find('/'), rest.size());
      const std::string_view part = rest.substr(0, slash);
      rest.remove_prefix(std::min(slash + 1, rest.size()));
      if (part.empty() || part == ".") continue;
      depth += part == ".." ? -1 : 1;
      if (depth < 0) return false;
    }
  }
  return true;
}

bool SkipWord(std::string_view word, std::string_view* line) {
  if (line->substr(0, word.size()) != word) return false;
  line->remove_prefix(word.size());
  return true;
}

void SkipBlanks(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(" \t\r\f\v"), line->size()));
}

// What follows #include, #include_next or #import; nothing for other lines.
bool IsInclude(std::string_view line, std::string_view* operand) {
  SkipBlanks(&line);
  if (!SkipWord("#", &line) && !SkipWord("%:", &line)) return false;
  SkipBlanks(&line);
  if (!SkipWord("include_next", &line) && !SkipWord("include", &line) &&
      !SkipWord("import", &line)) {
    return false;
  }
  SkipBlanks(&line);
  *operand = line;
  return true;
}

absl::Status CheckText(std::string_view where, std::string_view directory, std::string_view text) {
  const std::string plain = WithoutComments(text);
  const std::string_view view = plain;
  for (size_t start = 0; start < view.size();) {
    const size_t end = std::min(view.find('\n', start), view.size());
    std::string_view operand;
    if (IsInclude(view.substr(start, end - start), &operand)) {
      const bool quoted = operand.substr(0, 1) == "\"";
      const size_t close = operand.find(quoted ? '"' : '>', 1);
      if ((!quoted && operand.substr(0, 1) != "<") || close == std::string_view::npos) {
        return MakeError(v1::BAD_REQUEST, std::string(where) + " has a computed include, " +
                                              Quoted(operand) + "; name the header itself");
      }
      const std::string_view name = operand.substr(1, close - 1);
      if (name.substr(0, 1) == "/" || !StaysBelow(quoted ? directory : "", name)) {
        return MakeError(v1::BAD_REQUEST, std::string(where) + " includes " + Quoted(name) +
                                              ", which is outside the program's headers");
      }
    }
    start = end + 1;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckIncludes(const v1::CompileRequest& request) {
  if (request.manifest().language() == "opencl-c") {
    if (absl::Status status = CheckText("the source", "", request.source()); !status.ok())
      return status;
  }
  for (const v1::HeaderFile& header : request.headers()) {
    const std::string_view name = header.name();
    const size_t slash = name.rfind('/');
    const std::string_view directory = slash == std::string_view::npos ? "" : name.substr(0, slash);
    absl::Status status = CheckText("the header " + Quoted(name), directory, header.content());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace kcache::backend::opencl
