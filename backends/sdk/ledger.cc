#include "backends/sdk/ledger.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend {

Ledger::Reservation::~Reservation() {
  if (ledger_ != nullptr) ledger_->GiveBack(bytes_);
}

absl::StatusOr<Ledger::Reservation> Ledger::Reserve(uint64_t device_bytes) {
  MutexLock lock(&mutex_);
  const uint64_t most = most_device_bytes_;
  if (most != 0 && (device_bytes > most || device_bytes_ > most - device_bytes)) {
    return MakeError(
        v1::LIMIT_EXCEEDED,
        absl::StrCat("this trust domain has ", device_bytes_, " bytes on the device and asks for ",
                     device_bytes, "; the limit max_device_bytes_per_domain is ", most),
        {{"limit", "max_device_bytes_per_domain"}, {"value", std::to_string(most)}});
  }
  device_bytes_ += device_bytes;
  return Reservation(this, device_bytes);
}

void Ledger::GiveBack(uint64_t device_bytes) {
  MutexLock lock(&mutex_);
  device_bytes_ -= device_bytes;
}

LedgerId Ledger::Add(std::string label, uint64_t session, Release release) {
  return AddEntry({.label = std::move(label),
                   .device_bytes = 0,
                   .session = session,
                   .release = std::move(release)});
}

LedgerId Ledger::Add(std::string label, Reservation memory, uint64_t session, Release release) {
  memory.ledger_ = nullptr;  // counted already, and from now on this entry's
  return AddEntry({.label = std::move(label),
                   .device_bytes = memory.bytes(),
                   .session = session,
                   .release = std::move(release)});
}

LedgerId Ledger::AddEntry(Entry entry) {
  Tell(entry, /*acquired=*/true);
  MutexLock lock(&mutex_);
  const LedgerId id = ++next_;
  entries_.emplace(id, std::move(entry));
  return id;
}

bool Ledger::Take(LedgerId id, Entry* entry) {
  MutexLock lock(&mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  *entry = std::move(found->second);
  entries_.erase(found);
  device_bytes_ -= entry->device_bytes;
  return true;
}

void Ledger::Tell(const Entry& entry, bool acquired) {
  v1::LabelChange change;
  change.set_label(entry.label);
  change.set_acquired(acquired);
  change.set_session_id(entry.session);
  on_change_(std::move(change));
}

absl::Status Ledger::ReleaseOne(LedgerId id) {
  Entry entry;
  if (!Take(id, &entry)) return absl::OkStatus();
  absl::Status status = entry.release();
  Tell(entry, /*acquired=*/false);
  return status;
}

ReleaseReport Ledger::ReleaseAll() {
  ReleaseReport report;
  while (true) {
    LedgerId newest = 0;
    {
      MutexLock lock(&mutex_);
      if (entries_.empty()) break;
      newest = entries_.rbegin()->first;
    }
    Entry entry;
    if (!Take(newest, &entry)) continue;
    if (absl::Status status = entry.release(); status.ok()) {
      report.released.push_back(entry.label);
    } else {
      report.failures.push_back(absl::StrCat(entry.label, ": ", std::string(status.message())));
    }
    Tell(entry, /*acquired=*/false);
  }
  return report;
}

uint64_t Ledger::device_bytes() const {
  MutexLock lock(&mutex_);
  return device_bytes_;
}

}  // namespace kcache::backend
