// Execution messages of two sessions, and what the daemon asks of the host in between, against the SDK's
// host with the fake's device.
//
// What must hold: nothing of what is fenced is admitted any more (G1); a request is answered at most
// once, and by the end at least once if it was asked before any fence; after the teardown nothing is left.

#include <fuzzer/FuzzedDataProvider.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/fake/compiler.h"
#include "backends/fake/family.h"
#include "backends/sdk/host.h"
#include "backends/sdk/session_engine.h"
#include "contract/lease_token.h"
#include "contract/mutex.h"

namespace kcache::backend {
namespace {

constexpr char kSource[] =
    "kernel fill(buffer out, scalar u32 n) { out[i] = i }\n"
    "kernel halve(buffer f32 x, local l) local 4 { x[i] = x[i] / 2 }\n"
    "kernel die(buffer out) { fault }\n";
constexpr uint32_t kSlots = 3;
constexpr uint64_t kSessions[] = {11, 12};
constexpr uint32_t kQueues = 2;
constexpr uint64_t kFinishMs = 5000;

void Require(bool holds, const char* what, uint64_t value = 0) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s (%llu)\n", what, static_cast<unsigned long long>(value));
  std::abort();
}

class Sink : public ReplySink {
 public:
  void Send(v1::Reply reply) override {
    MutexLock lock(&mutex_);
    if (reply.has_done()) ++answers_[reply.done().request_id()];
    if (reply.has_answer()) ++answers_[reply.answer().request_id()];
    if (reply.has_read_data() && (reply.read_data().last() || reply.read_data().has_error())) {
      ++answers_[reply.read_data().request_id()];
    }
  }
  void Close(const absl::Status&) override {}
  int AnswersTo(uint64_t request) const {
    MutexLock lock(&mutex_);
    auto found = answers_.find(request);
    return found == answers_.end() ? 0 : found->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<uint64_t, int> answers_ ABSL_GUARDED_BY(mutex_);
};

struct Client {
  uint64_t id = 0;
  std::shared_ptr<Sink> sink = std::make_shared<Sink>();
  std::shared_ptr<SessionEngine> session;
  bool fenced = false;
  std::vector<uint64_t> requests;  // asked before any fence
};

class Run {
 public:
  explicit Run(FuzzedDataProvider* bytes)
      : bytes_(bytes),
        script_(std::make_shared<fake::Script>()),
        family_(Scripted(script_)),
        host_(&family_, nullptr, [this](const absl::Status&) { lost_ = true; }),
        authority_(*TokenAuthority::Create(std::string(kTokenKeyBytes, 'k'),
                                           std::string(kInstanceBytes, 'i'))) {
    v1::OpenContextRequest open;
    ref_.set_context_id(7);
    ref_.mutable_device()->set_framework("Fake");
    ref_.set_generation(1);
    *open.mutable_context() = ref_;
    open.set_instance(std::string(kInstanceBytes, 'i'));
    open.set_token_key(std::string(kTokenKeyBytes, 'k'));
    v1::HostLimits* limits = open.mutable_limits();
    limits->set_max_queues_per_session(kQueues);
    limits->set_max_commands_in_flight(64);
    limits->set_max_device_bytes_per_session(4096);
    limits->set_max_pinned_bytes_per_session(1024);
    limits->set_max_buffers_per_session(4);
    limits->set_max_message_bytes(1 << 16);
    const v1::OpenContextReply opened = host_.OpenContext(open);
    Require(!opened.has_error(), "the context opens");
    Load();
    for (const uint64_t id : kSessions) {
      Client& client = clients_.emplace_back();
      client.id = id;
      Attach(&client);
      Require(client.session != nullptr, "a session attaches");
    }
  }

  void Step() {
    switch (bytes_->ConsumeIntegralInRange<int>(0, 15)) {
      case 0:
        return Fence();
      case 1:
        return EndSession();
      case 2:
        return Reattach();
      case 3:
        return Raw();
      default:
        return Message();
    }
  }
  bool over() const { return lost_; }

