// What the encoder writes is what protobuf reads.

#include "client/src/command_encoder.h"

#include <random>

#include "gtest/gtest.h"

namespace kcache::internal {
namespace {

v1::ExecutionRequest Parse(const std::string& bytes) {
  v1::ExecutionRequest request;
  EXPECT_TRUE(request.ParseFromString(bytes));
  return request;
}

TEST(CommandEncoder, AFullLaunch) {
  const float scalar = 1.5f;
  const std::string constants = "pushed";
  const WireArgument arguments[] = {
      {.kind = WireArgument::Kind::kScalar,
       .data = reinterpret_cast<const char*>(&scalar),
       .bytes = sizeof(scalar)},
      {.kind = WireArgument::Kind::kBuffer, .buffer = 77},
      {.kind = WireArgument::Kind::kRange, .bytes = 300, .buffer = 78, .offset = 1u << 20},
      {.kind = WireArgument::Kind::kLocalMemory, .bytes = 4096},
      {.kind = WireArgument::Kind::kImage, .buffer = 79},
      {.kind = WireArgument::Kind::kSampler,
       .sampler = {.normalized = true, .addressing = v1::ADDRESSING_REPEAT, .linear = true}},
      {.kind = WireArgument::Kind::kSampler},
      {.kind = WireArgument::Kind::kLocalMemory, .bytes = 0},
  };
  LaunchConfig config = LaunchConfig::Grid({1000, 2, 3}, {64, 1, 1});
  config.dynamic_local_bytes = 128;
  config.push_constants = std::as_bytes(std::span(constants));
  config.repeat = 9;
  config.global_offset = Dim3(0, 5, 0);
  config.dimensions = 3;
  std::string bytes;
  AppendLaunch(3, {.slot = 12, .incarnation = 5, .arguments = arguments}, config, &bytes);

  const v1::ExecutionRequest request = Parse(bytes);
  ASSERT_EQ(request.commands_size(), 1);
  EXPECT_EQ(request.commands(0).queue(), 3u);
  const v1::Launch& launch = request.commands(0).launch();
  EXPECT_EQ(launch.slot(), 12u);
  EXPECT_EQ(launch.incarnation(), 5u);
  EXPECT_EQ(launch.grid().x(), 1000u);
  EXPECT_EQ(launch.grid().y(), 2u);
  EXPECT_EQ(launch.grid().z(), 3u);
  EXPECT_EQ(launch.local().x(), 64u);
  EXPECT_FALSE(launch.has_global());
  EXPECT_EQ(launch.dynamic_local_bytes(), 128u);
  EXPECT_EQ(launch.push_constants(), constants);
  EXPECT_EQ(launch.repeat(), 9u);
  EXPECT_EQ(launch.global_offset().y(), 5u);
  EXPECT_EQ(launch.dimensions(), 3u);
  ASSERT_EQ(launch.arguments_size(), 8);
  EXPECT_EQ(launch.arguments(0).scalar(),
            std::string(reinterpret_cast<const char*>(&scalar), sizeof(scalar)));
  EXPECT_EQ(launch.arguments(1).buffer(), 77u);
  EXPECT_EQ(launch.arguments(2).range().buffer(), 78u);
  EXPECT_EQ(launch.arguments(2).range().offset(), 1u << 20);
  EXPECT_EQ(launch.arguments(2).range().bytes(), 300u);
  EXPECT_EQ(launch.arguments(3).local_bytes(), 4096u);
  EXPECT_EQ(launch.arguments(4).image(), 79u);
  EXPECT_TRUE(launch.arguments(5).sampler().normalized_coordinates());
  EXPECT_EQ(launch.arguments(5).sampler().addressing(), v1::ADDRESSING_REPEAT);
  EXPECT_TRUE(launch.arguments(5).sampler().linear());
  EXPECT_TRUE(launch.arguments(6).has_sampler());
  EXPECT_EQ(launch.arguments(7).value_case(), v1::Argument::kLocalBytes);
}

TEST(CommandEncoder, CommandsFollowEachOther) {
  v1::Command fill;
  fill.set_queue(1);
  fill.mutable_fill()->set_buffer(9);
  fill.mutable_fill()->set_pattern("abcd");
  const std::string data(300000, 'd');
  std::string bytes;
  AppendCommand(fill, &bytes);
  AppendWrite(2, 10, 1u << 30, data, &bytes);
  AppendLaunch(0, {}, LaunchConfig::Global(1), &bytes);
  const v1::ExecutionRequest request = Parse(bytes);
  ASSERT_EQ(request.commands_size(), 3);
  EXPECT_EQ(request.commands(0).SerializeAsString(), fill.SerializeAsString());
  EXPECT_EQ(request.commands(1).queue(), 2u);
  EXPECT_EQ(request.commands(1).write().buffer(), 10u);
  EXPECT_EQ(request.commands(1).write().offset(), 1u << 30);
  EXPECT_EQ(request.commands(1).write().data(), data);
  EXPECT_EQ(request.commands(2).launch().global().x(), 1u);
  EXPECT_EQ(request.commands(2).launch().global().z(), 1u);
}

// Every size of number and of value, many times over.
TEST(CommandEncoder, AgreesWithProtobufOnRandomLaunches) {
  std::mt19937_64 random(20);
  const auto number = [&random](int bits) {
    return bits == 0 ? 0 : random() >> (64 - 1 - random() % static_cast<uint64_t>(bits));
  };
  for (int round = 0; round < 2000; ++round) {
    const std::string value(number(9), 'v');
    std::vector<WireArgument> arguments;
    v1::Command expected;
    const uint32_t queue = static_cast<uint32_t>(number(10));
    expected.set_queue(queue);
    v1::Launch* launch = expected.mutable_launch();
    const WireLaunch ids{.slot = static_cast<uint32_t>(number(32)),
                         .incarnation = static_cast<uint32_t>(number(32))};
    launch->set_slot(ids.slot);
    launch->set_incarnation(ids.incarnation);
    const uint64_t count = random() % 20;
    for (uint64_t i = 0; i < count; ++i) {
      WireArgument argument;
      v1::Argument* wire = launch->add_arguments();
      switch (random() % 3) {
        case 0:
          argument = {
              .kind = WireArgument::Kind::kScalar, .data = value.data(), .bytes = value.size()};
          wire->set_scalar(value);
          break;
        case 1:
          argument = {.kind = WireArgument::Kind::kBuffer, .buffer = number(64)};
          wire->set_buffer(argument.buffer);
          break;
        default:
          argument = {.kind = WireArgument::Kind::kRange,
                      .bytes = number(64),
                      .buffer = number(64),
                      .offset = number(64)};
          wire->mutable_range()->set_buffer(argument.buffer);
          wire->mutable_range()->set_offset(argument.offset);
          wire->mutable_range()->set_bytes(argument.bytes);
          break;
      }
      arguments.push_back(argument);
    }
    LaunchConfig config;
    config.grid = Dim3(static_cast<uint32_t>(number(32)), static_cast<uint32_t>(number(32)), 1);
    launch->mutable_grid()->set_x(config.grid.x);
    launch->mutable_grid()->set_y(config.grid.y);
    launch->mutable_grid()->set_z(config.grid.z);
    std::string bytes;
    AppendLaunch(queue, {.slot = ids.slot, .incarnation = ids.incarnation, .arguments = arguments},
                 config, &bytes);
    const v1::ExecutionRequest request = Parse(bytes);
    ASSERT_EQ(request.commands_size(), 1);
    ASSERT_EQ(request.commands(0).SerializeAsString(), expected.SerializeAsString());
  }
}

}  // namespace
}  // namespace kcache::internal
