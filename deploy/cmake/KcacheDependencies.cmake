# What every part needs. What only one part needs is found in that part's CMakeLists.txt.
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Protobuf REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_program(KCACHE_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
mark_as_advanced(KCACHE_GRPC_CPP_PLUGIN)
