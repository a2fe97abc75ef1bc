// A history, read back: one Record a line of contract/history.h.
//
// Threads: values.

#ifndef KCACHE_TESTS_CHAOS_VALIDATE_RECORD_H_
#define KCACHE_TESTS_CHAOS_VALIDATE_RECORD_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kcache::chaos {

struct Record {
  uint64_t time = 0;  // nanoseconds, CLOCK_BOOTTIME
  std::string kind;
  std::map<std::string, std::string, std::less<>> fields;

  // Empty, 0: there is no such field.
  std::string Text(std::string_view name) const;
  uint64_t Number(std::string_view name) const;
};

// One process's records, in the order in which it wrote them.
struct HistoryFile {
  std::string name;  // "host-4711-3"
  std::vector<Record> records;

  uint64_t last_time() const { return records.empty() ? 0 : records.back().time; }
};

// A line that is no record fails, but for the last one, when it has no end: the disk was full.
absl::StatusOr<HistoryFile> ParseHistory(std::string name, std::string_view text);

// "3.1,4.2," -> {{3, 1}, {4, 2}}; the same for "0:17,".
std::vector<std::pair<uint64_t, uint64_t>> ParsePairs(std::string_view text);

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_VALIDATE_RECORD_H_
