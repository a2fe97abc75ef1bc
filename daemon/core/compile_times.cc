#include "daemon/core/compile_times.h"

namespace kcache::core {

void CompileTimes::Charge(const std::string& domain, absl::Duration took) {
  Forget();
  entries_.push_back({clock_->Now(), took, domain});
  spent_[domain] += took;
}

absl::Duration CompileTimes::Spent(const std::string& domain) {
  Forget();
  const auto found = spent_.find(domain);
  return found == spent_.end() ? absl::ZeroDuration() : found->second;
}

absl::Duration CompileTimes::BelowIn(const std::string& domain, absl::Duration limit) {
  absl::Duration left = Spent(domain);
  for (const Entry& entry : entries_) {
    if (left < limit) break;
    if (entry.domain != domain) continue;
    left -= entry.took;
    if (left < limit) return entry.ended + kWindow - clock_->Now();
  }
  return absl::ZeroDuration();
}

void CompileTimes::Forget() {
  const absl::Duration now = clock_->Now();
  while (!entries_.empty() && now - entries_.front().ended >= kWindow) {
    const Entry& oldest = entries_.front();
    // Exact sums: nothing is left when the last entry of a domain goes, or when all others took no time.
    if (const auto found = spent_.find(oldest.domain); found != spent_.end()) {
      found->second -= oldest.took;
      if (found->second <= absl::ZeroDuration()) spent_.erase(found);
    }
    entries_.pop_front();
  }
}

}  // namespace kcache::core
