// Compiling: errors, headers, defines, flags, entries, and what works without a device.

#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

using ::testing::HasSubstr;

class Compile : public OnDevice {
 protected:
  uint64_t Compiles() {
    auto status = Admin(Suite::Get().daemon().admin_socket()).Status();
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? status->compiles() : 0;
  }

  std::vector<uint32_t> Run(const Program& program, const std::string& entry) {
    auto kernel = client().Acquire({.program = program, .entry = entry, .device = device()});
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    if (!kernel.ok()) return {};
    Buffer out = AllocateWith(std::vector<uint32_t>(64, 0xffffffff));
    const Dim3 local =
        kernel->info().required_local_size.given() ? kernel->info().required_local_size : Dim3(64);
    KCACHE_EXPECT_OK(kernel->Launch(queue(), LaunchConfig::Grid({1}, local), out));
    return Contents<uint32_t>(out, 64);
  }
};

TEST_F(Compile, ErrorsCarryTheLog) {
  // Twice: a failure is not cached as anything else, and the worker survives it.
  for (int i = 0; i < 2; ++i) {
    const absl::Status failure = TryAcquire(Role::kCompileError).status();
    EXPECT_EQ(FailureReason(failure), Reason::kCompileFailed) << failure;
    EXPECT_THAT(std::string(failure.message()), HasSubstr("undeclared_name"));
  }
  RunVectorAdd(client(), device(), 100);
}

TEST_F(Compile, UnknownLanguage) {
  auto program = Program::FromSource("befunge-93", ">25*\"!dlrow\",@");
  ASSERT_TRUE(program.ok()) << program.status();
  auto kernel = client().Acquire({.program = *program, .entry = "main", .device = device()});
  EXPECT_EQ(FailureReason(kernel.status()), Reason::kUnsupportedLanguage) << kernel.status();
}

TEST_F(Compile, UnknownEntryListsTheKnown) {
  auto program = ProgramOf(Role::kTwoEntries);
  ASSERT_TRUE(program.ok()) << program.status();
  auto kernel = client().Acquire({.program = *program, .entry = "third", .device = device()});
  EXPECT_EQ(FailureReason(kernel.status()), Reason::kUnknownEntry) << kernel.status();
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("second"));
}

TEST_F(Compile, HeadersByContentAndDefines) {
  const std::string entry = backend().kernels.at(Role::kHeader).entry;
  auto three = ProgramOf(Role::kHeader);
  ASSERT_TRUE(three.ok()) << three.status();
  std::vector<uint32_t> result = Run(*three, entry);
  ASSERT_EQ(result.size(), 64u);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result[i], 3 * i + 11);

  // S16: another content under the same name is another program.
  auto seven = ProgramOf(Role::kHeader, [this](KernelSource& source) {
    source.headers = {{"scale.h", backend().header(7)}};
    source.defines = {{"OFFSET", "5u"}};
  });
  ASSERT_TRUE(seven.ok()) << seven.status();
  result = Run(*seven, entry);
  ASSERT_EQ(result.size(), 64u);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result[i], 7 * i + 5);
}

TEST_F(Compile, MissingHeaderIsNamed) {
  auto program = ProgramOf(Role::kHeader, [this](KernelSource& source) {
    source.headers = {{"other.h", backend().header(7)}};
    source.defines = {{"OFFSET", "5u"}};
  });
  ASSERT_TRUE(program.ok()) << program.status();
  auto kernel = client().Acquire({.program = *program,
                                  .entry = backend().kernels.at(Role::kHeader).entry,
                                  .device = device()});
  EXPECT_EQ(FailureReason(kernel.status()), Reason::kCompileFailed) << kernel.status();
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("scale.h"));
}

TEST_F(Compile, FlagsReachTheCompiler) {
  const std::string entry = backend().kernels.at(Role::kFlag).entry;
  auto without = ProgramOf(Role::kFlag);
  auto with =
      ProgramOf(Role::kFlag, [this](KernelSource& source) { source.flags = backend().flag_flags; });
  ASSERT_TRUE(without.ok() && with.ok());
  for (const auto& [program, expected] : {std::pair(&*without, 0u), std::pair(&*with, 1u)}) {
    auto kernel = client().Acquire({.program = *program, .entry = entry, .device = device()});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    Buffer out = AllocateWith(std::vector<uint32_t>(1, 9));
    KCACHE_ASSERT_OK(kernel->Launch(queue(), Single(), out));
    EXPECT_EQ(Contents<uint32_t>(out, 1)[0], expected);
  }
}

TEST_F(Compile, UnknownFlagIsAnError) {
  auto program = ProgramOf(
      Role::kFlag, [](KernelSource& source) { source.flags = {"--no-such-flag-anywhere"}; });
  ASSERT_TRUE(program.ok()) << program.status();
  auto kernel = client().Acquire(
      {.program = *program, .entry = backend().kernels.at(Role::kFlag).entry, .device = device()});
  ASSERT_FALSE(kernel.ok());
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("no-such-flag-anywhere"));
}

