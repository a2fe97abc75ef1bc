// backend.proto's Device service over a Host.
//
// Threads: gRPC's.

#ifndef KCACHE_BACKENDS_SDK_DEVICE_SERVICE_H_
#define KCACHE_BACKENDS_SDK_DEVICE_SERVICE_H_

#include <functional>
#include <utility>

#include "backends/sdk/host.h"
#include "kcache/v1/backend.grpc.pb.h"

namespace kcache::backend {

class DeviceService : public v1::Device::Service {
 public:
  // `on_torn_down` runs when a Teardown is about to be answered as finished.
  DeviceService(Host* host, std::function<void()> on_torn_down)
      : host_(host), on_torn_down_(std::move(on_torn_down)) {}

  grpc::Status OpenContext(grpc::ServerContext*, const v1::OpenContextRequest* request,
                           v1::OpenContextReply* reply) override;
  grpc::Status Load(grpc::ServerContext*, const v1::LoadRequest* request,
                    v1::LoadReply* reply) override;
  grpc::Status Fence(grpc::ServerContext*, const v1::FenceRequest* request,
                     v1::FenceReply* reply) override;
  grpc::Status Unload(grpc::ServerContext*, const v1::UnloadRequest* request,
                      v1::UnloadReply* reply) override;
  grpc::Status EndSession(grpc::ServerContext*, const v1::EndSessionRequest* request,
                          v1::EndSessionReply* reply) override;
  grpc::Status Teardown(grpc::ServerContext*, const v1::TeardownRequest* request,
                        v1::TeardownReply* reply) override;
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::HostEvent>* writer) override;

 private:
  Host* const host_;
  const std::function<void()> on_torn_down_;
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_DEVICE_SERVICE_H_