  void Finish() {
    if (lost_) return;  // the process would end now
    v1::FenceRequest fence;
    fence.set_context(true);
    Require(host_.Fence(fence).ok(), "a context can be fenced");
    v1::TeardownRequest request;
    request.set_finish_ms(kFinishMs);
    auto reply = host_.Teardown(request);
    if (lost_) return;
    Require(reply.ok() && reply->finished(), "a teardown finishes");
    Require(reply->failures().empty(), "a teardown releases all");
    const v1::HostUsage usage = host_.Usage();
    Require(usage.commands_in_flight() == 0, "nothing is in flight", usage.commands_in_flight());
    Require(usage.device_bytes() == 0, "no device memory is left", usage.device_bytes());
    for (const Client& client : clients_) {
      for (const uint64_t request_id : client.requests) {
        Require(client.sink->AnswersTo(request_id) == 1, "each request has one answer", request_id);
      }
    }
  }

 private:
  static std::shared_ptr<fake::Script> Scripted(std::shared_ptr<fake::Script> script) {
    Require(script->Add("memory = 8192").ok(), "the script is understood");
    return script;
  }

  void Load() {
    v1::CompileRequest compile;
    compile.mutable_manifest()->set_language("fake");
    compile.set_source(kSource);
    fake::FakeCompiler compiler(script_);
    auto artifact = compiler.Compile(compile);
    Require(artifact.ok(), "the program compiles");
    v1::LoadRequest load;
    load.set_artifact_key("artifact");
    *load.mutable_artifact() = *artifact;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      v1::LoadItem* item = load.add_items();
      item->set_slot(slot);
      item->set_incarnation(1);
      *item->mutable_kernel() = artifact->kernels(static_cast<int>(slot));
    }
    auto loaded = host_.Load(load);
    Require(loaded.ok() && loaded->results_size() == static_cast<int>(kSlots), "kernels load");
  }

  void Attach(Client* client) {
    v1::AttachSession attach;
    attach.set_session_id(client->id);
    *attach.mutable_context() = ref_;
    attach.set_token(authority_.SignSession(Identity(client->id)).str());
    auto session = host_.Attach(attach, ExecutionPeer{}, client->sink);
    if (session.ok()) client->session = *session;
  }
  static SessionIdentity Identity(uint64_t session) {
    return {.context_id = 7, .generation = 1, .session_id = session};
  }

  Client* AnyClient() { return &clients_[bytes_->ConsumeIntegralInRange<size_t>(0, 1)]; }
  uint64_t AnyBuffer() { return bytes_->ConsumeIntegralInRange<uint64_t>(0, 6); }
  uint64_t AnySize() {
    return bytes_->ConsumeIntegralInRange<int>(0, 7) == 0
               ? bytes_->ConsumeIntegral<uint64_t>()
               : bytes_->ConsumeIntegralInRange<uint64_t>(0, 1100);
  }
  // Each is asked once.
  uint64_t NewRequest(Client* client) {
    const uint64_t id = ++last_request_;
    if (!client->fenced && client->session != nullptr) client->requests.push_back(id);
    return id;
  }

  void Message() {
    Client* client = AnyClient();
    auto request = std::make_shared<v1::ExecutionRequest>();
    const int commands = bytes_->ConsumeIntegralInRange<int>(1, 6);
    for (int i = 0; i < commands; ++i) AddCommand(client, request->add_commands());
    Handle(client, std::move(request));
  }

