// Who did what, with which result: one audit line for each operation of an operator's.

#include "tests/unit/core/harness.h"

namespace kcache::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Peer kOperator{.uid = 7, .gid = 7, .pid = 8};
constexpr char kWho[] = "uid 7 pid 8 | ";

class Audit : public ::testing::Test {
 protected:
  // Runs `start(service, watcher)` to its end; the lines that it has left.
  template <class Start>
  std::vector<std::string> LinesOf(const Start& start) {
    h.events.audits.clear();
    h.executor.Run([&] { start(h.service(), [](const v1::OperationUpdate&) {}); });
    h.Settle();
    return h.events.audits;
  }
  static v1::DeviceRef Device(const std::string& family, uint32_t index) {
    v1::DeviceRef device;
    device.set_framework(family);
    device.set_index(index);
    return device;
  }

  Harness h;
};

TEST_F(Audit, Destroy) {
  v1::AdminDestroyRequest request;
  *request.mutable_device() = Device("Fake", 0);
  const auto destroy = [&](Service* service, OperationWatcher watcher) {
    service->StartDestroy(kOperator, request, std::move(watcher));
  };
  EXPECT_THAT(LinesOf(destroy), ElementsAre(std::string(kWho) + "destroy-device Fake:0 | done"));
  request.mutable_device()->set_index(9);
  EXPECT_THAT(LinesOf(destroy),
              ElementsAre(AllOf(StartsWith(kWho), HasSubstr("Fake:9 | failed: "))));
}

TEST_F(Audit, DestroyThatIsNotDurableSaysSo) {
  h.state.status = absl::InternalError("disk full");
  v1::AdminDestroyRequest request;
  *request.mutable_device() = Device("Fake", 0);
  request.set_stay_down(true);
  EXPECT_THAT(LinesOf([&](Service* service, OperationWatcher watcher) {
                service->StartDestroy(kOperator, request, std::move(watcher));
              }),
              ElementsAre(AllOf(StartsWith(kWho), HasSubstr("failed: "), HasSubstr("disk full"))));
}

TEST_F(Audit, Clear) {
  const auto clear = [&](Service* service, OperationWatcher watcher) {
    service->StartClear(kOperator, v1::AdminClearRequest(), std::move(watcher));
  };
  EXPECT_THAT(LinesOf(clear), ElementsAre(AllOf(StartsWith(kWho), HasSubstr("clear"),
                                                ::testing::EndsWith("| done"))));
}

TEST_F(Audit, Reset) {
  EXPECT_THAT(LinesOf([&](Service* service, OperationWatcher watcher) {
                service->StartReset(kOperator, std::move(watcher));
              }),
              ElementsAre(AllOf(StartsWith(kWho), HasSubstr("reset"),
                                ::testing::EndsWith("| done"))));
}

TEST_F(Audit, DeviceUp) {
  v1::DeviceUpRequest request;
  *request.mutable_device() = Device("Fake", 0);
  const auto up = [&](Service* service, OperationWatcher watcher) {
    service->StartDeviceUp(kOperator, request, std::move(watcher));
  };
  EXPECT_THAT(LinesOf(up), ElementsAre(std::string(kWho) + "device-up Fake:0 | done"));
  request.mutable_device()->set_index(9);
  EXPECT_THAT(LinesOf(up), ElementsAre(AllOf(StartsWith(kWho), HasSubstr("failed: "))));
}

TEST_F(Audit, Rescan) {
  EXPECT_THAT(LinesOf([&](Service* service, OperationWatcher watcher) {
                service->StartRescan(kOperator, std::move(watcher));
              }),
              ElementsAre(std::string(kWho) + "rescan all | done"));
}

TEST_F(Audit, ClearRefusals) {
  v1::ClearRefusalsRequest request;
  request.set_artifact_key(std::string(32, '\x0a'));
  EXPECT_THAT(LinesOf([&](Service* service, OperationWatcher) {
                service->ClearRefusals(kOperator, request);
              }),
              ElementsAre(std::string(kWho) + "clear-refusals " + [] {
                std::string hex;
                for (int i = 0; i < 32; ++i) hex += "0a";
                return hex;
              }() + " | 0 cleared"));
}

// Questions change nothing.
TEST_F(Audit, ListsAndWatchingLeaveNoLine) {
  EXPECT_THAT(LinesOf([&](Service* service, OperationWatcher watcher) {
                service->Status();
                service->Devices({});
                service->Sessions({});
                service->Leases({});
                service->Quotas();
                service->Refusals();
                service->Watch("nonsense", std::move(watcher));
              }),
              ElementsAre());
}

}  // namespace
}  // namespace kcache::core
