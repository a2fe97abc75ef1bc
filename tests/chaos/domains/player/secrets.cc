// A victim whose secrets have all been captured, and the stranger who uses them. Both speak the
// protocol without the library: what a stranger sends is what no honest client would.

#include <unistd.h>

#include <map>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/kernel_key.h"
#include "contract/strings.h"
#include "tests/chaos/domains/player/player.h"
#include "tests/chaos/domains/player/raw_session.h"

namespace kcache::domains {
namespace {

constexpr uint64_t kVictimsBuffer = 4242;
constexpr uint64_t kBufferBytes = 1024;

struct RawProgram {
  std::string source;
  v1::ProgramManifest manifest;
  Digest digest;
};

// Everybody's own, so that nobody has shown another's source by accident.
RawProgram ProgramOf(const std::string& owner) {
  RawProgram program;
  program.source = "// of " + owner + " " + std::to_string(getpid()) +
                   "\n__kernel void own(__global uint* x) { x[get_global_id(0)] += 1; }\n";
  program.manifest.set_language("opencl-c");
  program.manifest.set_source_digest(Digest::Of(program.source).str());
  program.manifest.set_source_bytes(program.source.size());
  auto digest = ProgramDigest(program.manifest);
  if (!digest.ok()) GiveUp(digest.status());
  program.digest = *digest;
  return program;
}

v1::Acquire AcquireOf(const std::string& device, const std::string& program_digest) {
  const DeviceId id = DeviceOf(device);
  v1::Acquire acquire;
  acquire.set_program_digest(program_digest);
  acquire.set_entry("own");
  acquire.mutable_device()->set_framework(id.framework);
  acquire.mutable_device()->set_index(id.index);
  return acquire;
}

v1::AttachSession AttachOf(const v1::Welcome& session, const v1::ContextInfo& context) {
  v1::AttachSession attach;
  attach.set_instance(session.instance());
  attach.set_session_id(session.session_id());
  *attach.mutable_context() = context.context();
  attach.set_token(context.execution_token());
  return attach;
}

// A session with a kernel, an execution stream and a buffer of its own.
struct Own {
  Own(const std::string& socket, const std::string& device, const std::string& name)
      : program(ProgramOf(name)) {
    auto opened = RawSession::Open(socket);
    if (!opened.ok()) GiveUp(opened.status());
    session = *std::move(opened);
    auto granted = session->Acquire(AcquireOf(device, program.digest.str()), &program.manifest,
                                    &program.source);
    if (!granted.ok()) GiveUp(granted.status());
    grant = *std::move(granted);
    auto attached = RawExecution::Attach(session->context().execution_target(),
                                         AttachOf(session->welcome(), session->context()));
    if (!attached.ok()) GiveUp(attached.status());
    execution = *std::move(attached);
  }

