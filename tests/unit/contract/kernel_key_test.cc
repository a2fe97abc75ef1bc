#include "contract/kernel_key.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "contract/error_reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using ::testing::HasSubstr;

void AddHeader(v1::ProgramManifest* manifest, const std::string& name, std::string_view content) {
  v1::HeaderRef* header = manifest->add_headers();
  header->set_name(name);
  header->set_digest(Digest::Of(content).str());
}

void AddDefine(v1::ProgramManifest* manifest, const std::string& name, const std::string& value) {
  v1::Define* define = manifest->add_defines();
  define->set_name(name);
  define->set_value(value);
}

void AddShape(v1::ProgramManifest* manifest, const std::string& entry, uint32_t x, uint32_t y,
              uint32_t z) {
  v1::LaunchShape* shape = manifest->add_launch_shapes();
  shape->set_entry(entry);
  shape->mutable_local_size()->set_x(x);
  shape->mutable_local_size()->set_y(y);
  shape->mutable_local_size()->set_z(z);
}

v1::ProgramManifest Program() {
  v1::ProgramManifest manifest;
  manifest.set_language("opencl-c");
  manifest.set_source_digest(Digest::Of("kernel void f() {}").str());
  manifest.set_source_bytes(18);
  AddHeader(&manifest, "common.h", "#define A 1");
  AddHeader(&manifest, "math/vec.h", "#define B 2");
  AddDefine(&manifest, "WIDTH", "64");
  manifest.add_defines()->set_name("FAST");
  manifest.add_flags("-cl-mad-enable");
  manifest.add_flags("-cl-std=CL1.2");
  manifest.add_name_expressions("f<float>");
  manifest.add_name_expressions("f<int>");
  AddShape(&manifest, "f", 64, 1, 1);
  AddShape(&manifest, "g", 8, 8, 1);
  return manifest;
}

Digest Key(const v1::ProgramManifest& manifest) {
  const auto digest = ProgramDigest(manifest);
  EXPECT_TRUE(digest.ok()) << digest.status();
  return digest.value_or(Digest());
}

// A change of the schema must be deliberate: it makes every stored entry a miss.
TEST(ProgramDigest, TheSchemaIsFixed) {
  EXPECT_EQ(Key(Program()).hex(),
            "7bedd8be6375cb76f847f1c6e6788334938e5a2b4dae3e2fea712f51ac2731e3");
}

TEST(ProgramDigest, SameInputsSameKey) { EXPECT_EQ(Key(Program()), Key(Program())); }

TEST(ProgramDigest, AnyDifferenceMakesAnotherKey) {
  using Manifest = v1::ProgramManifest;
  const std::map<std::string, std::function<void(Manifest*)>> changes = {
      {"language", [](Manifest* m) { m->set_language("cuda-c++"); }},
      {"source", [](Manifest* m) { m->set_source_digest(Digest::Of("other").str()); }},
      {"header content",
       [](Manifest* m) { m->mutable_headers(0)->set_digest(Digest::Of("x").str()); }},
      {"header name", [](Manifest* m) { m->mutable_headers(0)->set_name("commons.h"); }},
      {"one more header", [](Manifest* m) { AddHeader(m, "z.h", ""); }},
      {"one header less", [](Manifest* m) { m->mutable_headers()->RemoveLast(); }},
      {"define value", [](Manifest* m) { m->mutable_defines(0)->set_value("65"); }},
      {"define name", [](Manifest* m) { m->mutable_defines(0)->set_name("HEIGHT"); }},
      {"-DNAME and -DNAME=", [](Manifest* m) { m->mutable_defines(1)->set_value(""); }},
      {"one more define", [](Manifest* m) { m->add_defines()->set_name("Z"); }},
      {"flag", [](Manifest* m) { m->set_flags(0, "-cl-fast-relaxed-math"); }},
      {"order of flags", [](Manifest* m) { m->mutable_flags()->SwapElements(0, 1); }},
      {"flag twice", [](Manifest* m) { m->add_flags(m->flags(1)); }},
      {"name expression", [](Manifest* m) { m->set_name_expressions(0, "f<double>"); }},
      {"launch shape", [](Manifest* m) { m->mutable_launch_shapes(0)->set_entry("h"); }},
      {"local size",
       [](Manifest* m) { m->mutable_launch_shapes(0)->mutable_local_size()->set_x(32); }},
      {"no launch shapes", [](Manifest* m) { m->clear_launch_shapes(); }},
  };
  std::map<Digest, std::string> keys = {{Key(Program()), "unchanged"}};
  for (const auto& [what, change] : changes) {
    v1::ProgramManifest manifest = Program();
    change(&manifest);
    const auto [same, unique] = keys.emplace(Key(manifest), what);
    EXPECT_TRUE(unique) << what << " has the key of " << same->second;
  }
}

