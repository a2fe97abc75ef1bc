#include "contract/grpc_status.h"

#include <string>

#include "gtest/gtest.h"

namespace kcache {
namespace {

TEST(GrpcStatus, RoundTripsReasonAndDetails) {
  const absl::Status status = MakeError(v1::LIMIT_EXCEEDED, "too many", {{"limit", "max_leases"}});
  const grpc::Status wire = ToGrpc(status);
  EXPECT_EQ(wire.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(wire.error_message(), "too many");
  EXPECT_EQ(FromGrpc(wire), status);
}

TEST(GrpcStatus, OkIsOk) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(GrpcStatus, GrpcsOwnFailuresHaveNoReason) {
  const absl::Status status = FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "refused"));
  EXPECT_EQ(status, absl::UnavailableError("refused"));
}

TEST(GrpcStatus, ForeignDetailsAreIgnored) {
  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "x", "\xff\xff not ours"));
  EXPECT_EQ(status, absl::InternalError("x"));
}

TEST(GrpcStatus, WhatIsTooLongForMetadataIsCut) {
  std::string log(kMaxGrpcMessageBytes - 1, 'x');
  log += "\xc3\xa9 and more";  // the limit falls inside a character
  const grpc::Status wire =
      ToGrpc(MakeError(v1::COMPILE_FAILED, log, {{"log", std::string(10000, 'y')}}));
  EXPECT_EQ(wire.error_message(), std::string(kMaxGrpcMessageBytes - 1, 'x'));
  EXPECT_LE(wire.error_details().size(), kMaxGrpcDetailsBytes);
  EXPECT_EQ(ReasonOf(FromGrpc(wire)), v1::COMPILE_FAILED);
}

}  // namespace
}  // namespace kcache
