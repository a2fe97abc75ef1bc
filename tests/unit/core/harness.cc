#include "tests/unit/core/harness.h"

#include <unistd.h>

#include <utility>

#include "contract/device_name.h"

namespace kcache::core {
namespace {

void SetPositions(const std::map<uint32_t, uint64_t>& positions,
                  google::protobuf::RepeatedPtrField<v1::QueuePosition>* out) {
  for (const auto& [queue, sequence] : positions) {
    v1::QueuePosition* position = out->Add();
    position->set_queue(queue);
    position->set_sequence(sequence);
  }
}

v1::DeviceRef Ref(const std::string& device) { return DeviceName::Parse(device)->ToProto(); }

}  // namespace

// ---- TestClient ---------------------------------------------------------------------------------

TestClient::~TestClient() {
  if (stream_ != nullptr) CutStream();
}

void TestClient::Connect(bool resume) {
  harness_->executor.Run([this] { stream_ = harness_->service()->OpenStream(peer_, this); });
  closed_ = false;
  v1::ClientEvent event;
  v1::Hello* hello = event.mutable_hello();
  hello->set_version(static_cast<v1::ProtocolVersion>(hello_version));
  hello->set_client_name("test");
  if (resume) {
    hello->set_instance(welcome_.instance());
    hello->set_session_id(welcome_.session_id());
    hello->set_session_key(welcome_.session_key());
    hello->set_last_revision(last_revision_);
  }
  Send(std::move(event));
}

void TestClient::CutStream() {
  harness_->executor.Run([this] {
    if (stream_ != nullptr) harness_->service()->StreamClosed(std::move(stream_));
  });
}

void TestClient::Send(v1::ClientEvent event) {
  v1::ClientMessage message;
  *message.add_events() = std::move(event);
  harness_->executor.Run([this, message] {
    if (stream_ != nullptr) stream_->OnMessage(message);
  });
}

uint64_t TestClient::Acquire(const TestProgram& program, const std::string& entry,
                             const std::string& device, v1::Priority priority) {
  programs[program.digest.str()] = &program;
  v1::ClientEvent event;
  v1::Acquire* acquire = event.mutable_acquire();
  acquire->set_request_id(++next_request_);
  acquire->set_program_digest(program.digest.str());
  *acquire->mutable_device() = Ref(device);
  acquire->set_entry(entry);
  acquire->set_priority(priority);
  Send(std::move(event));
  return next_request_;
}

uint64_t TestClient::AcquireArtifact(const TestProgram& program, const std::string& device) {
  programs[program.digest.str()] = &program;
  v1::ClientEvent event;
  v1::Acquire* acquire = event.mutable_acquire();
  acquire->set_request_id(++next_request_);
  acquire->set_program_digest(program.digest.str());
  *acquire->mutable_device() = Ref(device);
  acquire->set_mode(v1::ACQUIRE_ARTIFACT);
  Send(std::move(event));
  return next_request_;
}

uint64_t TestClient::AcquireContext(const std::string& device) {
  v1::ClientEvent event;
  v1::Acquire* acquire = event.mutable_acquire();
  acquire->set_request_id(++next_request_);
  *acquire->mutable_device() = Ref(device);
  acquire->set_mode(v1::ACQUIRE_CONTEXT);
  Send(std::move(event));
  return next_request_;
}

absl::Status TestClient::Upload(const TestProgram& program) {
  v1::BlobCredentials credentials;
  credentials.set_instance(welcome_.instance());
  credentials.set_session_id(welcome_.session_id());
  credentials.set_session_key(welcome_.session_key());
  absl::Status status = harness_->service()->AddBlob(
      peer_, credentials, Digest::Of(program.source), program.source);
  if (!status.ok()) return status;
  return harness_->service()->CommitProgram(peer_, credentials, program.manifest).status();
}

void TestClient::Release(const v1::Grant& grant, std::map<uint32_t, uint64_t> positions) {
  v1::ClientEvent event;
  v1::Release* release = event.mutable_release();
  release->set_context_id(grant.context_id());
  *release->mutable_lease() = grant.lease();
  SetPositions(positions, release->mutable_positions());
  Send(std::move(event));
}

void TestClient::Ack(const v1::Invalidate& step, std::map<uint32_t, uint64_t> positions) {
  v1::ClientEvent event;
  v1::Ack* ack = event.mutable_ack();
  ack->set_operation_id(step.operation_id());
  ack->set_context_id(step.context().context_id());
  SetPositions(positions, ack->mutable_positions());
  Send(std::move(event));
}

void TestClient::Subscribe(std::vector<std::string> families) {
  v1::ClientEvent event;
  event.mutable_subscribe();
  for (std::string& family : families) event.mutable_subscribe()->add_families(std::move(family));
  Send(std::move(event));
}

void TestClient::Renew() {
  v1::ClientEvent event;
  event.mutable_renew()->set_sequence(1);
  event.mutable_renew()->set_last_revision(last_revision_);
  Send(std::move(event));
}

void TestClient::Wake() {
  // As a transport does: later, on the executor.
  harness_->executor.Post([this] { Take(); });
}

void TestClient::Take() {
  if (!reads || stream_ == nullptr) return;
  v1::DaemonMessage message;
  while (stream_->TakeOutgoing(1 << 20, &message)) {
    for (v1::DaemonEvent& event : *message.mutable_events()) {
      events.push_back(event);
      if (event.has_welcome()) welcome_ = event.welcome();
      if (event.has_need_source() && uploads) {
        const TestProgram* program = programs[event.need_source().program_digest()];
        harness_->executor.Post([this, program] { EXPECT_TRUE(Upload(*program).ok()); });
      }
      if (event.has_invalidate()) {
        EXPECT_GT(event.invalidate().revision(), last_revision_) << "revisions go backwards";
        last_revision_ = event.invalidate().revision();
        if (event.invalidate().needs_ack() && acks) {
          harness_->executor.Post([this, step = event.invalidate()] { Ack(step); });
        }
      }
    }
    message.Clear();
  }
}

void TestClient::Close(absl::Status why) {
  closed_ = true;
  close_status_ = std::move(why);
  harness_->executor.Post([this] {
    Take();
    if (stream_ != nullptr) harness_->service()->StreamClosed(std::move(stream_));
  });
}

std::optional<v1::Grant> TestClient::GrantOf(uint64_t request) const {
  for (const v1::DaemonEvent& event : events) {
    if (event.has_grant() && event.grant().request_id() == request) return event.grant();
  }
  return std::nullopt;
}

std::optional<absl::Status> TestClient::FailureOf(uint64_t request) const {
  for (const v1::DaemonEvent& event : events) {
    if (event.has_failure() && event.failure().request_id() == request) {
      return FromProto(event.failure().error());
    }
  }
  return std::nullopt;
}

std::vector<v1::Invalidate> TestClient::Invalidations() const {
  std::vector<v1::Invalidate> steps;
  for (const v1::DaemonEvent& event : events) {
    if (event.has_invalidate()) steps.push_back(event.invalidate());
  }
  return steps;
}

std::optional<v1::OperationDone> TestClient::DoneOf(uint64_t request) const {
  for (const v1::DaemonEvent& event : events) {
    if (event.has_operation_done() && event.operation_done().request_id() == request) {
      return event.operation_done();
    }
  }
  return std::nullopt;
}

int TestClient::NeedSources() const {
  return static_cast<int>(std::count_if(events.begin(), events.end(), [](const auto& event) {
    return event.has_need_source();
  }));
}

// ---- Harness ------------------------------------------------------------------------------------

Harness::Harness(Options options, std::vector<v1::ProbeReport> reports) {
  prober.reports = std::move(reports);
  Dependencies deps;
  deps.clock = &clock;
  deps.executor = &executor;
  deps.random = &random;
  deps.workers = &workers;
  deps.hosts = &hosts;
  deps.census = &census;
  deps.prober = &prober;
  deps.artifacts = &store;
  deps.state = &state;
  deps.events = &events;
  service_ = Service::Create(std::move(options), deps);
  executor.Run([this] { service_->Start([] {}); });
}

Harness::~Harness() {
  // An answer that never came owns who waits for it, who owns the host.
  for (const auto& host : hosts.hosts) const auto dropped = std::exchange(host->held, {});
}

std::unique_ptr<TestClient> Harness::Client(uid_t uid, pid_t pid, std::string container) {
  Peer peer{.uid = uid,
            .gid = uid,
            .pid = pid != 0 ? pid : ++next_pid_,
            .container = std::move(container)};
  auto client = std::make_unique<TestClient>(this, peer);
  client->Connect();
  return client;
}

std::shared_ptr<Harness::Told> Harness::Destroy(const std::string& device, bool physical,
                                                bool stay_down, uint64_t grace_ms) {
  auto told = std::make_shared<Told>();
  v1::AdminDestroyRequest request;
  *request.mutable_device() = Ref(device);
  request.set_physical(physical);
  request.set_stay_down(stay_down);
  request.set_grace_ms(grace_ms);
  executor.Run([this, told, request] {
    service_->StartDestroy(Peer{}, request, [told](const v1::OperationUpdate& update) {
      told->updates.push_back(update);
    });
  });
  return told;
}

std::shared_ptr<Harness::Told> Harness::Clear(const std::string& family,
                                              std::optional<uint32_t> index, bool artifacts,
                                              uint64_t grace_ms) {
  auto told = std::make_shared<Told>();
  v1::AdminClearRequest request;
  request.set_family(family);
  if (index) request.set_index(*index);
  request.set_artifacts(artifacts);
  request.set_grace_ms(grace_ms);
  executor.Run([this, told, request] {
    service_->StartClear(Peer{}, request, [told](const v1::OperationUpdate& update) {
      told->updates.push_back(update);
    });
  });
  return told;
}

std::shared_ptr<Harness::Told> Harness::Reset() {
  auto told = std::make_shared<Told>();
  executor.Run([this, told] {
    service_->StartReset(Peer{}, [told](const v1::OperationUpdate& update) {
      told->updates.push_back(update);
    });
  });
  return told;
}

}  // namespace kcache::core