// G4: one source with two entries compiles once, and the entries differ.
TEST_F(Compile, G4_TwoEntriesOneCompile) {
  auto program = ProgramOf(Role::kTwoEntries);
  ASSERT_TRUE(program.ok()) << program.status();
  const uint64_t before = Compiles();
  const std::vector<uint32_t> first = Run(*program, "first");
  const uint64_t after_first = Compiles();
  const std::vector<uint32_t> second = Run(*program, "second");
  ASSERT_EQ(first.size(), 64u);
  ASSERT_EQ(second.size(), 64u);
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(first[i], 2 * i);
    EXPECT_EQ(second[i], 3 * i);
  }
  // Another test may have compiled it already; the second entry never compiles.
  EXPECT_LE(after_first, before + 1);
  EXPECT_EQ(Compiles(), after_first);
}

TEST_F(Compile, AcquiringAgainDoesNotCompile) {
  ASSERT_FALSE(Acquire(Role::kVectorAdd).empty());
  const uint64_t before = Compiles();
  auto other = Connect(Suite::Get().daemon(), "another process");
  ASSERT_TRUE(other.ok()) << other.status();
  const Kernel kernel = AcquireFrom(**other, Role::kVectorAdd, device());
  ASSERT_FALSE(kernel.empty());
  EXPECT_EQ(kernel.origin(), Origin::kWarm);
  EXPECT_EQ(Compiles(), before);
}

TEST_F(Compile, TemplateInstantiation) {
  const Kernel kernel = Acquire(Role::kTemplate);
  ASSERT_FALSE(kernel.empty());
  EXPECT_NE(kernel.info().lowered_name, kernel.info().entry);
  Buffer out = Allocate(256);
  KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(1), out));
  const std::vector<uint32_t> result = Contents<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(result[i], 5 * i);
}

// ---- without a device

class CompileOnly : public Conformance {
 protected:
  absl::StatusOr<Artifact> CompileFor(Role role, const std::string& architecture,
                                      const std::function<void(KernelSource&)>& change = nullptr) {
    auto program = ProgramOf(role, change);
    if (!program.ok()) return program.status();
    return client().AcquireArtifact(*program, CompileTarget{backend().framework, architecture});
  }
  absl::StatusOr<Artifact> CompileFor(Role role) {
    return CompileFor(role, backend().compile_architecture);
  }
};

TEST_F(CompileOnly, EveryKernelCompiles) {
  for (const auto& [role, source] : backend().kernels) {
    if (role == Role::kCompileError) continue;
    auto artifact = CompileFor(role);
    ASSERT_TRUE(artifact.ok()) << RoleName(role) << ": " << artifact.status();
    EXPECT_EQ(artifact->format(), backend().artifact_format) << RoleName(role);
    EXPECT_FALSE(artifact->Bytes().empty());
    bool found = false;
    for (const KernelInfo& kernel : artifact->kernels()) found |= kernel.entry == source.entry;
    EXPECT_TRUE(found) << RoleName(role) << " has no entry " << source.entry;
  }
}

TEST_F(CompileOnly, ErrorsCarryTheLog) {
  const absl::Status failure = CompileFor(Role::kCompileError).status();
  EXPECT_EQ(FailureReason(failure), Reason::kCompileFailed) << failure;
  EXPECT_THAT(std::string(failure.message()), HasSubstr("undeclared_name"));
}

TEST_F(CompileOnly, SameProgramSameArtifact) {
  auto first = CompileFor(Role::kVectorAdd), second = CompileFor(Role::kVectorAdd);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_EQ(first->key(), second->key());
  const auto flagged =
      CompileFor(Role::kVectorAdd, backend().compile_architecture,
                 [this](KernelSource& source) { source.flags = backend().flag_flags; });
  ASSERT_TRUE(flagged.ok()) << flagged.status();
  EXPECT_NE(first->key(), flagged->key());
}

TEST_F(CompileOnly, UnknownArchitectureIsRefused) {
  const absl::Status failure = CompileFor(Role::kVectorAdd, "nonsense_42").status();
  EXPECT_EQ(FailureReason(failure), Reason::kUnsupportedArchitecture) << failure;
  EXPECT_TRUE(CompileFor(Role::kVectorAdd).ok());
}

TEST_F(CompileOnly, TemplateLoweredNames) {
  auto artifact = CompileFor(Role::kTemplate);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  ASSERT_EQ(artifact->kernels().size(), 1u);
  EXPECT_EQ(artifact->kernels()[0].entry, backend().kernels.at(Role::kTemplate).entry);
  EXPECT_THAT(artifact->kernels()[0].lowered_name, ::testing::StartsWith("_Z"));
}

TEST_F(CompileOnly, PathsOfThisMachineAreNoHeaders) {
  const auto failure =
      CompileFor(Role::kHeader, backend().compile_architecture, [](KernelSource& source) {
        const size_t at = source.source.find("\"scale.h\"");
        source.source.replace(at, 9, "\"/etc/hostname\"");
        source.headers = {{"unused.h", ""}};
        source.defines = {{"OFFSET", "1u"}};
      });
  EXPECT_EQ(FailureReason(failure.status()), Reason::kCompileFailed) << failure.status();
}

}  // namespace
}  // namespace kcache::conformance
