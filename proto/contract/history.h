// What a process did, as lines in a file, for checkers that read them afterwards (tests/chaos).
//
//   81234567890 granted session=17 context=3 slot=0 incarnation=1
//
// A line is one write() to a file opened for appending: a process that is killed leaves whole lines, and
// the order of the lines is the order of what happened in that process. Times are CLOCK_BOOTTIME in
// nanoseconds, the same for every process of the machine.
//
// Off in production: who records holds a pointer that is null then, and asks nothing else.
//
// Threads: any. Ownership: owns its descriptor.

#ifndef KCACHE_CONTRACT_HISTORY_H_
#define KCACHE_CONTRACT_HISTORY_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kcache {

struct HistoryField {
  HistoryField(std::string_view the_name, uint64_t the_number) : name(the_name), number(the_number) {}
  HistoryField(std::string_view the_name, std::string_view the_text)
      : name(the_name), text(the_text), is_text(true) {}
  HistoryField(std::string_view the_name, const std::string& the_text)
      : HistoryField(the_name, std::string_view(the_text)) {}
  HistoryField(std::string_view the_name, const char* the_text)
      : HistoryField(the_name, std::string_view(the_text)) {}

  std::string_view name;
  uint64_t number = 0;
  std::string_view text;  // valid during the call of Record
  bool is_text = false;
};

class History {
 public:
  // Takes over a descriptor that was opened for appending.
  explicit History(int fd) : fd_(fd) {}
  // Appends to `path`, which is made if need be.
  static absl::StatusOr<std::unique_ptr<History>> Open(const std::string& path);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  void Record(std::string_view kind, std::initializer_list<HistoryField> fields) const;

  // Opens `path` as History wants it.
  static absl::StatusOr<int> OpenFile(const std::string& path);
  static uint64_t Now();  // nanoseconds

 private:
  const int fd_;
};

}  // namespace kcache

#endif  // KCACHE_CONTRACT_HISTORY_H_
