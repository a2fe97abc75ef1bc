// The fixture of the conformance tests: one daemon for all of them, a client for each.
//
// Threads: one. Ownership: Suite lives as long as main().

#ifndef KCACHE_TESTS_CONFORMANCE_SUITE_H_
#define KCACHE_TESTS_CONFORMANCE_SUITE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/client.h"
#include "tests/conformance/admin.h"
#include "tests/conformance/backend.h"
#include "tests/support/private_daemon.h"

namespace kcache::conformance {

#define KCACHE_ASSERT_OK(expression)                                \
  do {                                                              \
    const absl::Status kcache_assert_status = (expression);         \
    ASSERT_TRUE(kcache_assert_status.ok()) << kcache_assert_status; \
  } while (false)

#define KCACHE_EXPECT_OK(expression)                                \
  do {                                                              \
    const absl::Status kcache_expect_status = (expression);         \
    EXPECT_TRUE(kcache_expect_status.ok()) << kcache_expect_status; \
  } while (false)

// The backend under test and its daemon.
class Suite {
 public:
  static Suite& Get();

  // Starts the daemon and lists its devices.
  absl::Status Start(Backend backend);
  // Stops it; fails when it leaves anything behind.
  absl::Status Stop();

  const Backend& backend() const { return backend_; }
  testing::PrivateDaemon& daemon() { return *daemon_; }
  // Of the framework under test, UP or not.
  const std::vector<DeviceInfo>& devices() const { return devices_; }
  const DeviceList& all_devices() const { return all_; }
  // Why there is none; empty when there are devices.
  const std::string& unavailable() const { return unavailable_; }

  // Why the test is excluded; empty: it is not.
  std::string ExclusionOf(const std::string& test) const;
  // Whether the running test may take the way out that its guarantee has; then it is noted.
  bool UseAllowance();
  // reason → tests that took it
  const std::map<std::string, std::vector<std::string>>& allowed() const { return allowed_; }

  // `environment` is added to the backend's.
  absl::StatusOr<std::unique_ptr<testing::PrivateDaemon>> NewDaemon(
      std::vector<std::string> flags, std::map<std::string, std::string> environment = {}) const;

 private:
  Backend backend_;
  std::unique_ptr<testing::PrivateDaemon> daemon_;
  std::shared_ptr<Client> client_;  // an application that stays throughout
  DeviceList all_;
  std::vector<DeviceInfo> devices_;
  std::string unavailable_;
  std::map<std::string, std::vector<std::string>> allowed_;
};

// Skips what is excluded, and connects.
class Conformance : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  const Backend& backend() const { return Suite::Get().backend(); }
  Client& client() { return *client_; }
  DeviceId device(size_t number = 0) const { return Suite::Get().devices().at(number).id; }
  Queue queue(uint32_t number = 0, size_t device_number = 0);

  absl::StatusOr<std::shared_ptr<Client>> Connect(const testing::PrivateDaemon& daemon,
                                                  std::string name = "conformance");

  // The program of `role`; `change` may edit it first.
  absl::StatusOr<Program> ProgramOf(
      Role role, const std::function<void(KernelSource&)>& change = nullptr) const;
  static absl::StatusOr<Program> ProgramOf(
      const Backend& of, Role role, const std::function<void(KernelSource&)>& change = nullptr);
  absl::StatusOr<Kernel> TryAcquire(Role role, const Specialization& specialization = {});
  // A failure fails the test and answers an empty kernel.
  Kernel Acquire(Role role, const Specialization& specialization = {}, size_t device_number = 0);
  Kernel AcquireFrom(Client& client, Role role, const DeviceId& device);
  static Kernel AcquireOf(const Backend& of, Client& client, Role role, const DeviceId& device);

  Buffer Allocate(uint64_t bytes, size_t device_number = 0);
  template <class T>
  Buffer AllocateWith(const std::vector<T>& values, size_t device_number = 0) {
    Buffer buffer = Allocate(values.size() * sizeof(T), device_number);
    KCACHE_EXPECT_OK(buffer.Write(queue(0, device_number), values));
    return buffer;
  }
  template <class T>
  std::vector<T> Contents(const Buffer& buffer, size_t count, size_t device_number = 0) {
    std::vector<T> values(count);
    KCACHE_EXPECT_OK(buffer.Read(queue(0, device_number), &values));
    return values;
  }
  // Launches vector_add over `count` elements and checks every result.
  void RunVectorAdd(Client& client, const DeviceId& device, uint32_t count);
  // The same with the kernel that `of` registers.
  static void RunVectorAddOf(const Backend& of, Client& client, const DeviceId& device,
                             uint32_t count);

  std::shared_ptr<Client> client_;
};

// Tests that need a device. Without one they are excluded, with the daemon's reason.
class OnDevice : public Conformance {
 protected:
  void SetUp() override;
};

// A launch of one dimension whose local size all kernels of one dimension have.
inline LaunchConfig Linear(uint32_t groups) { return LaunchConfig::Grid({groups}, {64}); }
inline LaunchConfig Single() { return LaunchConfig::Grid({1}, {1}); }

}  // namespace kcache::conformance

#endif  // KCACHE_TESTS_CONFORMANCE_SUITE_H_
