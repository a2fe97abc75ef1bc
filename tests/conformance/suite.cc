#include "tests/conformance/suite.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kcache::conformance {
namespace {

bool Matches(const std::string& pattern, const std::string& test) {
  if (pattern.ends_with("*")) {
    return test.starts_with(pattern.substr(0, pattern.size() - 1));
  }
  return pattern == test;
}

// "Suite.Case" of the running test. Instances of a parameterized suite count under their own suite
// and case: "Sizes/Copies.RoundTrip/3" is "Copies.RoundTrip".
std::string CurrentTest() {
  const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string suite = info->test_suite_name(), name = info->name();
  suite = suite.substr(suite.find('/') == std::string::npos ? 0 : suite.find('/') + 1);
  name = name.substr(0, name.find('/'));
  return suite + "." + name;
}

}  // namespace

Suite& Suite::Get() {
  static auto* const suite = new Suite();
  return *suite;
}

absl::StatusOr<std::unique_ptr<testing::PrivateDaemon>> Suite::NewDaemon(
    std::vector<std::string> flags, std::map<std::string, std::string> environment) const {
  testing::PrivateDaemonOptions options;
  environment.insert(backend_.environment.begin(), backend_.environment.end());
  options.environment = environment;
  std::vector<std::string> names;
  for (const auto& [name, value] : environment) names.push_back(name);
  if (!names.empty()) flags.push_back("--backends.environment=" + absl::StrJoin(names, ":"));
  options.flags = std::move(flags);
  return testing::PrivateDaemon::Start(std::move(options));
}

absl::Status Suite::Start(Backend backend) {
  backend_ = std::move(backend);
  // Faults are part of the suite: contexts must come back at once, however often they died.
  auto daemon = NewDaemon({"--hosts.crashes-to-hold=1000", "--hosts.backoff=0s"});
  if (!daemon.ok()) return daemon.status();
  daemon_ = *std::move(daemon);
  ClientOptions options;
  options.socket = daemon_->socket();
  auto client = Client::Connect(options);
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  auto list = client_->ListDevices();
  if (!list.ok()) return list.status();
  all_ = *std::move(list);
  const bool variant = backend_.framework != backend_.family();
  for (const DeviceInfo& device : all_.devices) {
    if (device.id.framework == backend_.framework) {
      devices_.push_back(device);
    } else if (variant && device.id.framework == backend_.family() &&
               std::find(device.variants.begin(), device.variants.end(),
                         backend_.framework.substr(backend_.family().size() + 1)) !=
                   device.variants.end()) {
      // Listed under its family; named by the variant when it is used.
      devices_.push_back(device);
      devices_.back().id.framework = backend_.framework;
    }
  }
  if (!devices_.empty()) {
    if (backend_.adapt) backend_.adapt(devices_, &backend_);
    return absl::OkStatus();
  }
  unavailable_ = "no device";
  for (const UnavailableFamily& family : all_.unavailable) {
    if (family.family == backend_.family()) unavailable_ = family.reason;
  }
  return absl::OkStatus();
}

absl::Status Suite::Stop() {
  if (client_ != nullptr) client_->Close();
  return daemon_ != nullptr ? daemon_->Stop() : absl::OkStatus();
}

std::string Suite::ExclusionOf(const std::string& test) const {
  for (const Exclusion& exclusion : backend_.exclusions) {
    if (Matches(exclusion.test, test)) return exclusion.reason;
  }
  return {};
}

bool Suite::UseAllowance() {
  const std::string test = CurrentTest();
  for (const Exclusion& allowance : backend_.allowances) {
    if (!Matches(allowance.test, test)) continue;
    allowed_[allowance.reason].push_back(test);
    return true;
  }
  return false;
}

void Conformance::SetUp() {
  const std::string reason = Suite::Get().ExclusionOf(CurrentTest());
  if (!reason.empty()) GTEST_SKIP() << reason;
  auto client = Connect(Suite::Get().daemon());
  ASSERT_TRUE(client.ok()) << client.status();
  client_ = *std::move(client);
}

void Conformance::TearDown() {
  if (client_ != nullptr) client_->Close();
  if (HasFailure()) {
    const std::string log = Suite::Get().daemon().Log();
    ADD_FAILURE() << "the daemon's log ends with:\n"
                  << log.substr(log.size() > 3000 ? log.size() - 3000 : 0);
  }
}

void OnDevice::SetUp() {
  if (Suite::Get().devices().empty()) GTEST_SKIP() << Suite::Get().unavailable();
  Conformance::SetUp();
}

