// The hub's rules on one thread; those that need several are in invalidation_hub_threads_test.cc.

#include "contract/invalidation_hub.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "contract/error_reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InvalidationHubTest : public ::testing::Test {
 protected:
  // A listener that writes "<name> <kind> <scope> <phase>" into the log.
  InvalidationHub::Listener Log(const std::string& name) {
    return [this, name](const v1::Invalidate& event) {
      std::string line = name;
      line += event.kind() == v1::INVALIDATE_DEVICE ? " device" : "";
      line += event.kind() == v1::INVALIDATE_CLEAR ? " clear" : "";
      line += event.kind() == v1::INVALIDATE_RESET ? " reset" : "";
      line += event.kind() == v1::INVALIDATE_LOST ? " lost" : "";
      if (!event.family().empty()) line += " " + event.family();
      if (event.has_index()) line += ":" + std::to_string(event.index());
      line += event.phase() == v1::PHASE_BEFORE ? " before" : " after";
      log_.push_back(line);
      return absl::OkStatus();
    };
  }
  auto Note(const std::string& what, const absl::Status& status = absl::OkStatus()) {
    return [this, what, status] {
      log_.push_back(what);
      return status;
    };
  }
  auto Retire() {
    return [this] { log_.emplace_back("retire"); };
  }

  InvalidationHub hub_;
  const OperationScope operation_ = OperationScope::New();
  std::vector<std::string> log_;
};

TEST_F(InvalidationHubTest, ListenersReceiveFamilyAndIndexInOrder) {
  const auto first = hub_.OnDeviceDestroy(Log("first"));
  const auto second = hub_.OnDeviceDestroy(Log("second"));
  EXPECT_TRUE(hub_.AroundDestroy(operation_, "CUDA", 1, Retire(), Note("release")).ok());
  EXPECT_THAT(log_,
              ElementsAre("retire", "first device CUDA:1 before", "second device CUDA:1 before",
                          "release", "first device CUDA:1 after", "second device CUDA:1 after"));
}

TEST_F(InvalidationHubTest, EventsCarryTheOperation) {
  std::string seen;
  const auto listener = hub_.OnClearAll([&](const v1::Invalidate& event) {
    seen = event.operation_id();
    return absl::OkStatus();
  });
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("clear")).ok());
  EXPECT_EQ(seen, operation_.id());
}

TEST_F(InvalidationHubTest, AroundClearIsNotifyClearNotify) {
  const auto listener = hub_.OnClearAll(Log("memo"));
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("clear")).ok());
  EXPECT_THAT(log_, ElementsAre("memo clear before", "clear", "memo clear after"));
}

TEST_F(InvalidationHubTest, AClearNamesItsScope) {
  const auto listener = hub_.OnClearAll(Log("memo"));
  EXPECT_TRUE(hub_.AroundClear(operation_, {"HIP", std::nullopt}, Note("clear")).ok());
  EXPECT_TRUE(hub_.AroundClear(operation_, {"HIP", 2}, Note("clear")).ok());
  EXPECT_THAT(log_, ElementsAre("memo clear HIP before", "clear", "memo clear HIP after",
                                "memo clear HIP:2 before", "clear", "memo clear HIP:2 after"));
}

TEST_F(InvalidationHubTest, ResetIsToldToClearListenersOnBothSides) {
  const auto clears = hub_.OnClearAll(Log("memo"));
  const auto destroys = hub_.OnDeviceDestroy(Log("device"));
  EXPECT_TRUE(hub_.AroundReset(operation_, Note("ids retired")).ok());
  EXPECT_THAT(log_, ElementsAre("memo reset before", "ids retired", "memo reset after"));
}

TEST_F(InvalidationHubTest, ClearAndDestroyListenersAreApart) {
  const auto clears = hub_.OnClearAll(Log("memo"));
  const auto destroys = hub_.OnDeviceDestroy(Log("device"));
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("clear")).ok());
  EXPECT_THAT(log_, ElementsAre("memo clear before", "clear", "memo clear after"));
}

