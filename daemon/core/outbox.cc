#include "daemon/core/outbox.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace kcache::core {
namespace {

// What an event adds to a message: its own size, tag and length.
size_t WireSize(const v1::DaemonEvent& event) { return event.ByteSizeLong() + 6; }

// Extends `cover` so that it stands for `one`, too.
void Include(const v1::Invalidate& one, v1::Invalidate* cover) {
  const uint64_t from =
      one.kind() == v1::INVALIDATE_COVER || one.kind() == v1::INVALIDATE_MISSED
          ? std::min(one.covers_from(), one.revision())
          : one.revision();
  if (cover->kind() != v1::INVALIDATE_COVER) {
    cover->set_kind(v1::INVALIDATE_COVER);
    cover->set_phase(v1::PHASE_AFTER);
    cover->set_covers_from(from);
    cover->set_reason("too many invalidations were waiting for this client");
  }
  cover->set_covers_from(std::min(cover->covers_from(), from));
  cover->set_revision(std::max(cover->revision(), one.revision()));
}

}  // namespace

bool Outbox::Push(v1::DaemonEvent event) {
  bytes_ += WireSize(event);
  queue_.push_back(std::move(event));
  if (!Over()) return true;
  DropProgress();
  if (Over()) Coalesce(Scope::kDevice);
  if (Over()) Coalesce(Scope::kAll);
  return !Over();
}

void Outbox::PushFront(v1::DaemonEvent event) {
  bytes_ += WireSize(event);
  queue_.push_front(std::move(event));
}

bool Outbox::Take(size_t max_bytes, v1::DaemonMessage* message) {
  size_t taken = 0;
  while (!queue_.empty()) {
    const size_t size = WireSize(queue_.front());
    if (taken != 0 && taken + size > max_bytes) break;
    taken += size;
    bytes_ -= size;
    if (queue_.front().has_invalidate()) {
      delivered_.push_back(queue_.front().invalidate());
      if (delivered_.size() > kMaxDelivered) {
        v1::Invalidate cover;
        for (const v1::Invalidate& one : delivered_) Include(one, &cover);
        delivered_.assign(1, cover);
      }
    }
    *message->add_events() = std::move(queue_.front());
    queue_.pop_front();
  }
  return taken != 0;
}

void Outbox::Confirm(uint64_t revision) {
  while (!delivered_.empty() && delivered_.front().revision() <= revision) delivered_.pop_front();
}

void Outbox::Resume(uint64_t revision) {
  Confirm(revision);
  std::deque<v1::Invalidate> pending = std::move(delivered_);
  delivered_.clear();
  for (v1::DaemonEvent& event : queue_) {
    if (event.has_invalidate()) pending.push_back(std::move(*event.mutable_invalidate()));
  }

  using Step = std::tuple<std::string, uint64_t, std::string, uint32_t>;
  auto step_of = [](const v1::Invalidate& one) {
    return Step(one.operation_id(), one.context().context_id(), one.family(), one.index());
  };
  std::map<Step, uint64_t> before;
  std::set<Step> missed;
  for (const v1::Invalidate& one : pending) {
    if (one.phase() == v1::PHASE_BEFORE) before[step_of(one)] = one.revision();
    if (one.phase() == v1::PHASE_AFTER && before.contains(step_of(one))) missed.insert(step_of(one));
  }

  queue_.clear();
  for (v1::Invalidate& one : pending) {
    if (missed.contains(step_of(one))) {
      if (one.phase() == v1::PHASE_BEFORE) continue;
      one.set_covers_from(before[step_of(one)]);
      one.set_kind(v1::INVALIDATE_MISSED);
    }
    *queue_.emplace_back().mutable_invalidate() = std::move(one);
  }
  Recount();
}

void Outbox::DropProgress() {
  std::erase_if(queue_, [](const v1::DaemonEvent& event) { return event.has_progress(); });
  Recount();
}

// Each group of invalidations that nobody waits for becomes one COVER in the place of its last:
// grants before that place are dropped by the client, too, which costs an acquire and is safe.
void Outbox::Coalesce(Scope scope) {
  using Group = std::pair<std::string, std::optional<uint32_t>>;
  std::map<Group, v1::Invalidate> covers;
  std::deque<v1::DaemonEvent> kept;
  for (auto event = queue_.rbegin(); event != queue_.rend(); ++event) {
    if (!event->has_invalidate() || event->invalidate().needs_ack()) {
      kept.push_front(std::move(*event));
      continue;
    }
    const v1::Invalidate& one = event->invalidate();
    Group group;
    if (scope == Scope::kDevice) {
      group.first = one.family();
      if (one.has_index()) group.second = one.index();
    }
    auto [cover, first] = covers.try_emplace(group);
    if (first) {
      cover->second.set_family(group.first);
      if (group.second) cover->second.set_index(*group.second);
      kept.emplace_front();  // its place; filled below
      kept.front().mutable_invalidate()->set_family(group.first);
      if (group.second) kept.front().mutable_invalidate()->set_index(*group.second);
      kept.front().mutable_invalidate()->set_kind(v1::INVALIDATE_COVER);
    }
    Include(one, &cover->second);
  }
  for (v1::DaemonEvent& event : kept) {
    if (!event.has_invalidate() || event.invalidate().needs_ack()) continue;
    Group group(event.invalidate().family(), std::nullopt);
    if (event.invalidate().has_index()) group.second = event.invalidate().index();
    *event.mutable_invalidate() = covers[group];
  }
  queue_ = std::move(kept);
  Recount();
}

void Outbox::Recount() {
  bytes_ = 0;
  for (const v1::DaemonEvent& event : queue_) bytes_ += WireSize(event);
}

}  // namespace kcache::core
