#include "backends/opencl/child_channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace kcache::backend::opencl {
namespace {

struct Header {
  uint64_t bytes;
  uint8_t kind;
};

bool SendAll(int socket, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(socket, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int socket, char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t received = recv(socket, data, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    data += received;
    bytes -= static_cast<size_t>(received);
  }
  return true;
}

}  // namespace

bool SendFrame(int socket, ChildFrame kind, std::string_view payload) {
  Header header{};
  header.bytes = payload.size();
  header.kind = static_cast<uint8_t>(kind);
  return SendAll(socket, reinterpret_cast<const char*>(&header), sizeof(header)) &&
         SendAll(socket, payload.data(), payload.size());
}

bool ReceiveFrame(int socket, ChildFrame* kind, std::string* payload) {
  Header header{};
  if (!ReceiveAll(socket, reinterpret_cast<char*>(&header), sizeof(header))) return false;
  *kind = static_cast<ChildFrame>(header.kind);
  payload->resize(header.bytes);
  return ReceiveAll(socket, payload->data(), payload->size());
}

}  // namespace kcache::backend::opencl