TEST(ProgramDigest, OrderMattersOnlyForFlags) {
  v1::ProgramManifest manifest = Program();
  manifest.mutable_headers()->SwapElements(0, 1);
  manifest.mutable_defines()->SwapElements(0, 1);
  manifest.mutable_name_expressions()->SwapElements(0, 1);
  manifest.mutable_launch_shapes()->SwapElements(0, 1);
  EXPECT_EQ(Key(manifest), Key(Program()));
}

TEST(ProgramDigest, SetsForgetRepetitions) {
  v1::ProgramManifest manifest = Program();
  manifest.add_name_expressions("f<int>");
  AddShape(&manifest, "f", 64, 0, 0);  // a dimension that is not given is 1
  EXPECT_EQ(Key(manifest), Key(Program()));
}

TEST(ProgramDigest, TheAnnouncedSizeIsNoField) {
  v1::ProgramManifest manifest = Program();
  manifest.set_source_bytes(1);
  EXPECT_EQ(Key(manifest), Key(Program()));
}

TEST(ProgramDigest, RefusalsNameTheFieldAndItsValue) {
  using Manifest = v1::ProgramManifest;
  const struct {
    std::function<void(Manifest*)> spoil;
    v1::ErrorReason reason;
    std::string expected;
  } cases[] = {
      {[](Manifest* m) { m->clear_language(); }, v1::BAD_REQUEST, "language \"\" is empty"},
      {[](Manifest* m) { m->set_source_digest("abc"); }, v1::BAD_REQUEST,
       "source_digest has 3 bytes, not 32"},
      {[](Manifest* m) { AddHeader(m, "common.h", "other"); }, v1::BAD_REQUEST,
       "header \"common.h\" is given twice"},
      {[](Manifest* m) { AddDefine(m, "FAST", "1"); }, v1::BAD_REQUEST,
       "define \"FAST\" is given twice"},
      {[](Manifest* m) { m->mutable_headers(1)->set_digest("xy"); }, v1::BAD_REQUEST,
       "digest of header \"math/vec.h\" has 2 bytes"},
      {[](Manifest* m) { AddHeader(m, "/etc/passwd", ""); }, v1::BAD_REQUEST,
       "\"/etc/passwd\" is absolute"},
      {[](Manifest* m) { AddHeader(m, "a/../../b.h", ""); }, v1::BAD_REQUEST, "leaves its tree"},
      {[](Manifest* m) { AddHeader(m, "..", ""); }, v1::BAD_REQUEST, "leaves its tree"},
      {[](Manifest* m) { AddHeader(m, "a//b.h", ""); }, v1::BAD_REQUEST, "empty path component"},
      {[](Manifest* m) { AddHeader(m, "a/", ""); }, v1::BAD_REQUEST, "empty path component"},
      {[](Manifest* m) { AddHeader(m, "", ""); }, v1::BAD_REQUEST, "header name \"\" is empty"},
      {[](Manifest* m) { m->add_defines(); }, v1::BAD_REQUEST, "define \"\" is empty"},
      {[](Manifest* m) { m->add_name_expressions(""); }, v1::BAD_REQUEST, "name expression"},
      {[](Manifest* m) { AddShape(m, "", 1, 1, 1); }, v1::BAD_REQUEST, "launch shape"},
      {[](Manifest* m) { m->add_flags(std::string("-D\0X", 4)); }, v1::BAD_REQUEST,
       "contains a zero byte"},
      {[](Manifest* m) { m->add_flags("-D\xff"); }, v1::INVALID_UTF8, "flag \"-D\\xff\""},
      {[](Manifest* m) { AddHeader(m, "\xff.h", ""); }, v1::INVALID_UTF8, "header name"},
      {[](Manifest* m) { AddDefine(m, "A", "\xc0"); }, v1::INVALID_UTF8, "value of a define"},
  };
  for (const auto& test : cases) {
    v1::ProgramManifest manifest = Program();
    test.spoil(&manifest);
    const auto digest = ProgramDigest(manifest);
    ASSERT_FALSE(digest.ok()) << test.expected;
    EXPECT_EQ(ReasonOf(digest.status()), test.reason) << digest.status();
    EXPECT_THAT(std::string(digest.status().message()), HasSubstr(test.expected));
  }
}

