// Owns the precompiled <grpcpp/grpcpp.h> that kcache_use_grpc_pch shares (deploy/cmake).
#include <grpcpp/grpcpp.h>
