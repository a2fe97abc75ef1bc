#include "daemon/core/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kcache::core {
namespace {

v1::DaemonEvent Step(uint64_t revision, std::string family, uint32_t index, bool needs_ack,
                     v1::Phase phase = v1::PHASE_AFTER) {
  v1::DaemonEvent event;
  v1::Invalidate* step = event.mutable_invalidate();
  step->set_operation_id(std::string(16, static_cast<char>('a' + revision % 26)));
  step->set_revision(revision);
  step->set_phase(phase);
  step->set_kind(v1::INVALIDATE_DEVICE);
  step->set_family(std::move(family));
  step->set_index(index);
  step->set_needs_ack(needs_ack);
  return event;
}

v1::DaemonEvent Grant(uint64_t request) {
  v1::DaemonEvent event;
  event.mutable_grant()->set_request_id(request);
  return event;
}

std::vector<v1::DaemonEvent> TakeAll(Outbox* outbox) {
  v1::DaemonMessage message;
  while (outbox->Take(1 << 20, &message)) {
  }
  return {message.events().begin(), message.events().end()};
}

TEST(Outbox, KeepsOrder) {
  Outbox outbox(10, 1 << 20);
  EXPECT_TRUE(outbox.Push(Grant(1)));
  EXPECT_TRUE(outbox.Push(Step(1, "Fake", 0, true)));
  EXPECT_TRUE(outbox.Push(Grant(2)));
  auto events = TakeAll(&outbox);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].grant().request_id(), 1u);
  EXPECT_TRUE(events[1].has_invalidate());
  EXPECT_EQ(outbox.bytes(), 0u);
}

TEST(Outbox, TakesAtLeastOneAndAtMostTheBound) {
  Outbox outbox(10, 1 << 20);
  for (int i = 1; i <= 3; ++i) outbox.Push(Grant(static_cast<uint64_t>(i)));
  v1::DaemonMessage message;
  ASSERT_TRUE(outbox.Take(1, &message));
  EXPECT_EQ(message.events_size(), 1);
  EXPECT_EQ(outbox.events(), 2u);
}

TEST(Outbox, OverflowCoalescesPerDeviceIntoACover) {
  Outbox outbox(4, 1 << 20);
  outbox.Push(Grant(1));
  for (uint64_t r = 1; r <= 6; ++r) {
    EXPECT_TRUE(outbox.Push(Step(r, "Fake", static_cast<uint32_t>(r % 2), false)));
  }
  auto events = TakeAll(&outbox);
  uint64_t covered_to = 0;
  for (const auto& event : events) {
    if (!event.has_invalidate()) continue;
    covered_to = std::max(covered_to, event.invalidate().revision());
  }
  EXPECT_EQ(covered_to, 6u);
  EXPECT_TRUE(events[0].has_grant());
  EXPECT_LE(events.size(), 4u);
}

TEST(Outbox, NothingIsSkippedWhenCoalescing) {
  Outbox outbox(3, 1 << 20);
  for (uint64_t r = 1; r <= 50; ++r) {
    EXPECT_TRUE(outbox.Push(Step(r, "Fake", static_cast<uint32_t>(r), false)));
  }
  std::vector<bool> covered(51, false);
  for (const auto& event : TakeAll(&outbox)) {
    const v1::Invalidate& step = event.invalidate();
    const uint64_t from =
        step.kind() == v1::INVALIDATE_COVER ? step.covers_from() : step.revision();
    for (uint64_t r = from; r <= step.revision(); ++r) covered[r] = true;
  }
  for (uint64_t r = 1; r <= 50; ++r) EXPECT_TRUE(covered[r]) << r;
}

TEST(Outbox, WhatAsksForAnAckIsNeverCoalesced) {
  Outbox outbox(4, 1 << 20);
  outbox.Push(Step(1, "Fake", 0, true, v1::PHASE_BEFORE));
  for (uint64_t r = 2; r <= 20; ++r) outbox.Push(Step(r, "Fake", 0, false));
  auto events = TakeAll(&outbox);
  EXPECT_TRUE(events[0].invalidate().needs_ack());
  EXPECT_EQ(events[0].invalidate().revision(), 1u);
}

TEST(Outbox, GrantsThatOverflowCutTheStream) {
  Outbox outbox(4, 1 << 20);
  bool fits = true;
  for (int i = 1; i <= 6; ++i) fits = outbox.Push(Grant(static_cast<uint64_t>(i)));
  EXPECT_FALSE(fits);
}

TEST(Outbox, ProgressGoesFirst) {
  Outbox outbox(2, 1 << 20);
  v1::DaemonEvent progress;
  progress.mutable_progress()->set_what("compiling");
  outbox.Push(progress);
  outbox.Push(Grant(1));
  EXPECT_TRUE(outbox.Push(Grant(2)));
  for (const auto& event : TakeAll(&outbox)) EXPECT_FALSE(event.has_progress());
}

TEST(Outbox, ResumeReplaysWhatWasDeliveredButNotHandled) {
  Outbox outbox(10, 1 << 20);
  outbox.Push(Step(1, "Fake", 0, true, v1::PHASE_BEFORE));
  outbox.Push(Step(2, "Fake", 1, true, v1::PHASE_BEFORE));
  TakeAll(&outbox);
  outbox.Resume(1);
  auto events = TakeAll(&outbox);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].invalidate().revision(), 2u);
}

TEST(Outbox, ConfirmedStepsAreNotReplayed) {
  Outbox outbox(10, 1 << 20);
  outbox.Push(Step(1, "Fake", 0, false));
  TakeAll(&outbox);
  outbox.Confirm(1);
  outbox.Resume(0);
  EXPECT_TRUE(TakeAll(&outbox).empty());
}

}  // namespace
}  // namespace kcache::core
