// Without a daemon: a typed failure that names the socket is what a working library answers.
#include <iostream>

#include "kcache/client.h"

int main(int, char** argv) {
  const auto client = kcache::Client::Connect({.socket = argv[1]});
  std::cout << client.status() << "\n";
  const std::string message(client.status().message());
  return kcache::FailureReason(client.status()) == kcache::Reason::kDaemonUnreachable &&
                 message.find(argv[1]) != std::string::npos
             ? 0
             : 1;
}