  void AddCommand(Client* client, v1::Command* command) {
    command->set_queue(bytes_->ConsumeIntegralInRange<uint32_t>(0, kQueues));
    switch (bytes_->ConsumeIntegralInRange<int>(0, 11)) {
      case 0: {
        v1::CreateBuffer* create = command->mutable_create_buffer();
        create->set_request_id(NewRequest(client));
        create->set_buffer(AnyBuffer());
        create->set_bytes(AnySize());
        create->set_label(bytes_->ConsumeRandomLengthString(8));
        if (bytes_->ConsumeBool()) create->set_group("g");
        return;
      }
      case 1:
        command->mutable_release_buffer()->set_buffer(AnyBuffer());
        return;
      case 2:
      case 3: {
        v1::LeaseRef* lease = command->mutable_bind()->mutable_lease();
        lease->set_slot(bytes_->ConsumeIntegralInRange<uint32_t>(0, kSlots));
        lease->set_incarnation(bytes_->ConsumeIntegralInRange<uint32_t>(1, 8) == 8 ? 2 : 1);
        // Somebody else's now and then.
        const uint64_t owner = bytes_->ConsumeIntegralInRange<int>(0, 7) == 0 ? 99 : client->id;
        lease->set_mac(
            authority_.SignLease({Identity(owner), lease->slot(), lease->incarnation()}).str());
        return;
      }
      case 4:
      case 5:
        return AddLaunch(command->mutable_launch());
      case 6:
        command->mutable_write()->set_buffer(AnyBuffer());
        command->mutable_write()->set_offset(AnySize());
        command->mutable_write()->set_data(bytes_->ConsumeRandomLengthString(32));
        return;
      case 7:
        command->mutable_read()->set_request_id(NewRequest(client));
        command->mutable_read()->set_buffer(AnyBuffer());
        command->mutable_read()->set_offset(AnySize());
        command->mutable_read()->set_bytes(AnySize());
        return;
      case 8:
        command->mutable_copy()->set_source(AnyBuffer());
        command->mutable_copy()->set_destination(AnyBuffer());
        command->mutable_copy()->set_source_offset(AnySize());
        command->mutable_copy()->set_destination_offset(AnySize());
        command->mutable_copy()->set_bytes(AnySize());
        return;
      case 9:
        command->mutable_fill()->set_buffer(AnyBuffer());
        command->mutable_fill()->set_offset(AnySize());
        command->mutable_fill()->set_bytes(AnySize());
        command->mutable_fill()->set_pattern(bytes_->ConsumeRandomLengthString(17));
        return;
      case 10:
        command->mutable_synchronize()->set_request_id(NewRequest(client));
        command->mutable_synchronize()->set_all_queues(bytes_->ConsumeBool());
        return;
      default:
        return AddRare(client, command);
    }
  }

  void AddRare(Client* client, v1::Command* command) {
    switch (bytes_->ConsumeIntegralInRange<int>(0, 5)) {
      case 0:
        command->mutable_scratch()->set_request_id(NewRequest(client));
        command->mutable_scratch()->set_buffer(AnyBuffer());
        command->mutable_scratch()->set_tag(bytes_->ConsumeRandomLengthString(2));
        command->mutable_scratch()->set_bytes(AnySize());
        return;
      case 1:
        command->mutable_end_group()->set_group("g");
        return;
      case 2:
        command->mutable_first_n()->set_request_id(NewRequest(client));
        command->mutable_first_n()->set_key(bytes_->ConsumeRandomLengthString(2));
        command->mutable_first_n()->set_n(bytes_->ConsumeIntegral<uint8_t>());
        return;
      case 3:
        command->mutable_first_shape()->set_request_id(NewRequest(client));
        command->mutable_first_shape()->set_name(bytes_->ConsumeRandomLengthString(2));
        return;
      case 4:
        command->mutable_create_image()->set_request_id(NewRequest(client));
        command->mutable_create_image()->set_image(AnyBuffer());
        command->mutable_create_image()->mutable_description()->set_width(
            bytes_->ConsumeIntegral<uint32_t>());
        return;
      default:
        command->mutable_copy_image()->set_image(AnyBuffer());
        command->mutable_copy_image()->set_buffer(AnyBuffer());
    }
  }

  void AddLaunch(v1::Launch* launch) {
    launch->set_slot(bytes_->ConsumeIntegralInRange<uint32_t>(0, kSlots));
    launch->set_incarnation(1);
    launch->mutable_grid()->set_x(bytes_->ConsumeIntegralInRange<uint32_t>(0, 4));
    launch->mutable_grid()->set_y(1);
    launch->mutable_grid()->set_z(1);
    launch->mutable_local()->set_x(bytes_->ConsumeIntegralInRange<uint32_t>(0, 4));
    launch->mutable_local()->set_y(1);
    launch->mutable_local()->set_z(bytes_->ConsumeIntegralInRange<uint32_t>(0, 1));
    launch->set_repeat(bytes_->ConsumeIntegralInRange<uint32_t>(0, 3));
    const int arguments = bytes_->ConsumeIntegralInRange<int>(0, 3);
    for (int i = 0; i < arguments; ++i) {
      v1::Argument* argument = launch->add_arguments();
      switch (bytes_->ConsumeIntegralInRange<int>(0, 4)) {
        case 0:
          argument->set_scalar(bytes_->ConsumeRandomLengthString(9));
          break;
        case 1:
          argument->set_scalar(std::string("\4\0\0\0", 4));
          break;
        case 2:
          argument->mutable_range()->set_buffer(AnyBuffer());
          argument->mutable_range()->set_offset(AnySize());
          argument->mutable_range()->set_bytes(AnySize());
          break;
        case 3:
          argument->set_local_bytes(AnySize());
          break;
        default:
          argument->set_buffer(AnyBuffer());
      }
    }
  }