TEST(ProgramDigest, DotFilesAndDotsInNamesAreFine) {
  v1::ProgramManifest manifest = Program();
  AddHeader(&manifest, "..hidden/x..y.h", "");
  AddHeader(&manifest, "./z.h", "");
  EXPECT_TRUE(ProgramDigest(manifest).ok());
}

// ---- properties over random programs ------------------------------------------------------------

class RandomPrograms : public ::testing::TestWithParam<int> {
 protected:
  // A small alphabet with the characters that separate fields elsewhere, and short texts, so that
  // concatenations often agree where fields do not.
  std::string Text(size_t shortest) {
    static constexpr std::string_view kAlphabet = "ab=,;.";
    std::string text(shortest + random_() % 4, ' ');
    for (char& c : text) c = kAlphabet[random_() % kAlphabet.size()];
    return text;
  }
  std::string HeaderName() {
    std::string name(1 + random_() % 3, ' ');
    for (char& c : name) c = "abc"[random_() % 3];
    return name;
  }

  v1::ProgramManifest Manifest() {
    v1::ProgramManifest manifest;
    manifest.set_language(Text(1));
    manifest.set_source_digest(Digest::Of(Text(0)).str());
    std::map<std::string, std::string> headers;
    for (size_t i = random_() % 3; i > 0; --i) headers[HeaderName()] = Text(0);
    for (const auto& [name, content] : headers) AddHeader(&manifest, name, content);
    std::map<std::string, std::optional<std::string>> defines;
    for (size_t i = random_() % 3; i > 0; --i) {
      defines[Text(1)] = random_() % 2 == 0 ? std::optional(Text(0)) : std::nullopt;
    }
    for (const auto& [name, value] : defines) {
      v1::Define* define = manifest.add_defines();
      define->set_name(name);
      if (value.has_value()) define->set_value(*value);
    }
    for (size_t i = random_() % 3; i > 0; --i) manifest.add_flags(Text(0));
    for (size_t i = random_() % 2; i > 0; --i) manifest.add_name_expressions(Text(1));
    for (size_t i = random_() % 2; i > 0; --i)
      AddShape(&manifest, Text(1), 1 + random_() % 3, 1, 1);
    return manifest;
  }

