// Messages between a compile worker and the processes that compile for it: a kind, a length, bytes.
//
// Threads: one at a time on each end of a socket.

#ifndef KCACHE_BACKENDS_OPENCL_CHILD_CHANNEL_H_
#define KCACHE_BACKENDS_OPENCL_CHILD_CHANNEL_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace kcache::backend::opencl {

enum class ChildFrame : uint8_t {
  kRequest = 1,     // v1::CompileRequest
  kReply = 2,       // v1::CompileReply
  kOtherSizes = 3,  // empty: the process has settled on other local sizes
};

// Both block. False: the other end has gone.
bool SendFrame(int socket, ChildFrame kind, std::string_view payload);
bool ReceiveFrame(int socket, ChildFrame* kind, std::string* payload);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_CHILD_CHANNEL_H_