// G5: every listener runs, the clear runs, the first failure is reported afterwards.
TEST_F(InvalidationHubTest, G5AFailingListenerStopsNothing) {
  const auto first = hub_.OnClearAll(Log("first"));
  const auto bad = hub_.OnClearAll([&](const v1::Invalidate& event) {
    log_.emplace_back("bad");
    return absl::InternalError(event.phase() == v1::PHASE_BEFORE ? "bad before" : "bad after");
  });
  const auto last = hub_.OnClearAll(Log("last"));
  const absl::Status status = hub_.AroundClear(operation_, Note("clear"));
  EXPECT_EQ(status, absl::InternalError("bad before"));
  EXPECT_THAT(log_, ElementsAre("first clear before", "bad", "last clear before", "clear",
                                "first clear after", "bad", "last clear after"));
}

TEST_F(InvalidationHubTest, G5AFailureOfTheSecondNotificationIsReported) {
  const auto bad = hub_.OnClearAll([&](const v1::Invalidate& event) {
    return event.phase() == v1::PHASE_AFTER ? absl::InternalError("late") : absl::OkStatus();
  });
  EXPECT_EQ(hub_.AroundClear(operation_, Note("clear")), absl::InternalError("late"));
}

TEST_F(InvalidationHubTest, G5TheTeardownsOwnFailureWins) {
  const auto bad =
      hub_.OnClearAll([](const v1::Invalidate&) { return absl::InternalError("listener"); });
  const auto log = hub_.OnClearAll(Log("memo"));
  const absl::Status status =
      hub_.AroundClear(operation_, Note("clear", absl::AbortedError("clear")));
  EXPECT_EQ(status, absl::AbortedError("clear"));
  EXPECT_THAT(log_, ElementsAre("memo clear before", "clear", "memo clear after"));
}

TEST_F(InvalidationHubTest, G5ADestroyCompletesWhateverFails) {
  const auto bad =
      hub_.OnDeviceDestroy([](const v1::Invalidate&) { return absl::InternalError("listener"); });
  const auto log = hub_.OnDeviceDestroy(Log("x"));
  EXPECT_EQ(hub_.AroundDestroy(operation_, "HIP", 0, Retire(), Note("release")),
            absl::InternalError("listener"));
  EXPECT_THAT(log_,
              ElementsAre("retire", "x device HIP:0 before", "release", "x device HIP:0 after"));
  EXPECT_EQ(hub_.AroundDestroy(operation_, "HIP", 0, Retire(),
                               Note("release", absl::AbortedError("driver"))),
            absl::AbortedError("driver"));
}

TEST_F(InvalidationHubTest, G5ExceptionsAreFailures) {
  const auto bad = hub_.OnDeviceDestroy(
      [](const v1::Invalidate&) -> absl::Status { throw std::runtime_error("boom"); });
  const auto log = hub_.OnDeviceDestroy(Log("x"));
  const absl::Status status = hub_.AroundDestroy(
      operation_, "HIP", 0, [] { throw std::runtime_error("retire"); }, Note("release"));
  EXPECT_EQ(ReasonOf(status), v1::INTERNAL);
  EXPECT_THAT(std::string(status.message()), HasSubstr("retire"));
  EXPECT_THAT(log_, ElementsAre("x device HIP:0 before", "release", "x device HIP:0 after"));

  log_.clear();
  const absl::Status thrown =
      hub_.AroundDestroy(operation_, "HIP", 0, Retire(),
                         []() -> absl::Status { throw std::runtime_error("release"); });
  EXPECT_THAT(std::string(thrown.message()), HasSubstr("release"));
  EXPECT_THAT(log_, ElementsAre("retire", "x device HIP:0 before", "x device HIP:0 after"));
}

