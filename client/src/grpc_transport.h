// The real transport: gRPC over unix sockets, callback API. The only file of the library that knows
// gRPC, besides kcachectl.
//
// Every stream always has a read outstanding, on gRPC's own threads.

#ifndef KCACHE_CLIENT_GRPC_TRANSPORT_H_
#define KCACHE_CLIENT_GRPC_TRANSPORT_H_

#include <memory>
#include <string>

#include "client/src/transport.h"

namespace kcache::internal {

std::unique_ptr<Transport> MakeGrpcTransport(std::string socket);

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_GRPC_TRANSPORT_H_
