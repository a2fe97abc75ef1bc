#include "tests/conformance/admin.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>

#include "contract/grpc_status.h"

namespace kcache::conformance {
namespace {

// Far beyond what any answer takes; only a hang gets there.
void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
}

absl::StatusOr<v1::OperationUpdate> LastOf(grpc::ClientReader<v1::OperationUpdate>* reader) {
  v1::OperationUpdate update, last;
  while (reader->Read(&update)) last = update;
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return FromGrpc(status);
  return last;
}

}  // namespace

Admin::Admin(const std::string& socket)
    : stub_(v1::Admin::NewStub(
          grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()))) {}

absl::StatusOr<v1::StatusReply> Admin::Status() const {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::StatusReply reply;
  const grpc::Status status = stub_->Status(&context, {}, &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

absl::StatusOr<std::vector<v1::ContextSummary>> Admin::Contexts(const DeviceId& device) const {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::ListRequest request;
  const std::string family = device.framework.substr(0, device.framework.find('/'));
  request.set_family(family);
  v1::AdminDeviceList reply;
  const grpc::Status status = stub_->ListDevices(&context, request, &reply);
  if (!status.ok()) return FromGrpc(status);
  std::vector<v1::ContextSummary> contexts;
  for (const v1::AdminDevice& one : reply.devices()) {
    if (one.info().device().framework() != family || one.info().device().index() != device.index) {
      continue;
    }
    contexts.insert(contexts.end(), one.contexts().begin(), one.contexts().end());
  }
  std::sort(contexts.begin(), contexts.end(), [](const auto& a, const auto& b) {
    return a.context().generation() < b.context().generation();
  });
  return contexts;
}

absl::StatusOr<v1::OperationUpdate> Admin::ClearArtifacts(const std::string& family) const {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::AdminClearRequest request;
  request.set_family(family);
  request.set_artifacts(true);
  return LastOf(stub_->Clear(&context, request).get());
}

absl::StatusOr<v1::OperationUpdate> Admin::DestroyDevice(const DeviceId& device) const {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::AdminDestroyRequest request;
  request.mutable_device()->set_framework(device.framework);
  request.mutable_device()->set_index(device.index);
  return LastOf(stub_->DestroyDevice(&context, request).get());
}

absl::StatusOr<v1::OperationUpdate> Admin::Rescan() const {
  grpc::ClientContext context;
  SetDeadline(&context);
  return LastOf(stub_->Rescan(&context, v1::RescanRequest()).get());
}

absl::StatusOr<v1::AdminDeviceList> Admin::Devices() const {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::AdminDeviceList reply;
  const grpc::Status status = stub_->ListDevices(&context, v1::ListRequest(), &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

}  // namespace kcache::conformance
