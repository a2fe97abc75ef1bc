#include "backends/vulkan/reflection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backends/vulkan/glsl_compiler.h"
#include "backends/vulkan/test_shaders.h"
#include "backends/vulkan/test_support.h"

namespace kcache::backend::vulkan {
namespace {

std::string Spirv(std::string_view source, std::vector<std::string> flags = {}) {
  GlslProgram program;
  program.source = source;
  auto options = ParseGlslFlags(flags);
  EXPECT_TRUE(options.ok()) << options.status();
  program.options = *options;
  auto result = CompileGlsl(program);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->spirv : std::string();
}

ShaderEntry Entry(const std::string& spirv, const SpecializationValues& values = {}) {
  auto module = SpirvModule::Parse(spirv);
  EXPECT_TRUE(module.ok()) << module.status();
  auto entry = ReflectEntry(*module, "main", values);
  EXPECT_TRUE(entry.ok()) << entry.status();
  return entry.ok() ? *entry : ShaderEntry();
}

TEST(Reflection, BuffersInBindingOrderThenPushConstants) {
  for (const auto& flags : std::vector<std::vector<std::string>>{
           {}, {"-O"}, {"--target-env=vulkan1.0"}, {"--target-env=vulkan1.3", "-O"}}) {
    const ShaderEntry entry = Entry(Spirv(kSaxpy, flags));
    ASSERT_EQ(entry.buffers.size(), 3u);
    EXPECT_EQ(entry.buffers[0].binding, 0u);
    EXPECT_EQ(entry.buffers[1].binding, 1u);
    EXPECT_EQ(entry.buffers[2].binding, 2u);
    EXPECT_TRUE(entry.buffers[0].read_only);
    EXPECT_FALSE(entry.buffers[2].read_only);
    EXPECT_EQ(entry.push_constant_bytes, 8u);

    const v1::KernelInfo info = DescribeEntry(entry);
    ASSERT_EQ(info.arguments_size(), 5);
    EXPECT_TRUE(info.arguments_known());
    EXPECT_EQ(info.arguments(2).kind(), v1::ARGUMENT_BUFFER);
    EXPECT_EQ(info.arguments(3).kind(), v1::ARGUMENT_SCALAR);
    EXPECT_EQ(info.arguments(4).offset(), 4u);
    EXPECT_EQ(info.required_local_size().x(), 64u);
    // The optimizer drops names, as it does for glslc.
    if (std::count(flags.begin(), flags.end(), "-O") != 0) continue;
    EXPECT_EQ(info.arguments(0).name(), "A");
    EXPECT_EQ(info.arguments(3).name(), "count");
    EXPECT_EQ(info.arguments(4).name(), "scale");
  }
}

TEST(Reflection, SeveralSetsUniformBuffersArraysAndAliases) {
  const ShaderEntry entry = Entry(Spirv(R"(#version 450
layout(local_size_x = 1) in;
layout(set = 1, binding = 3) buffer Many { uint value; } many[3];
layout(set = 0, binding = 5) uniform Settings { uint setting; };
layout(set = 0, binding = 1) buffer Words { uint words[]; };
layout(set = 0, binding = 1) buffer Pairs { uvec2 pairs[]; };
void main() { words[0] = many[2].value + setting; pairs[1] = uvec2(1); }
)"));
  ASSERT_EQ(entry.buffers.size(), 3u);
  EXPECT_EQ(entry.buffers[0].binding, 1u);
  EXPECT_FALSE(entry.buffers[0].uniform);
  EXPECT_EQ(entry.buffers[1].binding, 5u);
  EXPECT_TRUE(entry.buffers[1].uniform);
  EXPECT_EQ(entry.buffers[2].set, 1u);
  EXPECT_EQ(entry.buffers[2].count, 3u);
  EXPECT_EQ(DescribeEntry(entry).arguments_size(), 5);
  EXPECT_EQ(DescribeEntry(entry).arguments(4).name(), "many[2]");
}

TEST(Reflection, WhatTheEntryDoesNotUseIsNoArgument) {
  const ShaderEntry entry = Entry(Spirv(R"(#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer Unused { uint unused[]; };
layout(binding = 4) buffer Used { uint used[]; };
void store(uint value) { used[0] = value; }
void main() { store(7u); }
)"));
  ASSERT_EQ(entry.buffers.size(), 1u);
  EXPECT_EQ(entry.buffers[0].binding, 4u);
}

TEST(Reflection, LocalSizeFollowsTheSpecialization) {
  const std::string spirv = Spirv(kIndices);
  EXPECT_TRUE(Entry(spirv).local_size_is_free());
  EXPECT_EQ(DescribeEntry(Entry(spirv)).required_local_size().x(), 0u);
  const ShaderEntry entry = Entry(spirv, {{0, 8}, {2, 4}});
  EXPECT_EQ(entry.local_size[0].value, 8u);
  EXPECT_EQ(entry.local_size[1].value, 1u);
  EXPECT_EQ(entry.local_size[2].value, 4u);
}

TEST(Reflection, LocalMemoryFollowsTheSpecialization) {
  const std::string spirv = Spirv(R"(#version 450
layout(local_size_x = 16) in;
layout(constant_id = 3) const uint N = 16;
layout(binding = 0) buffer Data { float data[]; };
shared float tile[N * 2];
void main() {
  tile[gl_LocalInvocationIndex] = data[gl_LocalInvocationIndex];
  barrier();
  data[gl_LocalInvocationIndex] = tile[15 - gl_LocalInvocationIndex];
}
)");
  EXPECT_EQ(Entry(spirv).local_memory_bytes, 128u);
  EXPECT_EQ(Entry(spirv, {{3, 100}}).local_memory_bytes, 800u);
}

TEST(Reflection, SpecializationConstantsWithSizes) {
  auto module = SpirvModule::Parse(Spirv(R"(#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 1) in;
layout(constant_id = 1) const int64_t BIG = 5;
layout(constant_id = 0) const bool FLAG = true;
layout(binding = 0) buffer Data { int64_t data[]; };
void main() { data[0] = FLAG ? BIG : 0; }
)"));
  ASSERT_TRUE(module.ok()) << module.status();
  const std::vector<SpecConstant> constants = SpecConstantsOf(*module);
  ASSERT_EQ(constants.size(), 2u);
  EXPECT_TRUE(constants[0].is_bool);
  EXPECT_EQ(constants[0].bytes, 4u);
  EXPECT_EQ(constants[1].bytes, 8u);
}

TEST(Reflection, ImagesAreNamedAsWhatCannotBeGiven) {
  const ShaderEntry entry = Entry(Spirv(R"(#version 450
layout(local_size_x = 1) in;
layout(binding = 6, r32f) uniform image2D picture;
void main() { imageStore(picture, ivec2(0), vec4(1)); }
)"));
  EXPECT_THAT(entry.unsupported, testing::HasSubstr("binding 6 (picture)"));
  EXPECT_FALSE(DescribeEntry(entry).arguments_known());
}

TEST(Reflection, UnknownEntryListsTheKnown) {
  auto module = SpirvModule::Parse(Spirv(kSaxpy));
  ASSERT_TRUE(module.ok());
  const auto entry = ReflectEntry(*module, "mian");
  EXPECT_EQ(ReasonOf(entry.status()), v1::UNKNOWN_ENTRY);
  EXPECT_THAT(std::string(entry.status().message()), testing::HasSubstr("there are: main"));
}

// Whatever is done to the words, the answer is an error or a reflection, never an access beyond
// them (the sanitizers watch).
TEST(SpirvModule, SurvivesDamage) {
  const std::string good = Spirv(kSaxpy);
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    const size_t hits = 1 + random() % 4;
    for (size_t i = 0; i < hits; ++i) bad[random() % bad.size()] = static_cast<char>(random());
    if (round % 3 == 0) bad.resize(random() % bad.size() / 4 * 4);
    auto module = SpirvModule::Parse(bad);
    if (!module.ok()) {
      EXPECT_EQ(ReasonOf(module.status()), v1::BAD_REQUEST);
      continue;
    }
    for (const std::string& name : ComputeEntryNames(*module)) {
      auto entry = ReflectEntry(*module, name);
      if (entry.ok()) DescribeEntry(*entry);
    }
  }
}

TEST(SpirvModule, RefusesWhatIsNoSpirv) {
  EXPECT_EQ(ReasonOf(SpirvModule::Parse("").status()), v1::BAD_REQUEST);
  EXPECT_EQ(ReasonOf(SpirvModule::Parse(std::string(20, 'x')).status()), v1::BAD_REQUEST);
  EXPECT_EQ(ReasonOf(SpirvModule::Parse(std::string(21, '\0')).status()), v1::BAD_REQUEST);
}

}  // namespace
}  // namespace kcache::backend::vulkan