  // Any message at all; but kernels that end.
  void Raw() {
    Client* client = AnyClient();
    auto request = std::make_shared<v1::ExecutionRequest>();
    if (!request->ParseFromString(bytes_->ConsumeRandomLengthString(128))) return;
    for (v1::Command& command : *request->mutable_commands()) {
      if (!command.has_launch()) continue;
      v1::Launch* launch = command.mutable_launch();
      launch->set_repeat(launch->repeat() % 4);
      for (v1::Dim3* size : {launch->mutable_grid(), launch->mutable_local(),
                             launch->mutable_global()}) {
        size->set_x(size->x() % 8);
        size->set_y(size->y() % 8);
        size->set_z(size->z() % 8);
      }
    }
    // Its request ids may repeat those of others, whose answers cannot be counted any more.
    client->requests.clear();
    Handle(client, std::move(request));
  }

  uint64_t Numbered(const Client& client) const {
    uint64_t all = 0;
    for (uint32_t queue = 0; queue <= kQueues; ++queue) all += client.session->Admitted(queue);
    return all;
  }

  void Handle(Client* client, std::shared_ptr<v1::ExecutionRequest> request) {
    if (client->session == nullptr) return;
    const v1::HostUsage before = host_.Usage();
    const uint64_t numbered = Numbered(*client);
    client->session->Handle(std::move(request));
    if (!client->fenced) return;
    // What is refused has a number all the same.
    const v1::HostUsage after = host_.Usage();
    Require(after.launches() == before.launches(), "G1: nothing is launched behind a fence",
            client->id);
    Require(Numbered(*client) - numbered == after.refused_commands() - before.refused_commands(),
            "G1: what comes behind a fence is refused", client->id);
  }

  void Fence() {
    v1::FenceRequest request;
    const int what = bytes_->ConsumeIntegralInRange<int>(0, 5);
    if (what == 0) {
      request.set_context(true);
      for (Client& client : clients_) client.fenced = true;
    } else if (what == 1) {
      Client* client = AnyClient();
      request.set_session_id(client->id);
      client->fenced = true;
    } else {
      v1::SlotRef* slot = request.mutable_slots()->add_slots();
      slot->set_slot(bytes_->ConsumeIntegralInRange<uint32_t>(0, kSlots));
      slot->set_incarnation(bytes_->ConsumeIntegralInRange<uint32_t>(0, 2));
    }
    auto fenced = host_.Fence(request);
    Require(fenced.ok() || lost_, "a fence is confirmed");
    if (what < 4 || !request.has_slots()) return;
    v1::UnloadRequest unload;
    *unload.mutable_slots() = request.slots().slots();
    unload.set_finish_ms(kFinishMs);
    auto unloaded = host_.Unload(unload);
    Require(!unloaded.ok() || unloaded->finished() || lost_, "an unload finishes");
  }

  void EndSession() {
    Client* client = AnyClient();
    v1::EndSessionRequest request;
    request.set_session_id(client->id);
    request.set_finish_ms(kFinishMs);
    client->fenced = true;
    host_.EndSession(request).status().IgnoreError();
    client->session = nullptr;
  }

  // The stream breaks, and the client opens another one.
  void Reattach() {
    Client* client = AnyClient();
    if (client->session == nullptr || client->fenced) return;
    host_.Detach(client->session.get());
    client->requests.clear();
    Attach(client);
  }

  FuzzedDataProvider* const bytes_;
  const std::shared_ptr<fake::Script> script_;
  std::atomic<bool> lost_{false};
  fake::FakeFamily family_;
  Host host_;
  const TokenAuthority authority_;
  v1::ContextRef ref_;
  std::vector<Client> clients_;
  uint64_t last_request_ = 0;
};

}  // namespace
}  // namespace kcache::backend

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kMaxSteps = 60;
  FuzzedDataProvider bytes(data, size);
  kcache::backend::Run run(&bytes);
  for (int step = 0; step < kMaxSteps && bytes.remaining_bytes() > 0 && !run.over(); ++step) {
    run.Step();
  }
  run.Finish();
  return 0;
}
