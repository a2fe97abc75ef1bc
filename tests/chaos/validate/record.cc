#include "tests/chaos/validate/record.h"

#include <charconv>

#include "absl/strings/str_cat.h"

namespace kcache::chaos {
namespace {

int HexDigit(char character) {
  if (character >= '0' && character <= '9') return character - '0';
  if (character >= 'a' && character <= 'f') return character - 'a' + 10;
  return -1;
}

std::string Unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
        HexDigit(text[i + 2]) >= 0) {
      plain.push_back(static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2])));
      i += 2;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

bool ParseNumber(std::string_view text, uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::string_view NextWord(std::string_view* line) {
  const size_t end = std::min(line->find(' '), line->size());
  const std::string_view word = line->substr(0, end);
  line->remove_prefix(std::min(end + 1, line->size()));
  return word;
}

bool ParseLine(std::string_view line, Record* record) {
  if (!ParseNumber(NextWord(&line), &record->time)) return false;
  record->kind = std::string(NextWord(&line));
  if (record->kind.empty()) return false;
  while (!line.empty()) {
    const std::string_view field = NextWord(&line);
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos || equals == 0) return false;
    record->fields[std::string(field.substr(0, equals))] = Unescape(field.substr(equals + 1));
  }
  return true;
}

}  // namespace

std::string Record::Text(std::string_view name) const {
  auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

uint64_t Record::Number(std::string_view name) const {
  auto found = fields.find(name);
  uint64_t value = 0;
  if (found != fields.end()) ParseNumber(found->second, &value);
  return value;
}

absl::StatusOr<HistoryFile> ParseHistory(std::string name, std::string_view text) {
  HistoryFile history;
  history.name = std::move(name);
  int number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    Record record;
    if (!ParseLine(text.substr(0, end), &record)) {
      return absl::DataLossError(
          absl::StrCat(history.name, ", line ", number, " is no record: ",
                       std::string(text.substr(0, std::min<size_t>(end, 120)))));
    }
    history.records.push_back(std::move(record));
    text.remove_prefix(end + 1);
  }
  return history;
}

std::vector<std::pair<uint64_t, uint64_t>> ParsePairs(std::string_view text) {
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, comma);
    const size_t middle = one.find_first_of(".:");
    std::pair<uint64_t, uint64_t> pair;
    if (middle != std::string_view::npos && ParseNumber(one.substr(0, middle), &pair.first) &&
        ParseNumber(one.substr(middle + 1), &pair.second)) {
      pairs.push_back(pair);
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return pairs;
}

}  // namespace kcache::chaos