  template <typename Items>
  void Shuffle(Items* items) {
    for (int i = items->size() - 1; i > 0; --i) {
      items->SwapElements(i, static_cast<int>(random_() % static_cast<unsigned>(i + 1)));
    }
  }

  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

TEST_P(RandomPrograms, KeysAreEqualExactlyWhenProgramsAre) {
  std::map<Digest, std::string> seen;  // key -> the manifest in canonical order
  for (int i = 0; i < 1500; ++i) {
    v1::ProgramManifest manifest = Manifest();
    const std::string canonical = manifest.SerializeAsString();
    const Digest key = Key(manifest);
    const auto [entry, unique] = seen.emplace(key, canonical);
    EXPECT_EQ(entry->second, canonical) << "two programs, one key: " << manifest.DebugString();
    Shuffle(manifest.mutable_headers());
    Shuffle(manifest.mutable_defines());
    EXPECT_EQ(Key(manifest), key) << manifest.DebugString();
  }
  std::map<std::string, Digest> by_program;
  for (const auto& [key, canonical] : seen) {
    EXPECT_TRUE(by_program.emplace(canonical, key).second) << "one program, two keys";
  }
}

TEST_P(RandomPrograms, FieldListsDoNotCollide) {
  std::map<Digest, std::vector<std::string>> seen;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> fields(random_() % 5);
    for (std::string& field : fields) field = Text(0);
    FieldHasher hasher("test");
    for (const std::string& field : fields) hasher.Field(field);
    const auto [entry, unique] = seen.emplace(hasher.Finish(), fields);
    EXPECT_EQ(entry->second, fields);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, ::testing::Range(1, 4));

// ---- artifact and handle keys -------------------------------------------------------------------

ArtifactFields Artifact() {
  return {.program = Digest::Of("p"),
          .framework = "CUDA",
          .architecture = "sm_90a",
          .compiler_fingerprint = "nvrtc 13.0",
          .driver_version = "580",
          .trust_domain = ""};
}

TEST(ArtifactKey, EveryFieldCounts) {
  std::vector<Digest> keys = {ArtifactKey(Artifact())};
  ArtifactFields fields[6];
  for (ArtifactFields& each : fields) each = Artifact();
  fields[0].program = Digest::Of("q");
  fields[1].framework = "CUDA/PTX";
  fields[2].architecture = "sm_90";
  fields[3].compiler_fingerprint = "nvrtc 13.1";
  fields[4].driver_version = "581";
  fields[5].trust_domain = "uid:1000";
  for (const ArtifactFields& each : fields) keys.push_back(ArtifactKey(each));
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(ArtifactKey(Artifact()), ArtifactKey(Artifact()));
}

TEST(ArtifactKey, NeighbouringFieldsDoNotRunTogether) {
  ArtifactFields a = Artifact();
  ArtifactFields b = Artifact();
  a.framework = "CUDA";
  a.architecture = "sm_90";
  b.framework = "CUDAsm";
  b.architecture = "_90";
  EXPECT_NE(ArtifactKey(a), ArtifactKey(b));
}

HandleFields Handle() {
  return {.artifact = Digest::Of("a"),
          .entry = "f",
          .specialization = "s",
          .device = {"CUDA", 0},
          .trust_domain = "uid:1000",
          .generation = 1};
}

TEST(HandleKey, G7EveryFieldCounts) {
  std::vector<Digest> keys = {HandleKey(Handle())};
  HandleFields fields[7];
  for (HandleFields& each : fields) each = Handle();
  fields[0].artifact = Digest::Of("b");
  fields[1].entry = "g";
  fields[2].specialization = "t";
  fields[3].device.index = 1;
  fields[4].device.framework = "CUDA/PTX";
  fields[5].trust_domain = "uid:1001";
  fields[6].generation = 2;
  for (const HandleFields& each : fields) keys.push_back(HandleKey(each));
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
  EXPECT_EQ(HandleKey(Handle()), HandleKey(Handle()));
}

v1::Specialization Constants(const std::vector<std::pair<uint32_t, std::string>>& constants) {
  v1::Specialization specialization;
  for (const auto& [id, value] : constants) {
    v1::SpecializationConstant* constant = specialization.add_constants();
    constant->set_id(id);
    constant->set_value(value);
  }
  return specialization;
}

TEST(SpecializationBytes, OrderOfConstantsDoesNotMatter) {
  const auto a = SpecializationBytes(Constants({{1, "aaaa"}, {2, "bbbbbbbb"}}));
  const auto b = SpecializationBytes(Constants({{2, "bbbbbbbb"}, {1, "aaaa"}}));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
  EXPECT_NE(*a, *SpecializationBytes(Constants({{1, "bbbbbbbb"}, {2, "aaaa"}})));
  EXPECT_NE(*a, *SpecializationBytes(v1::Specialization()));
}

TEST(SpecializationBytes, LocalSizeCounts) {
  v1::Specialization sized;
  sized.mutable_local_size()->set_x(64);
  EXPECT_NE(*SpecializationBytes(sized), *SpecializationBytes(v1::Specialization()));
  v1::Specialization spelled_out = sized;
  spelled_out.mutable_local_size()->set_y(1);
  EXPECT_EQ(*SpecializationBytes(sized), *SpecializationBytes(spelled_out));
}

TEST(SpecializationBytes, RefusesDoublesAndOddSizes) {
  const auto twice = SpecializationBytes(Constants({{7, "aaaa"}, {3, "cccc"}, {7, "bbbb"}}));
  EXPECT_EQ(ReasonOf(twice.status()), v1::BAD_REQUEST);
  EXPECT_THAT(std::string(twice.status().message()), HasSubstr("constant 7 is given twice"));
  const auto odd = SpecializationBytes(Constants({{7, "abc"}}));
  EXPECT_THAT(std::string(odd.status().message()), HasSubstr("constant 7 has 3 bytes"));
}

}  // namespace
}  // namespace kcache
