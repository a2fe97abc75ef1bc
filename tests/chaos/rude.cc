// A client that does not keep the rules. It speaks the protocols by itself, takes leases, and then
//   --mode=mute   never acknowledges anything, and launches on whatever it was ever granted;
//   --mode=deaf   reads nothing any more.
// It goes on until it is killed. Nobody may be harmed: graces end, fences hold, outboxes are bounded.
//
//   kcache-chaos-rude --socket=PATH --history=FILE --mode=mute --device=Fake:0

#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "contract/history.h"
#include "contract/strings.h"
#include "kcache/v1/session.grpc.pb.h"
#include "tests/chaos/kernels.h"
#include "tests/chaos/lawless_stream.h"

namespace kcache::chaos {
namespace {

constexpr int kAgainMs = 400;

std::string Value(int argc, char** argv, std::string_view name) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(name) && argument.substr(name.size()).starts_with("=")) {
      return std::string(argument.substr(name.size() + 1));
    }
  }
  return "";
}

// Asks for every program that everybody uses, so that somebody has shown its source.
void AddAcquires(const std::string& device, uint64_t* request_id, v1::ClientMessage* message) {
  const size_t colon = device.find(':');
  const std::string family = device.substr(0, colon);
  for (uint32_t number = 0; number < ProgramsOf(family); ++number) {
    v1::Acquire* acquire = message->add_events()->mutable_acquire();
    acquire->set_request_id(++*request_id);
    acquire->set_program_digest(*FromHex(MakeProgram(family, number)->digest()));
    acquire->mutable_device()->set_framework(family);
    acquire->mutable_device()->set_index(
        static_cast<uint32_t>(std::strtoul(device.c_str() + colon + 1, nullptr, 10)));
    acquire->set_entry(kEntry);
  }
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
  uint64_t request_id = 0;
  v1::ClientMessage message;
  v1::Hello* hello = message.add_events()->mutable_hello();
  hello->set_version(v1::PROTOCOL_VERSION_1);
  hello->set_client_name("rude");
  message.add_events()->mutable_subscribe();
  AddAcquires(device, &request_id, &message);
  if (!stream->Write(message)) return 0;
  if (mode == "deaf") {
    // Alive as far as the kernel can tell, and silent: the TTL reaps it.
    while (true) poll(nullptr, 0, -1);
  }
  // Asks again and again: what was taken from it, it takes anew.
  std::thread asking([&stream, &device, request_id]() mutable {
    uint64_t sequence = 0;
    while (true) {
      poll(nullptr, 0, kAgainMs);
      v1::ClientMessage again;
      again.add_events()->mutable_renew()->set_sequence(++sequence);
      AddAcquires(device, &request_id, &again);
      if (!stream->Write(again)) return;
    }
  });
  v1::Welcome welcome;
  std::map<uint64_t, std::unique_ptr<LawlessStream>> executions;  // by context
  v1::DaemonMessage answer;
  while (stream->Read(&answer)) {
    for (const v1::DaemonEvent& event : answer.events()) {
      if (event.has_welcome()) welcome = event.welcome();
      if (event.has_context_info()) {
        executions[event.context_info().context().context_id()] = std::make_unique<LawlessStream>(
            welcome.instance(), welcome.session_id(), event.context_info());
      } else if (event.has_grant() && executions.contains(event.grant().context_id())) {
        executions[event.grant().context_id()]->Use(event.grant().lease());
      } else if (event.has_invalidate()) {
        (*history)->Record("ignored", {{"operation", ToHex(event.invalidate().operation_id())}});
      }
    }
  }
  asking.join();
  return 0;
}

}  // namespace
}  // namespace kcache::chaos

int main(int argc, char** argv) { return kcache::chaos::Main(argc, argv); }
