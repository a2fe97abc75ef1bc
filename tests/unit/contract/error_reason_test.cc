#include "contract/error_reason.h"

#include <set>
#include <string>

#include "contract/guarded_call.h"
#include "contract/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using ::testing::HasSubstr;

TEST(ErrorReason, CarriesCodeReasonMessageAndDetails) {
  const absl::Status status =
      MakeError(absl::StatusCode::kResourceExhausted, v1::LIMIT_EXCEEDED,
                "8 leases, the limit is 8", {{"limit", "max_leases"}, {"value", "8"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "8 leases, the limit is 8");
  EXPECT_EQ(ReasonOf(status), v1::LIMIT_EXCEEDED);
  EXPECT_EQ(DetailsOf(status), (ErrorDetails{{"limit", "max_leases"}, {"value", "8"}}));
}

TEST(ErrorReason, OkAndPlainStatusesHaveNone) {
  EXPECT_EQ(ReasonOf(absl::OkStatus()), v1::ERROR_REASON_UNSPECIFIED);
  EXPECT_EQ(ReasonOf(absl::NotFoundError("x")), v1::ERROR_REASON_UNSPECIFIED);
  EXPECT_TRUE(DetailsOf(absl::NotFoundError("x")).empty());
}

TEST(ErrorReason, AFailureNeverBecomesSuccess) {
  EXPECT_EQ(MakeError(absl::StatusCode::kOk, v1::STUCK, "x").code(), absl::StatusCode::kInternal);
}

TEST(ErrorReason, EveryReasonHasACode) {
  for (int number = v1::ErrorReason_MIN; number <= v1::ErrorReason_MAX; ++number) {
    if (!v1::ErrorReason_IsValid(number) || number == 0) continue;
    const auto reason = static_cast<v1::ErrorReason>(number);
    EXPECT_NE(CanonicalCode(reason), absl::StatusCode::kUnknown) << ReasonName(reason);
    EXPECT_EQ(ReasonOf(MakeError(reason, "x")), reason);
  }
  EXPECT_EQ(CanonicalCode(static_cast<v1::ErrorReason>(1234)), absl::StatusCode::kUnknown);
}

TEST(ErrorReason, NamesAlsoNewerReasons) {
  EXPECT_EQ(ReasonName(v1::DEVICE_DRAINING), "DEVICE_DRAINING");
  EXPECT_EQ(ReasonName(static_cast<v1::ErrorReason>(1234)), "REASON_1234");
}

TEST(ErrorReason, RoundTripsOverTheWire) {
  const absl::Status status =
      MakeError(v1::UNKNOWN_ENTRY, "no entry \"f\"; there are: g, h", {{"entry", "f"}});
  const v1::Error wire = ToProto(status);
  EXPECT_EQ(wire.reason(), v1::UNKNOWN_ENTRY);
  EXPECT_EQ(wire.code(), static_cast<int>(absl::StatusCode::kNotFound));
  const absl::Status back = FromProto(wire);
  EXPECT_EQ(back, status);
}

TEST(ErrorReason, OkIsTheEmptyErrorBothWays) {
  EXPECT_EQ(ToProto(absl::OkStatus()).ByteSizeLong(), 0u);
  EXPECT_TRUE(FromProto(v1::Error()).ok());
}

TEST(ErrorReason, APlainStatusStaysPlain) {
  const absl::Status back = FromProto(ToProto(absl::UnavailableError("x")));
  EXPECT_EQ(back, absl::UnavailableError("x"));
}

TEST(ErrorReason, AReasonWithoutCodeGetsItsOwn) {
  v1::Error error;
  error.set_reason(v1::DEVICE_DRAINING);
  EXPECT_EQ(FromProto(error).code(), absl::StatusCode::kUnavailable);
}

TEST(ErrorReason, UnknownNumbersSurvive) {
  v1::Error error;
  error.set_reason(static_cast<v1::ErrorReason>(4321));
  error.set_code(99);
  const absl::Status status = FromProto(error);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(static_cast<int>(ReasonOf(status)), 4321);
  EXPECT_EQ(static_cast<int>(ToProto(status).reason()), 4321);
  error.set_code(-5);
  EXPECT_EQ(FromProto(error).code(), absl::StatusCode::kUnknown);
}

TEST(ErrorReason, WhatIsNotUtf8StillParsesAtTheOtherEnd) {
  const absl::Status status =
      MakeError(v1::COMPILE_FAILED, "log: \xff\xfe caf\xc3\xa9", {{"k\xff", "v\x80"}});
  v1::Error parsed;
  ASSERT_TRUE(parsed.ParseFromString(ToProto(status).SerializeAsString()));
  EXPECT_TRUE(IsValidUtf8(parsed.message()));
  EXPECT_THAT(parsed.message(), HasSubstr("caf\xc3\xa9"));
  EXPECT_EQ(parsed.details().size(), 1u);
}

TEST(ErrorReason, AnnotateKeepsEverythingButTheMessage) {
  const absl::Status status =
      Annotate(MakeError(v1::DEVICE_LOST, "Xid 79", {{"device", "CUDA:0"}}), "while loading");
  EXPECT_EQ(status.message(), "while loading: Xid 79");
  EXPECT_EQ(ReasonOf(status), v1::DEVICE_LOST);
  EXPECT_EQ(DetailsOf(status).at("device"), "CUDA:0");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "while loading").ok());
}

TEST(ErrorReason, AGarbledPayloadIsNoReason) {
  absl::Status status = absl::InternalError("x");
  status.SetPayload("type.googleapis.com/kcache.v1.Error", absl::Cord("\xff\xff\xff"));
  EXPECT_EQ(ReasonOf(status), v1::ERROR_REASON_UNSPECIFIED);
}

TEST(GuardedCall, PassesResultsAndCatchesAll) {
  EXPECT_EQ(GuardedCall("f", [] { return absl::NotFoundError("x"); }), absl::NotFoundError("x"));
  EXPECT_EQ(*GuardedCall("f", []() -> absl::StatusOr<int> { return 3; }), 3);
  const absl::Status thrown =
      GuardedCall("the build", []() -> absl::Status { throw std::runtime_error("disk full"); });
  EXPECT_EQ(ReasonOf(thrown), v1::INTERNAL);
  EXPECT_EQ(thrown.message(), "the build threw: disk full");
  const absl::StatusOr<int> odd = GuardedCall("f", []() -> absl::StatusOr<int> { throw 7; });
  EXPECT_EQ(ReasonOf(odd.status()), v1::INTERNAL);
}

}  // namespace
}  // namespace kcache
