// G1, safety: the driver of a host gets no launch of a kernel after its release, and gives none back that still
// runs. By the host's record of its driver calls alone.

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {
namespace {

// What is in flight on a driver's queue: launches are numbered, a marker stands for those before it.
struct Queue {
  uint64_t launched = 0;
  uint64_t finished = 0;
};

class Driver {
 public:
  Driver(const Host& host, Verdict* verdict) : host_(host), verdict_(verdict) {}

  void Take(const Record& record) {
    const uint64_t kernel = record.Number("kernel"), queue = record.Number("queue");
    if (record.kind == "launch") {
      ++verdict_->facts;
      if (released_.contains(kernel)) Violation(record, kernel, "was launched after its release");
      if (closed_) Violation(record, kernel, "was launched after its context was closed");
      last_use_[kernel][queue] = ++queues_[queue].launched;
    } else if (record.kind == "marker") {
      markers_[record.Number("marker")] = {queue, queues_[queue].launched};
    } else if (record.kind == "waited") {
      const auto& [of, until] = markers_[record.Number("marker")];
      queues_[of].finished = std::max(queues_[of].finished, until);
    } else if (record.kind == "release") {
      ++verdict_->facts;
      released_.insert(kernel);
      for (const auto& [of, number] : last_use_[kernel]) {
        if (number > queues_[of].finished) Violation(record, kernel, "was released while it ran");
      }
    } else if (record.kind == "close") {
      closed_ = true;
    }
  }

 private:
  void Violation(const Record& record, uint64_t kernel, std::string_view what) {
    auto slot = host_.slot_of_kernel.find(kernel);
    verdict_->violations.push_back(absl::StrCat(
        host_.file->name, " (context ", host_.context, "): kernel ", kernel,
        slot == host_.slot_of_kernel.end()
            ? std::string()
            : absl::StrCat(" (slot ", slot->second.first, ".", slot->second.second, ")"),
        " ", std::string(what), ", at ", record.time));
  }

  const Host& host_;
  Verdict* const verdict_;
  bool closed_ = false;
  std::set<uint64_t> released_;
  std::map<uint64_t, Queue> queues_;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> markers_;           // -> queue, launches
  std::map<uint64_t, std::map<uint64_t, uint64_t>> last_use_;  // kernel -> queue -> launch
};

}  // namespace

Verdict NothingExecutesAfterRelease(const Run& run) {
  Verdict verdict;
  for (const Host& host : run.hosts()) {
    Driver driver(host, &verdict);
    for (const Record& record : host.file->records) driver.Take(record);
  }
  return verdict;
}

}  // namespace kcache::chaos