absl::StatusOr<std::shared_ptr<Client>> Conformance::Connect(const testing::PrivateDaemon& daemon,
                                                             std::string name) {
  ClientOptions options;
  options.socket = daemon.socket();
  options.name = std::move(name);
  return Client::Connect(options);
}

Queue Conformance::queue(uint32_t number, size_t device_number) {
  auto queue = client().GetQueue(device(device_number), number);
  EXPECT_TRUE(queue.ok()) << queue.status();
  return queue.ok() ? *queue : Queue();
}

absl::StatusOr<Program> Conformance::ProgramOf(
    Role role, const std::function<void(KernelSource&)>& change) const {
  return ProgramOf(backend(), role, change);
}

absl::StatusOr<Program> Conformance::ProgramOf(
    const Backend& of, Role role, const std::function<void(KernelSource&)>& change) {
  const auto found = of.kernels.find(role);
  if (found == of.kernels.end()) {
    return absl::NotFoundError(absl::StrCat("backend ", of.name,
                                            " registers no kernel for the role ",
                                            std::string(RoleName(role))));
  }
  KernelSource source = found->second;
  if (role == Role::kHeader && source.headers.empty()) {
    source.headers = {{"scale.h", of.header(3)}};
    source.defines = {{"OFFSET", "11u"}};
  }
  if (change) change(source);
  ProgramBuilder builder(source.language, source.source);
  for (auto& [name, content] : source.headers) builder.AddHeader(name, content);
  for (auto& [name, value] : source.defines) builder.Define(name, value);
  for (const std::string& flag : source.flags) builder.Flag(flag);
  for (const std::string& expression : source.name_expressions) builder.NameExpression(expression);
  return builder.Build();
}

absl::StatusOr<Kernel> Conformance::TryAcquire(Role role, const Specialization& specialization) {
  auto program = ProgramOf(role);
  if (!program.ok()) return program.status();
  return client().Acquire({.program = *program,
                           .entry = backend().kernels.at(role).entry,
                           .device = device(),
                           .specialization = specialization});
}

Kernel Conformance::Acquire(Role role, const Specialization& specialization, size_t device_number) {
  auto program = ProgramOf(role);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  auto kernel = client().Acquire({.program = *program,
                                  .entry = backend().kernels.at(role).entry,
                                  .device = device(device_number),
                                  .specialization = specialization});
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *kernel : Kernel();
}

Kernel Conformance::AcquireFrom(Client& client, Role role, const DeviceId& device) {
  return AcquireOf(backend(), client, role, device);
}

Kernel Conformance::AcquireOf(const Backend& of, Client& client, Role role,
                              const DeviceId& device) {
  auto program = ProgramOf(of, role);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  auto kernel =
      client.Acquire({.program = *program, .entry = of.kernels.at(role).entry, .device = device});
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *kernel : Kernel();
}

Buffer Conformance::Allocate(uint64_t bytes, size_t device_number) {
  auto buffer = client().Allocate(device(device_number), bytes);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return buffer.ok() ? *std::move(buffer) : Buffer();
}

void Conformance::RunVectorAdd(Client& client, const DeviceId& device, uint32_t count) {
  RunVectorAddOf(backend(), client, device, count);
}

void Conformance::RunVectorAddOf(const Backend& of, Client& client, const DeviceId& device,
                                 uint32_t count) {
  const Kernel kernel = AcquireOf(of, client, Role::kVectorAdd, device);
  ASSERT_FALSE(kernel.empty());
  auto queue = client.GetQueue(device);
  ASSERT_TRUE(queue.ok()) << queue.status();
  std::vector<float> a(count), b(count);
  std::iota(a.begin(), a.end(), 1.0f);
  std::iota(b.begin(), b.end(), 1000.0f);
  auto buffer_a = client.Allocate(device, count * sizeof(float));
  auto buffer_b = client.Allocate(device, count * sizeof(float));
  auto buffer_sum = client.Allocate(device, count * sizeof(float));
  ASSERT_TRUE(buffer_a.ok() && buffer_b.ok() && buffer_sum.ok());
  KCACHE_ASSERT_OK(buffer_a->Write(*queue, a));
  KCACHE_ASSERT_OK(buffer_b->Write(*queue, b));
  KCACHE_ASSERT_OK(
      kernel.Launch(*queue, Linear((count + 63) / 64), *buffer_a, *buffer_b, *buffer_sum, count));
  std::vector<float> sum(count, -1.0f);
  KCACHE_ASSERT_OK(buffer_sum->Read(*queue, &sum));
  for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], a[i] + b[i]) << "element " << i;
}

}  // namespace kcache::conformance
