#include "backends/sdk/device_service.h"

#include <chrono>
#include <utility>
#include <vector>

#include "contract/grpc_status.h"

namespace kcache::backend {
namespace {

template <class Reply>
grpc::Status Answer(absl::StatusOr<Reply> result, Reply* reply) {
  if (!result.ok()) return ToGrpc(result.status());
  *reply = *std::move(result);
  return grpc::Status::OK;
}

}  // namespace

grpc::Status DeviceService::OpenContext(grpc::ServerContext*,
                                        const v1::OpenContextRequest* request,
                                        v1::OpenContextReply* reply) {
  *reply = host_->OpenContext(*request);
  return grpc::Status::OK;
}

grpc::Status DeviceService::Load(grpc::ServerContext*, const v1::LoadRequest* request,
                                 v1::LoadReply* reply) {
  return Answer(host_->Load(*request), reply);
}

grpc::Status DeviceService::Fence(grpc::ServerContext*, const v1::FenceRequest* request,
                                  v1::FenceReply* reply) {
  return Answer(host_->Fence(*request), reply);
}

grpc::Status DeviceService::Unload(grpc::ServerContext*, const v1::UnloadRequest* request,
                                   v1::UnloadReply* reply) {
  return Answer(host_->Unload(*request), reply);
}

grpc::Status DeviceService::EndSession(grpc::ServerContext*, const v1::EndSessionRequest* request,
                                       v1::EndSessionReply* reply) {
  return Answer(host_->EndSession(*request), reply);
}

grpc::Status DeviceService::Teardown(grpc::ServerContext*, const v1::TeardownRequest* request,
                                     v1::TeardownReply* reply) {
  grpc::Status status = Answer(host_->Teardown(*request), reply);
  if (status.ok() && reply->finished()) on_torn_down_();
  return status;
}

grpc::Status DeviceService::Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                                  grpc::ServerWriter<v1::HostEvent>* writer) {
  const std::chrono::milliseconds period(std::max<uint64_t>(20, request->heartbeat_ms()));
  auto next_beat = std::chrono::steady_clock::now();
  std::vector<v1::HostEvent> events;
  while (!context->IsCancelled()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= next_beat) {
      // The numbers are the engine's own: nothing here asks the driver, which may hang.
      v1::HostEvent beat;
      *beat.mutable_heartbeat() = host_->Usage();
      if (!writer->Write(beat)) break;
      next_beat = now + period;
    }
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(
        next_beat - std::chrono::steady_clock::now());
    const bool serving = host_->NextEvents(std::max(wait, std::chrono::milliseconds(0)), &events);
    for (const v1::HostEvent& event : events) {
      if (!writer->Write(event)) return grpc::Status::OK;
    }
    if (!serving) break;
  }
  return grpc::Status::OK;
}

}  // namespace kcache::backend