  const RawProgram program;
  std::unique_ptr<RawSession> session;
  v1::Grant grant;
  std::unique_ptr<RawExecution> execution;
};

absl::Status LaunchOwn(Own* own) {
  v1::Command command;
  v1::Launch* launch = command.mutable_launch();
  launch->set_slot(own->grant.lease().slot());
  launch->set_incarnation(own->grant.lease().incarnation());
  launch->mutable_global()->set_x(64);
  launch->mutable_local()->set_x(64);
  launch->add_arguments()->set_buffer(kVictimsBuffer);
  own->execution->Write(std::move(command));
  return own->execution->Synchronize();
}

// What the victim read out: the messages themselves.
struct Captured {
  v1::Welcome welcome;
  v1::ContextInfo context;
  v1::Grant grant;
  std::string program_digest;
  uint64_t buffer = 0;
};

Captured HearCaptured() {
  Captured captured;
  while (auto line = Hear()) {
    std::istringstream in(*line);
    std::string word, name, hex;
    in >> word >> name >> hex;
    if (word == "go") return captured;
    auto bytes = FromHex(hex);
    if (word != "captured" || !bytes.ok()) continue;
    if (name == "welcome") captured.welcome.ParseFromString(*bytes);
    if (name == "context") captured.context.ParseFromString(*bytes);
    if (name == "grant") captured.grant.ParseFromString(*bytes);
    if (name == "program") captured.program_digest = *bytes;
    if (name == "buffer") captured.buffer = std::stoull(*bytes);
  }
  GiveUp(absl::InvalidArgumentError("nothing was captured"));
}

void SayCaptured(const char* name, const std::string& bytes) {
  Say(absl::StrCat("captured ", name, " ", ToHex(bytes)));
}

// ---- the replays --------------------------------------------------------------------------------

absl::Status ReplaySession(const std::string& socket, const Captured& captured) {
  v1::Hello hello;
  hello.set_instance(captured.welcome.instance());
  hello.set_session_id(captured.welcome.session_id());
  hello.set_session_key(captured.welcome.session_key());
  auto session = RawSession::Open(socket, hello);
  if (!session.ok()) return session.status();
  // A session of his own instead of the victim's is an answer, too, but no typed one.
  return (*session)->welcome().resumed() ? absl::OkStatus()
                                         : absl::UnknownError("a new session was opened");
}

absl::Status ReplayCredentials(Own* own, const Captured& captured) {
  v1::BlobCredentials credentials;
  credentials.set_instance(captured.welcome.instance());
  credentials.set_session_id(captured.welcome.session_id());
  credentials.set_session_key(captured.welcome.session_key());
  return own->session->Fetch(credentials, captured.grant.artifact_key());
}

absl::Status ReplayToken(const Captured& captured, const std::string& target) {
  return RawExecution::Attach(target, AttachOf(captured.welcome, captured.context)).status();
}

absl::Status ReplaySocketPath(const Own& own, const Captured& captured) {
  v1::AttachSession attach = AttachOf(own.session->welcome(), own.session->context());
  *attach.mutable_context() = captured.context.context();
  return RawExecution::Attach(captured.context.execution_target(), attach).status();
}

absl::Status ReplayLease(Own* own, const Captured& captured) {
  v1::Command command;
  *command.mutable_bind()->mutable_lease() = captured.grant.lease();
  own->execution->Write(std::move(command));
  return own->execution->Synchronize();
}

absl::Status ReplayBuffer(Own* own, const Captured& captured) {
  v1::Command command;
  v1::ReadBuffer* read = command.mutable_read();
  read->set_request_id(7);
  read->set_buffer(captured.buffer);
  read->set_bytes(64);
  own->execution->Write(std::move(command));
  return own->execution->Synchronize();
}

absl::Status ReplayDigest(Own* own, const std::string& device, const Captured& captured) {
  return own->session->Acquire(AcquireOf(device, captured.program_digest), nullptr, nullptr)
      .status();
}

}  // namespace

int PlayVictim(const std::string& socket, const Words& words) {
  Own own(socket, words[0], "the victim");
  v1::Command create;
  create.mutable_create_buffer()->set_buffer(kVictimsBuffer);
  create.mutable_create_buffer()->set_bytes(kBufferBytes);
  own.execution->Write(std::move(create));
  v1::Command bind;
  *bind.mutable_bind()->mutable_lease() = own.grant.lease();
  own.execution->Write(std::move(bind));
  if (absl::Status status = LaunchOwn(&own); !status.ok()) GiveUp(status);
  SayCaptured("welcome", own.session->welcome().SerializeAsString());
  SayCaptured("context", own.session->context().SerializeAsString());
  SayCaptured("grant", own.grant.SerializeAsString());
  SayCaptured("program", own.program.digest.str());
  SayCaptured("buffer", std::to_string(kVictimsBuffer));
  Say("ready");
  // Each line is a question: does everything still work?
  while (Hear()) {
    const absl::Status status = LaunchOwn(&own);
    Say(status.ok() ? "fine" : "broken " + OneLine(status));
  }
  return 0;
}

int PlayStranger(const std::string& socket, const Words& words) {
  const std::string& device = words[0];
  const int rounds = std::stoi(words[1]);
  Own own(socket, device, "the stranger");
  Say("ready");
  const Captured captured = HearCaptured();
  const auto tried = [](const char* what, const absl::Status& status) {
    Say(absl::StrCat("tried ", what, " ", status.ok() ? "GOT_THROUGH" : ReasonName(ReasonOf(status)),
                     " ", OneLine(status)));
  };
  for (int round = 0; round < rounds; ++round) {
    tried("session", ReplaySession(socket, captured));
    tried("credentials", ReplayCredentials(&own, captured));
    tried("token", ReplayToken(captured, captured.context.execution_target()));
    tried("token-elsewhere", ReplayToken(captured, own.session->context().execution_target()));
    tried("socket-path", ReplaySocketPath(own, captured));
    tried("lease", ReplayLease(&own, captured));
    tried("buffer", ReplayBuffer(&own, captured));
    tried("digest", ReplayDigest(&own, device, captured));
    tried("artifact-key",
          own.session->Fetch(own.session->credentials(), captured.grant.artifact_key()));
  }
  Say("done");
  while (Hear()) {
  }
  return 0;
}

}  // namespace kcache::domains
