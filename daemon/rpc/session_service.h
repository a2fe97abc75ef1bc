// The session stream over gRPC's callback API: what is read goes straight into the core, what the core
// wants said is pulled from its outbox whenever the last write is through.
//
//   OPEN ──Close, end of the client's half, cancel──► CLOSING ──nothing left to write──► FINISHED
//                                                        └── still writing after a second: cancelled
//
// A write that does not get through never keeps acknowledgements from being read.
//
// Messages are serialized and parsed here, not by gRPC, so that what is queued behind a slow client is
// bytes and no tree of objects: a thousand clients that acquire at once would leave the heap in shreds.
//
// Threads: reactions come on gRPC's threads and continue on the executor; a reactor's state belongs
// to the executor. A reactor deletes itself after the core has let go of it.

#ifndef KCACHE_DAEMON_RPC_SESSION_SERVICE_H_
#define KCACHE_DAEMON_RPC_SESSION_SERVICE_H_

#include "daemon/core/dependencies.h"
#include "daemon/core/service.h"
#include "daemon/rpc/connection_table.h"
#include "kcache/v1/session.grpc.pb.h"

namespace kcache::rpc {

class SessionService : public v1::Session::WithRawCallbackMethod_Open<v1::Session::Service> {
 public:
  SessionService(core::Service* service, core::Executor* executor, const ConnectionTable* peers)
      : service_(service), executor_(executor), peers_(peers) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Open(
      grpc::CallbackServerContext* context) override;

 private:
  core::Service* const service_;
  core::Executor* const executor_;
  const ConnectionTable* const peers_;
};

}  // namespace kcache::rpc

#endif  // KCACHE_DAEMON_RPC_SESSION_SERVICE_H_
