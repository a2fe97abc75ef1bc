#include "client/ctl/table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace kcache::ctl {
namespace {

// Code points, as good as columns for what is shown here.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string Printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string Formatted(const char* format, double value) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

Table::Table(std::vector<std::string> headers) {
  for (std::string& header : headers) {
    right_.push_back(header.starts_with('>'));
    headers_.push_back(right_.back() ? header.substr(1) : std::move(header));
  }
}

void Table::Add(std::vector<std::string> cells) {
  cells.resize(headers_.size());
  for (std::string& cell : cells) cell = cell.empty() ? "-" : Printable(std::move(cell));
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out, const std::string& nothing) const {
  if (rows_.empty()) {
    out << nothing << "\n";
    return;
  }
  std::vector<size_t> widths;
  for (size_t column = 0; column < headers_.size(); ++column) {
    size_t width = Width(headers_[column]);
    for (const auto& row : rows_) width = std::max(width, Width(row[column]));
    widths.push_back(width);
  }
  const auto print = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - Width(cells[column]), ' ');
      if (column > 0) line += "  ";
      line += right_[column] ? padding + cells[column] : cells[column] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  };
  print(headers_);
  for (const auto& row : rows_) print(row);
}

std::string Milliseconds(uint64_t ms) {
  if (ms < 1000) return std::to_string(ms) + " ms";
  if (ms < 60'000) return Formatted("%.1f s", static_cast<double>(ms) / 1000);
  const uint64_t s = ms / 1000;
  if (s < 3600) return std::to_string(s / 60) + " m " + std::to_string(s % 60) + " s";
  if (s < 86400) return std::to_string(s / 3600) + " h " + std::to_string(s / 60 % 60) + " m";
  return std::to_string(s / 86400) + " d " + std::to_string(s / 3600 % 24) + " h";
}

std::string Bytes(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return Formatted(unit == 0 ? "%.0f " : "%.1f ", value) + kUnits[unit];
}

}  // namespace kcache::ctl
