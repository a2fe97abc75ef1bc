#include "tests/chaos/operator.h"

#include <grpcpp/grpcpp.h>
#include <poll.h>

#include <chrono>
#include <utility>

#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::chaos {
namespace {

constexpr std::chrono::seconds kDeadline{90};
constexpr int kUpAttempts = 60, kUpPauseMs = 250;

// A channel that finds a restarted daemon at once.
std::shared_ptr<grpc::Channel> Channel(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 300);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kDeadline);
}

std::string Outcome(grpc::ClientReader<v1::OperationUpdate>* reader, std::string* id) {
  v1::OperationUpdate update, last;
  while (reader->Read(&update)) last = update;
  const grpc::Status status = reader->Finish();
  *id = ToHex(last.operation_id());
  if (last.has_result()) {
    if (last.result().has_error()) return ReasonName(last.result().error().reason());
    return last.result().failures().empty() ? "done" : "done-with-failures";
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return "deadline";
  return "interrupted";
}

}  // namespace

Operator::Operator(const std::string& admin_socket, std::vector<DeviceId> devices,
                   const History* history)
    : devices_(std::move(devices)),
      history_(history),
      stub_(v1::Admin::NewStub(Channel(admin_socket))) {}

Operator::~Operator() { Finish(); }

// Never waits for an earlier one: the daemon may be stopped, and the step that lets it go on comes later.
void Operator::Start(const Step& step) {
  running_.emplace_back([this, step] { Perform(step); });
}

void Operator::Finish() {
  for (std::thread& thread : running_) thread.join();
  running_.clear();
}

void Operator::Perform(const Step& step) {
  const DeviceId& device = devices_[step.target % devices_.size()];
  std::string id, outcome;
  const uint64_t from = History::Now();
  for (int attempt = 0; attempt < kUpAttempts; ++attempt) {
    grpc::ClientContext context;
    SetDeadline(&context);
    std::unique_ptr<grpc::ClientReader<v1::OperationUpdate>> reader;
    switch (step.kind) {
      case StepKind::kClear:
      case StepKind::kClearArtifacts: {
        v1::AdminClearRequest request;
        // All, a family, or a device.
        if (step.target % 3 != 0) request.set_family(device.framework);
        if (step.target % 3 == 2) request.set_index(device.index);
        request.set_artifacts(step.kind == StepKind::kClearArtifacts);
        reader = stub_->Clear(&context, request);
        break;
      }
      case StepKind::kDestroy:
      case StepKind::kDestroyPhysical:
      case StepKind::kDestroyStayDown: {
        v1::AdminDestroyRequest request;
        request.mutable_device()->set_framework(device.framework);
        request.mutable_device()->set_index(device.index);
        request.set_physical(step.kind == StepKind::kDestroyPhysical);
        request.set_stay_down(step.kind == StepKind::kDestroyStayDown);
        reader = stub_->DestroyDevice(&context, request);
        break;
      }
      case StepKind::kDeviceUp: {
        v1::DeviceUpRequest request;
        request.mutable_device()->set_framework(device.framework);
        request.mutable_device()->set_index(device.index);
        reader = stub_->DeviceUp(&context, request);
        break;
      }
      case StepKind::kReset:
        reader = stub_->ResetDevices(&context, {});
        break;
      default:
        reader = stub_->Rescan(&context, {});
        break;
    }
    outcome = Outcome(reader.get(), &id);
    // A device must come up again, whatever is going on: everybody needs it.
    if (step.kind != StepKind::kDeviceUp || outcome == "done") break;
    poll(nullptr, 0, kUpPauseMs);
  }
  history_->Record("operation", {{"kind", Name(step.kind)},
                                 {"device", device.ToString()},
                                 {"operation", id},
                                 {"outcome", outcome},
                                 {"took_ms", (History::Now() - from) / 1'000'000}});
  if (step.kind == StepKind::kDestroyStayDown) {
    poll(nullptr, 0, static_cast<int>(step.duration_ms));
    Perform({.kind = StepKind::kDeviceUp, .target = step.target});
  }
}

void Operator::NoteStatus() {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::StatusReply status;
  if (!stub_->Status(&context, {}, &status).ok()) return;
  history_->Record("status", {{"built", status.handles_built()},
                              {"destroyed", status.handles_destroyed()},
                              {"retained", status.handles()},
                              {"sessions", status.sessions()},
                              {"leases", status.leases()}});
}

}  // namespace kcache::chaos
