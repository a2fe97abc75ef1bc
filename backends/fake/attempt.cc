#include "backends/fake/attempt.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "contract/error_reason.h"

namespace kcache::backend::fake {
namespace {

struct Words {
  std::string verb;
  std::string operand;
};

Words Split(std::string_view what) {
  const size_t space = what.find(' ');
  if (space == what.npos) return {std::string(what), ""};
  return {std::string(what.substr(0, space)), std::string(what.substr(space + 1))};
}

absl::Status Outcome(std::string_view what, bool got_through) {
  if (got_through) return absl::OkStatus();
  const int error = errno;
  return MakeError(v1::PERMISSION_DENIED,
                   std::string(what) + ": refused: " + std::strerror(error));
}

// Ends only from outside.
[[noreturn]] void ForkWithoutEnd() {
  for (;;) (void)!fork();
}

bool Read(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char byte;
  const bool got = fd >= 0 && read(fd, &byte, 1) == 1;
  const int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return got;
}

bool List(const std::string& path) {
  DIR* listing = opendir(path.c_str());
  if (listing == nullptr) return false;
  closedir(listing);
  return true;
}

bool Write(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const bool got = fd >= 0 && write(fd, "x", 1) == 1;
  const int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return got;
}

// The node itself, or one of the same number under another name.
bool OpenDevice(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) {
    close(fd);
    return true;
  }
  const dev_t memory = makedev(1, 1);
  return mknod("node", S_IFCHR | 0600, memory) == 0;
}

bool Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool got = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int error = errno;
  close(fd);
  errno = error;
  return got;
}

}  // namespace

bool IsAttempt(std::string_view what) {
  const Words words = Split(what);
  if (words.verb == "fork") return words.operand.empty();
  for (const char* verb : {"read", "list", "write", "device", "connect", "signal", "trace"}) {
    if (words.verb == verb) return !words.operand.empty();
  }
  return false;
}

absl::Status Attempt(std::string_view what) {
  const Words words = Split(what);
  const std::string& operand = words.operand;
  if (words.verb == "fork") ForkWithoutEnd();
  if (words.verb == "read") return Outcome(what, Read(operand));
  if (words.verb == "list") return Outcome(what, List(operand));
  if (words.verb == "write") return Outcome(what, Write(operand));
  if (words.verb == "device") return Outcome(what, OpenDevice(operand));
  if (words.verb == "connect") return Outcome(what, Connect(std::atoi(operand.c_str())));
  const pid_t pid = std::atoi(operand.c_str());
  if (words.verb == "signal") return Outcome(what, kill(pid, SIGKILL) == 0);
  return Outcome(what, ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) == 0);
}

}  // namespace kcache::backend::fake
