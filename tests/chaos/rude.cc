// A client that does not keep the rules: it speaks the session protocol by itself, takes leases, and then
// never acknowledges anything (`--mode=mute`), or reads nothing any more (`--mode=deaf`). It goes on until it is
// killed. Nobody may be harmed: its graces end, its outbox is bounded.
//
//   kcache-chaos-rude --socket=PATH --history=FILE --mode=mute --device=Fake:0

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "contract/history.h"
#include "contract/strings.h"
#include "kcache/v1/session.grpc.pb.h"
#include "tests/chaos/kernels.h"

namespace kcache::chaos {
namespace {

constexpr int kRenewMs = 500;

std::string Value(int argc, char** argv, std::string_view name) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(name) && argument.substr(name.size()).starts_with("=")) {
      return std::string(argument.substr(name.size() + 1));
    }
  }
  return "";
}

int Main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto history = History::Open(Value(argc, argv, "--history"));
  if (!history.ok()) return 1;
  const std::string mode = Value(argc, argv, "--mode"), device = Value(argc, argv, "--device");
  (*history)->Record("client", {{"pid", static_cast<uint64_t>(getpid())},
                                {"uid", static_cast<uint64_t>(getuid())},
                                {"profile", mode}});
  auto stub = v1::Session::NewStub(grpc::CreateChannel("unix:" + Value(argc, argv, "--socket"),
                                                       grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  auto stream = stub->Open(&context);
  v1::ClientMessage message;
  v1::Hello* hello = message.add_events()->mutable_hello();
  hello->set_version(v1::PROTOCOL_VERSION_1);
  hello->set_client_name("rude");
  message.add_events()->mutable_subscribe();
  const size_t colon = device.find(':');
  for (uint32_t number = 0; number < ProgramsOf(device.substr(0, colon)); ++number) {
    auto program = MakeProgram(device.substr(0, colon), number);
    v1::Acquire* acquire = message.add_events()->mutable_acquire();
    acquire->set_request_id(number + 1);
    acquire->set_program_digest(*FromHex(program->digest()));
    acquire->mutable_device()->set_framework(device.substr(0, colon));
    acquire->mutable_device()->set_index(
        static_cast<uint32_t>(std::strtoul(device.c_str() + colon + 1, nullptr, 10)));
    acquire->set_entry(kEntry);
  }
  if (!stream->Write(message)) return 0;
  if (mode == "deaf") {
    // Alive as far as the kernel can tell, and silent: the TTL reaps it.
    while (true) poll(nullptr, 0, -1);
  }
  // Reads, so that only the acknowledgement is missing, and renews.
  std::thread renewing([&stream] {
    v1::ClientMessage renew;
    uint64_t sequence = 0;
    v1::Renew* event = renew.add_events()->mutable_renew();
    do {
      poll(nullptr, 0, kRenewMs);
      event->set_sequence(++sequence);
    } while (stream->Write(renew));
  });
  v1::DaemonMessage answer;
  while (stream->Read(&answer)) {
    for (const v1::DaemonEvent& event : answer.events()) {
      if (event.has_invalidate()) {
        (*history)->Record("ignored", {{"operation", ToHex(event.invalidate().operation_id())}});
      }
    }
  }
  renewing.join();
  return 0;
}

}  // namespace
}  // namespace kcache::chaos

int main(int argc, char** argv) { return kcache::chaos::Main(argc, argv); }