TEST_F(InvalidationHubTest, NestedClearsNotifyTwiceNotFourTimes) {
  const auto listener = hub_.OnClearAll(Log("memo"));
  const absl::Status status = hub_.AroundClear(operation_, [&] {
    return hub_.AroundClear(operation_,
                            [&] { return hub_.AroundClear(operation_, Note("clear")); });
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(log_, ElementsAre("memo clear before", "clear", "memo clear after"));
}

TEST_F(InvalidationHubTest, AnotherOperationInsideNotifiesByItself) {
  const auto listener = hub_.OnClearAll(Log("memo"));
  EXPECT_TRUE(
      hub_.AroundClear(operation_,
                       [&] { return hub_.AroundClear(OperationScope::New(), Note("inner")); })
          .ok());
  EXPECT_THAT(log_, ElementsAre("memo clear before", "memo clear before", "inner",
                                "memo clear after", "memo clear after"));
}

TEST_F(InvalidationHubTest, ANarrowerClearIsPartOfAWiderOneNotTheOtherWayRound) {
  const auto listener = hub_.OnClearAll(Log("m"));
  EXPECT_TRUE(hub_.AroundClear(operation_, {"CUDA", std::nullopt},
                               [&] {
                                 return hub_.AroundClear(operation_, {"CUDA", 1}, Note("part"));
                               })
                  .ok());
  EXPECT_THAT(log_, ElementsAre("m clear CUDA before", "part", "m clear CUDA after"));
  log_.clear();
  EXPECT_TRUE(hub_.AroundClear(operation_, {"CUDA", 1},
                               [&] {
                                 return hub_.AroundClear(operation_, {"CUDA", 2}, Note("sibling"));
                               })
                  .ok());
  EXPECT_THAT(log_, ElementsAre("m clear CUDA:1 before", "m clear CUDA:2 before", "sibling",
                                "m clear CUDA:2 after", "m clear CUDA:1 after"));
  log_.clear();
  EXPECT_TRUE(hub_.AroundClear(operation_, {"CUDA", 1},
                               [&] { return hub_.AroundClear(operation_, Note("all")); })
                  .ok());
  EXPECT_THAT(log_, ElementsAre("m clear CUDA:1 before", "m clear before", "all", "m clear after",
                                "m clear CUDA:1 after"));
}

TEST_F(InvalidationHubTest, AClearInsideADestroyIsToldToClearListeners) {
  const auto clears = hub_.OnClearAll(Log("memo"));
  const auto destroys = hub_.OnDeviceDestroy(Log("dev"));
  EXPECT_TRUE(hub_.AroundDestroy(operation_, "CUDA", 0, Retire(),
                                 [&] {
                                   return hub_.AroundClear(operation_, {"CUDA", 0}, Note("clear"));
                                 })
                  .ok());
  EXPECT_THAT(log_, ElementsAre("retire", "dev device CUDA:0 before", "memo clear CUDA:0 before",
                                "clear", "memo clear CUDA:0 after", "dev device CUDA:0 after"));
}

TEST_F(InvalidationHubTest, ANestedFailureIsTheClearsOwn) {
  const absl::Status status = hub_.AroundClear(operation_, [&] {
    return hub_.AroundClear(operation_, Note("clear", absl::AbortedError("inner")));
  });
  EXPECT_EQ(status, absl::AbortedError("inner"));
}

TEST_F(InvalidationHubTest, TheSameOperationMayRunAgain) {
  const auto listener = hub_.OnClearAll(Log("m"));
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("one")).ok());
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("two")).ok());
  EXPECT_THAT(log_, ElementsAre("m clear before", "one", "m clear after", "m clear before", "two",
                                "m clear after"));
}

