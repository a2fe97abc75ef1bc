// A table for people: columns as wide as their content, numbers to the right.
//
// Threads: one.

#ifndef KCACHE_CLIENT_CTL_TABLE_H_
#define KCACHE_CLIENT_CTL_TABLE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace kcache::ctl {

class Table {
 public:
  // A header that starts with '>' is a column of numbers.
  explicit Table(std::vector<std::string> headers);

  // Characters that would garble a terminal are shown as '?'.
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Nothing at all but `nothing` for a table without rows.
  void Print(std::ostream& out, const std::string& nothing) const;

 private:
  std::vector<std::string> headers_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

// "1.2 s", "3 m 4 s", "12 ms"
std::string Milliseconds(uint64_t ms);
// "1.5 MiB"
std::string Bytes(uint64_t bytes);

}  // namespace kcache::ctl

#endif  // KCACHE_CLIENT_CTL_TABLE_H_
