// The operators' side of the daemon under test: counts and contexts, as kcachectl would ask.
//
// Threads: any. Ownership: refers to nothing but the socket's path.

#ifndef KCACHE_TESTS_CONFORMANCE_ADMIN_H_
#define KCACHE_TESTS_CONFORMANCE_ADMIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kcache/device.h"
#include "kcache/v1/admin.grpc.pb.h"

namespace kcache::conformance {

class Admin {
 public:
  explicit Admin(const std::string& socket);

  absl::StatusOr<v1::StatusReply> Status() const;
  // Contexts of a device, newest generation last.
  absl::StatusOr<std::vector<v1::ContextSummary>> Contexts(const DeviceId& device) const;
  // Clears a family's handles and artifacts; the last update.
  absl::StatusOr<v1::OperationUpdate> ClearArtifacts(const std::string& family) const;
  // Destroys a device as an operator; the last update.
  absl::StatusOr<v1::OperationUpdate> DestroyDevice(const DeviceId& device) const;
  // Probes all backends again; the last update.
  absl::StatusOr<v1::OperationUpdate> Rescan() const;
  // As `kcachectl devices` is told.
  absl::StatusOr<v1::AdminDeviceList> Devices() const;

 private:
  std::unique_ptr<v1::Admin::Stub> stub_;
};

}  // namespace kcache::conformance

#endif  // KCACHE_TESTS_CONFORMANCE_ADMIN_H_