// G6: on (family, index), variants included, never on the index alone.
TEST_F(InvalidationHubTest, G6ListenersForADeviceHearOnlyOfIt) {
  const auto plain = hub_.OnDeviceDestroy(DeviceName{"CUDA", 0}, Log("CUDA"));
  const auto refined = hub_.OnDeviceDestroy(DeviceName{"CUDA/PTX", 0}, Log("PTX"));
  const auto other_index = hub_.OnDeviceDestroy(DeviceName{"CUDA", 1}, Log("CUDA:1"));
  const auto other_family = hub_.OnDeviceDestroy(DeviceName{"HIP", 0}, Log("HIP"));
  EXPECT_TRUE(hub_.AroundDestroy(operation_, "CUDA", 0, Retire(), Note("release")).ok());
  EXPECT_THAT(log_, ElementsAre("retire", "CUDA device CUDA:0 before", "PTX device CUDA:0 before",
                                "release", "CUDA device CUDA:0 after", "PTX device CUDA:0 after"));
}

TEST_F(InvalidationHubTest, OpenClHasNoDestroyOfItsOwnButIsHonoured) {
  const auto listener = hub_.OnDeviceDestroy(DeviceName{"OpenCL", 0}, Log("cl"));
  v1::Invalidate event;
  event.set_kind(v1::INVALIDATE_DEVICE);
  event.set_phase(v1::PHASE_BEFORE);
  event.set_family("OpenCL");
  event.set_index(0);
  EXPECT_TRUE(hub_.Notify(event).ok());
  EXPECT_THAT(log_, ElementsAre("cl device OpenCL:0 before"));
}

TEST_F(InvalidationHubTest, ALostContextIsToldToDestroyListeners) {
  const auto destroys = hub_.OnDeviceDestroy(DeviceName{"CUDA", 0}, Log("dev"));
  const auto clears = hub_.OnClearAll(Log("memo"));
  v1::Invalidate event;
  event.set_kind(v1::INVALIDATE_LOST);
  event.set_phase(v1::PHASE_AFTER);
  event.set_family("CUDA");
  event.set_index(0);
  EXPECT_TRUE(hub_.Notify(event).ok());
  EXPECT_THAT(log_, ElementsAre("dev lost CUDA:0 after"));
}

TEST_F(InvalidationHubTest, RecordsThatMayStandForAnythingGoToEverybodyInScope) {
  const auto clears = hub_.OnClearAll(Log("memo"));
  const auto cuda = hub_.OnDeviceDestroy(DeviceName{"CUDA", 1}, Log("CUDA"));
  const auto hip = hub_.OnDeviceDestroy(DeviceName{"HIP", 1}, Log("HIP"));
  v1::Invalidate event;
  event.set_kind(v1::INVALIDATE_COVER);
  event.set_phase(v1::PHASE_BEFORE);
  event.set_family("CUDA");
  EXPECT_TRUE(hub_.Notify(event).ok());
  EXPECT_THAT(log_, ElementsAre("memo CUDA before", "CUDA CUDA before"));
  log_.clear();
  event.set_kind(v1::INVALIDATE_MISSED);
  event.clear_family();
  EXPECT_TRUE(hub_.Notify(event).ok());
  EXPECT_EQ(log_.size(), 3u);
}

TEST_F(InvalidationHubTest, AnUnregisteredListenerIsSilent) {
  auto listener = hub_.OnClearAll(Log("memo"));
  EXPECT_TRUE(listener.registered());
  listener.Unregister();
  listener.Unregister();
  EXPECT_FALSE(listener.registered());
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("clear")).ok());
  EXPECT_THAT(log_, ElementsAre("clear"));
}

TEST_F(InvalidationHubTest, RegistrationsMove) {
  InvalidationHub::Registration kept;
  {
    auto first = hub_.OnClearAll(Log("first"));
    kept = std::move(first);
  }
  auto second = hub_.OnClearAll(Log("second"));
  second = std::move(kept);  // drops "second", keeps "first"
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("clear")).ok());
  EXPECT_THAT(log_, ElementsAre("first clear before", "clear", "first clear after"));
}

