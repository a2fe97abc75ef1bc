// Bulk bytes beside the session stream: sources in, artifacts out.
//
// Digests are verified here, on gRPC's threads, before the core sees a blob.
//
// Threads: gRPC's; the core is called on the executor.

#ifndef KCACHE_DAEMON_RPC_BLOBS_SERVICE_H_
#define KCACHE_DAEMON_RPC_BLOBS_SERVICE_H_

#include "daemon/core/dependencies.h"
#include "daemon/core/service.h"
#include "daemon/rpc/connection_table.h"
#include "kcache/v1/session.grpc.pb.h"

namespace kcache::rpc {

class BlobsService : public v1::Blobs::CallbackService {
 public:
  BlobsService(core::Service* service, core::Executor* executor, const ConnectionTable* peers,
               uint64_t max_source_bytes)
      : service_(service),
        executor_(executor),
        peers_(peers),
        max_source_bytes_(max_source_bytes) {}

  grpc::ServerUnaryReactor* Missing(grpc::CallbackServerContext* context,
                                    const v1::MissingRequest* request,
                                    v1::MissingReply* reply) override;
  grpc::ServerReadReactor<v1::UploadRequest>* Upload(grpc::CallbackServerContext* context,
                                                     v1::UploadReply* reply) override;
  grpc::ServerWriteReactor<v1::FetchReply>* Fetch(grpc::CallbackServerContext* context,
                                                  const v1::FetchRequest* request) override;

 private:
  core::Service* const service_;
  core::Executor* const executor_;
  const ConnectionTable* const peers_;
  const uint64_t max_source_bytes_;
};

}  // namespace kcache::rpc

#endif  // KCACHE_DAEMON_RPC_BLOBS_SERVICE_H_
