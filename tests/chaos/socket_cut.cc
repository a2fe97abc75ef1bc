#include "tests/chaos/socket_cut.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace kcache::chaos {

uint64_t CutSockets(uint32_t which) {
  std::vector<int> sockets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_un peer{};
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sun_family == AF_UNIX && peer.sun_path[0] == '/') sockets.push_back(fd);
  }
  uint64_t cut = 0;
  for (size_t i = 0; i < sockets.size(); ++i) {
    if (which != 0 && i % 2 != which - 1) continue;
    if (shutdown(sockets[i], SHUT_RDWR) == 0) ++cut;
  }
  return cut;
}

}  // namespace kcache::chaos