TEST(InvalidationHub, ARegistrationMayOutliveTheHub) {
  auto hub = std::make_unique<InvalidationHub>();
  auto listener = hub->OnClearAll([](const v1::Invalidate&) { return absl::OkStatus(); });
  hub.reset();
  listener.Unregister();
  EXPECT_FALSE(listener.registered());
}

TEST_F(InvalidationHubTest, RegisteringInsideACallbackHoldsFromTheNextEvent) {
  std::vector<InvalidationHub::Registration> added;
  const auto listener = hub_.OnClearAll([&](const v1::Invalidate&) {
    added.push_back(hub_.OnClearAll(Log("added")));
    return absl::OkStatus();
  });
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("clear")).ok());
  // Added in BEFORE, it hears AFTER; the one added in AFTER hears nothing yet.
  EXPECT_THAT(log_, ElementsAre("clear", "added clear after"));
  EXPECT_EQ(added.size(), 2u);
}

TEST_F(InvalidationHubTest, UnregisteringItselfInsideACallback) {
  InvalidationHub::Registration self;
  self = hub_.OnClearAll([&](const v1::Invalidate&) {
    log_.emplace_back("once");
    self.Unregister();
    return absl::OkStatus();
  });
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("clear")).ok());
  EXPECT_THAT(log_, ElementsAre("once", "clear"));
}

TEST_F(InvalidationHubTest, UnregisteringAnotherInsideACallbackSkipsIt) {
  InvalidationHub::Registration later;
  const auto first = hub_.OnClearAll([&](const v1::Invalidate&) {
    later.Unregister();
    return absl::OkStatus();
  });
  later = hub_.OnClearAll(Log("later"));
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("clear")).ok());
  EXPECT_THAT(log_, ElementsAre("clear"));
}

TEST_F(InvalidationHubTest, AListenerCannotStartATeardown) {
  std::vector<v1::ErrorReason> reasons;
  const auto listener = hub_.OnClearAll([&](const v1::Invalidate& event) {
    EXPECT_TRUE(hub_.InListener());
    if (event.phase() != v1::PHASE_BEFORE) return absl::OkStatus();
    const OperationScope other = OperationScope::New();
    reasons.push_back(ReasonOf(hub_.AroundClear(operation_, Note("nested"))));
    reasons.push_back(ReasonOf(hub_.AroundClear(other, Note("other"))));
    reasons.push_back(ReasonOf(hub_.AroundReset(other, Note("reset"))));
    reasons.push_back(ReasonOf(hub_.AroundDestroy(other, "CUDA", 0, Retire(), Note("destroy"))));
    return absl::OkStatus();
  });
  EXPECT_FALSE(hub_.InListener());
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("clear")).ok());
  EXPECT_THAT(reasons, ElementsAre(v1::BLOCKING_IN_LISTENER, v1::BLOCKING_IN_LISTENER,
                                   v1::BLOCKING_IN_LISTENER, v1::BLOCKING_IN_LISTENER));
  EXPECT_THAT(log_, ElementsAre("clear")) << "nothing of the refused ones ran, not even retire";
  EXPECT_FALSE(hub_.InListener());
}

TEST_F(InvalidationHubTest, InListenerEndsAlsoAfterAnException) {
  const auto bad = hub_.OnClearAll([](const v1::Invalidate&) -> absl::Status { throw 1; });
  EXPECT_FALSE(hub_.AroundClear(operation_, Note("clear")).ok());
  EXPECT_FALSE(hub_.InListener());
}

TEST_F(InvalidationHubTest, NoListenersIsFine) {
  EXPECT_TRUE(hub_.AroundClear(operation_, Note("clear")).ok());
  EXPECT_TRUE(hub_.AroundDestroy(operation_, "X", 0, Retire(), Note("release")).ok());
  EXPECT_THAT(log_, ElementsAre("clear", "retire", "release"));
}

}  // namespace
}  // namespace kcache
