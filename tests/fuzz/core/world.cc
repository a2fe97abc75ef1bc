#include "tests/fuzz/core/world.h"

#include <cstdio>
#include <cstdlib>
#include <set>

namespace kcache::core {
namespace {

constexpr size_t kClients = 3;

void Require(bool holds, const char* what, uint64_t value = 0) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s (%llu)\n", what, static_cast<unsigned long long>(value));
  std::abort();
}

// Small, so that a short input reaches them.
Limits SmallLimits() {
  Limits limits;
  limits.max_sessions = 4;
  limits.max_sessions_per_domain = 3;
  limits.max_leases_per_session = 3;
  limits.max_pins_per_session = 2;
  limits.max_requests_per_session = 4;
  limits.max_outbox_events = 8;
  limits.max_outbox_bytes = 4096;
  limits.max_compiles_queued = 4;
  limits.max_compiles_queued_per_domain = 3;
  limits.max_client_name_bytes = 16;
  return limits;
}

Options OptionsWith(const Limits& limits) {
  Options options;
  options.limits = limits;
  options.may_change_uid = true;
  return options;
}

}  // namespace

World::World(FuzzedDataProvider* bytes)
    : bytes_(bytes),
      programs_({TestProgram("kernel add kernel sub "), TestProgram("kernel mul "),
                 TestProgram("error ")}),
      limits_(SmallLimits()),
      harness_(OptionsWith(limits_), {FakeReport("Fake", 2), FakeReport("Other", 1)}) {
  for (size_t i = 0; i < kClients; ++i) {
    // Two of one user, one of another.
    clients_.push_back(harness_.Client(static_cast<uid_t>(1000 + i / 2)));
    clients_.back()->uploads = false;
  }
}

// ---- choosing -----------------------------------------------------------------------------------

TestClient* World::AnyClient() {
  return clients_[bytes_->ConsumeIntegralInRange<size_t>(0, kClients - 1)].get();
}

const TestProgram& World::AnyProgram() {
  return programs_[bytes_->ConsumeIntegralInRange<size_t>(0, programs_.size() - 1)];
}

std::string World::AnyDevice() {
  return bytes_->PickValueInArray({"Fake:0", "Fake:1", "Other:0", "Fake/X:0", "Fake:7"});
}

uint64_t World::AnyRequest() { return bytes_->ConsumeIntegralInRange<uint64_t>(0, 12); }

std::string World::AnyBytes(size_t at_most) { return bytes_->ConsumeRandomLengthString(at_most); }

// Of any client: nobody else's may work.
const v1::Grant* World::AnyGrant() {
  const TestClient* client = AnyClient();
  const size_t nth = bytes_->ConsumeIntegral<uint8_t>();
  std::vector<const v1::Grant*> grants;
  for (const v1::DaemonEvent& event : client->events) {
    if (event.has_grant()) grants.push_back(&event.grant());
  }
  return grants.empty() ? nullptr : grants[nth % grants.size()];
}

const v1::Invalidate* World::AnyInvalidate() {
  const TestClient* client = AnyClient();
  const size_t nth = bytes_->ConsumeIntegral<uint8_t>();
  std::vector<const v1::Invalidate*> steps;
  for (const v1::DaemonEvent& event : client->events) {
    if (event.has_invalidate()) steps.push_back(&event.invalidate());
  }
  return steps.empty() ? nullptr : steps[nth % steps.size()];
}

HostRecord* World::AnyHost() {
  if (harness_.hosts.hosts.empty()) return nullptr;
  return harness_.hosts.hosts[bytes_->ConsumeIntegral<uint8_t>() % harness_.hosts.hosts.size()].get();
}

// ---- steps --------------------------------------------------------------------------------------

void World::Step() {
  switch (bytes_->ConsumeIntegralInRange<int>(0, 11)) {
    case 0:
    case 1:
    case 2:
      return ClientAcquires();
    case 3:
    case 4:
      return ClientAnswers();
    case 5:
      return ClientSays();
    case 6:
      return ClientConnection();
    case 7:
      return ClientBlobs();
    case 8:
      return OperatorAsks();
    case 9:
      return WorkersDo();
    case 10:
      return HostDoes();
    default:
      return TimePasses();
  }
}

void World::ClientAcquires() {
  TestClient* client = AnyClient();
  v1::ClientEvent event;
  v1::Acquire* acquire = event.mutable_acquire();
  acquire->set_request_id(AnyRequest());
  const TestProgram& program = AnyProgram();
  acquire->set_program_digest(program.digest.str());
  *acquire->mutable_device() = DeviceName::Parse(AnyDevice())->ToProto();
  acquire->set_entry(bytes_->PickValueInArray({"add", "sub", "mul", "none", ""}));
  acquire->set_mode(static_cast<v1::AcquireMode>(bytes_->ConsumeIntegralInRange<int>(0, 3)));
  acquire->set_priority(static_cast<v1::Priority>(bytes_->ConsumeIntegralInRange<int>(0, 1)));
  switch (bytes_->ConsumeIntegralInRange<int>(0, 15)) {
    case 0:
      acquire->mutable_specialization()->add_constants()->set_id(1);
      acquire->mutable_specialization()->mutable_constants(0)->set_value(AnyBytes(9));
      break;
    case 1:
      acquire->set_program_digest(AnyBytes(40));
      break;
    case 2:
      acquire->set_global_id(bytes_->ConsumeIntegralInRange<uint64_t>(0, 200));
      break;
    case 3:
      acquire->mutable_target()->set_framework("Fake");
      acquire->mutable_target()->set_architecture(AnyBytes(8));
      break;
    default:
      break;
  }
  // With its source, mostly.
  if (bytes_->ConsumeIntegralInRange<int>(0, 3) != 0 && client->connected()) {
    harness_.executor.Run([client, &program] { client->Upload(program).IgnoreError(); });
  }
  client->Send(std::move(event));
}

void World::ClientAnswers() {
  TestClient* client = AnyClient();
  const int what = bytes_->ConsumeIntegralInRange<int>(0, 3);
  std::map<uint32_t, uint64_t> positions;
  if (bytes_->ConsumeBool()) positions[bytes_->ConsumeIntegral<uint8_t>()] = 1;
  if (what == 0) {
    const v1::Grant* grant = AnyGrant();
    if (grant != nullptr) client->Release(*grant, positions);
    return;
  }
  const v1::Invalidate* step = AnyInvalidate();
  if (step == nullptr) return;
  if (what == 1) {
    v1::ClientEvent event;
    event.mutable_nack()->set_operation_id(step->operation_id());
    event.mutable_nack()->set_context_id(step->context().context_id());
    event.mutable_nack()->set_why(AnyBytes(300));
    client->Send(std::move(event));
    return;
  }
  client->Ack(*step, positions);
}

void World::ClientSays() {
  TestClient* client = AnyClient();
  v1::ClientEvent event;
  switch (bytes_->ConsumeIntegralInRange<int>(0, 9)) {
    case 0:
      return client->Renew();
    case 1:
      return client->Subscribe();
    case 2:
      return client->Subscribe({AnyBytes(8)});
    case 3:
      event.mutable_cancel()->set_request_id(AnyRequest());
      break;
    case 4:
      event.mutable_clear()->set_request_id(AnyRequest());
      event.mutable_clear()->set_family(bytes_->PickValueInArray({"", "Fake", "None"}));
      if (bytes_->ConsumeBool()) event.mutable_clear()->set_index(0);
      event.mutable_clear()->set_operation_id(AnyBytes(17));
      event.mutable_clear()->set_grace_ms(bytes_->ConsumeIntegral<uint16_t>());
      break;
    case 5:
      event.mutable_destroy_device()->set_request_id(AnyRequest());
      *event.mutable_destroy_device()->mutable_device() =
          DeviceName::Parse(AnyDevice())->ToProto();
      event.mutable_destroy_device()->set_grace_ms(bytes_->ConsumeIntegral<uint16_t>());
      break;
    case 6:
      event.mutable_list_devices()->set_request_id(AnyRequest());
      break;
    case 7:
      event.mutable_goodbye();
      break;
    case 8:
      event.mutable_renew()->set_last_revision(bytes_->ConsumeIntegral<uint64_t>());
      break;
    default:
      // Whatever it is, as long as it is a message.
      if (!event.ParseFromString(AnyBytes(64))) return;
      break;
  }
  client->Send(std::move(event));
}

void World::ClientConnection() {
  TestClient* client = AnyClient();
  switch (bytes_->ConsumeIntegralInRange<int>(0, 6)) {
    case 0:
      if (client->connected()) client->CutStream();
      return;
    case 1:
    case 2:
      // A stream that has not ended yet is left behind, as after a broken connection.
      if (!client->connected()) client->Connect(bytes_->ConsumeBool());
      return;
    case 3:
      harness_.executor.Run([&] { harness_.service()->ProcessExited(client->peer()); });
      return;
    case 4:
      client->acks = !client->acks;
      return;
    case 5:
      client->reads = !client->reads;
      if (client->reads) harness_.executor.Run([client] { client->Take(); });
      return;
    default:
      client->hello_version = bytes_->ConsumeIntegralInRange<int>(0, 2);
      return;
  }
}

void World::ClientBlobs() {
  TestClient* client = AnyClient();
  v1::BlobCredentials credentials;
  const v1::Welcome& welcome = AnyClient()->welcome();  // perhaps somebody else's
  credentials.set_instance(welcome.instance());
  credentials.set_session_id(welcome.session_id());
  credentials.set_session_key(welcome.session_key());
  if (bytes_->ConsumeIntegralInRange<int>(0, 7) == 0) credentials.set_session_key(AnyBytes(17));
  const TestProgram& program = AnyProgram();
  const v1::Grant* grant = AnyGrant();
  const int what = bytes_->ConsumeIntegralInRange<int>(0, 4);
  v1::ProgramManifest manifest = program.manifest;
  if (what == 4 && !manifest.ParseFromString(AnyBytes(64))) return;
  harness_.executor.Run([&] {
    Service* service = harness_.service();
    switch (what) {
      case 0: {
        v1::FetchRequest request;
        *request.mutable_credentials() = credentials;
        if (grant != nullptr) request.set_artifact_key(grant->artifact_key());
        service->Fetch(client->peer(), request).status().IgnoreError();
        return;
      }
      case 1:
        service->UploadProgress(credentials, program.digest);
        return;
      case 2:
        service->CommitProgram(client->peer(), credentials, manifest).status().IgnoreError();
        return;
      default: {
        v1::MissingRequest request;
        *request.mutable_credentials() = credentials;
        *request.mutable_manifest() = manifest;
        service->Missing(client->peer(), request).status().IgnoreError();
        if (what == 4) {
          service->CommitProgram(client->peer(), credentials, manifest).status().IgnoreError();
        }
      }
    }
  });
}

void World::OperatorAsks() {
  const uint64_t grace = bytes_->ConsumeIntegralInRange<uint64_t>(0, 5000);
  switch (bytes_->ConsumeIntegralInRange<int>(0, 6)) {
    case 0:
      operations_.push_back(harness_.Clear("", std::nullopt, bytes_->ConsumeBool(), grace));
      return;
    case 1:
      operations_.push_back(harness_.Clear("Fake", bytes_->ConsumeIntegralInRange<uint32_t>(0, 2),
                                           bytes_->ConsumeBool(), grace));
      return;
    case 2:
      operations_.push_back(harness_.Reset());
      return;
    case 3: {
      auto told = std::make_shared<Harness::Told>();
      operations_.push_back(told);
      v1::DeviceUpRequest request;
      *request.mutable_device() = DeviceName::Parse(AnyDevice())->ToProto();
      request.set_clear_hold(bytes_->ConsumeBool());
      harness_.executor.Run([&] {
        harness_.service()->StartDeviceUp(Peer{}, request, [told](const auto& update) {
          told->updates.push_back(update);
        });
      });
      return;
    }
    case 4: {
      auto told = std::make_shared<Harness::Told>();
      operations_.push_back(told);
      harness_.prober.reports[0] = FakeReport("Fake", bytes_->ConsumeIntegralInRange<int>(0, 2));
      harness_.executor.Run([&] {
        harness_.service()->StartRescan(
            Peer{}, [told](const auto& update) { told->updates.push_back(update); });
      });
      return;
    }
    default: {
      const std::string device = AnyDevice();
      const bool physical = bytes_->ConsumeBool();
      operations_.push_back(harness_.Destroy(device, physical, bytes_->ConsumeBool(), grace));
    }
  }
}

void World::WorkersDo() {
  FakeWorkers& workers = harness_.workers;
  switch (bytes_->ConsumeIntegralInRange<int>(0, 3)) {
    case 0:
      workers.hold = !workers.hold;
      return;
    case 1:
      if (!workers.jobs.empty()) {
        const JobId job = workers.jobs.front().id;
        workers.Finish(job, workers.Good(job));
      }
      return;
    case 2:
      if (!workers.jobs.empty()) {
        workers.Crash(workers.jobs.front().id,
                      static_cast<CompileOutcome::End>(bytes_->ConsumeIntegralInRange<int>(1, 6)),
                      "fuzzed");
      }
      return;
    default:
      workers.FinishAll();
  }
}

void World::HostDoes() {
  FakeHosts& hosts = harness_.hosts;
  const int what = bytes_->ConsumeIntegralInRange<int>(0, 10);
  if (what == 0) {
    hosts.hold_starts = !hosts.hold_starts;
    return;
  }
  if (what == 1) {
    harness_.executor.Run([&] { hosts.ReleaseHeld(); });
    return;
  }
  if (what == 2) {
    hosts.start_status = hosts.start_status.ok() ? absl::UnavailableError("fuzzed")
                                                 : absl::OkStatus();
    return;
  }
  HostRecord* host = AnyHost();
  if (host == nullptr) return;
  switch (what) {
    case 3:
      host->hold_loads = true;
      return;
    case 4:
      host->hold_fences = true;
      return;
    case 5:
      host->hold_unloads = host->hold_teardowns = true;
      return;
    case 6:
      harness_.executor.Run([&] { host->ReleaseHeld(); });
      return;
    case 7:
      host->ignore_kill = true;
      return;
    case 8:
      host->teardown_finishes = !host->teardown_finishes;
      return;
    case 9:
      if (host->started && !host->exited) host->SayLost("illegal address");
      return;
    default:
      if (host->started) host->Exit("killed by SIGSEGV");
  }
}

void World::TimePasses() {
  const absl::Duration by = absl::Milliseconds(bytes_->ConsumeIntegral<uint16_t>());
  if (bytes_->ConsumeIntegralInRange<int>(0, 7) == 0) {
    harness_.executor.Stall(by);
  } else {
    harness_.executor.Advance(by);
  }
}

// ---- what must hold -----------------------------------------------------------------------------

void World::CheckHost(const HostRecord& host) {
  Require(host.built == host.destroyed + static_cast<int>(host.loaded.size()),
          "a host's handles are loaded or destroyed", static_cast<uint64_t>(host.built));
  std::set<std::string> fenced;
  for (const std::string& line : host.log) {
    if (line.starts_with("fence ")) fenced.insert(line.substr(6));
    const bool unload = line.starts_with("unload ");
    if (!unload && line != "teardown") continue;
    Require(fenced.contains("context") || (unload && fenced.contains(line.substr(7))),
            "G1: nothing is released that was not fenced", host.log.size());
  }
}

void World::Check() {
  const v1::StatusReply status = harness_.service()->Status();
  Require(status.sessions() <= limits_.max_sessions, "max_sessions", status.sessions());
  const v1::SessionList sessions = harness_.service()->Sessions({});
  for (const v1::SessionSummary& session : sessions.sessions()) {
    Require(session.leases() <= limits_.max_leases_per_session, "max_leases_per_session",
            session.leases());
    Require(session.pins() <= limits_.max_pins_per_session, "max_pins_per_session", session.pins());
  }
  Require(harness_.service()->Leases({}).leases_size() == static_cast<int>(status.leases()),
          "every lease is listed", status.leases());
  looked_at_.resize(harness_.hosts.hosts.size());
  for (size_t i = 0; i < looked_at_.size(); ++i) {
    const HostRecord& host = *harness_.hosts.hosts[i];
    if (std::exchange(looked_at_[i], host.log.size()) != host.log.size()) CheckHost(host);
  }
}

void World::Finish() {
  harness_.workers.hold = false;
  harness_.hosts.start_status = absl::OkStatus();
  harness_.executor.Run([&] {
    harness_.workers.FinishAll();
    harness_.hosts.ReleaseHeld();
  });
  // Longer than any grace, drain, upload, session and idle host takes.
  const auto pass = [&] {
    for (int i = 0; i < 40; ++i) {
      for (const auto& host : harness_.hosts.hosts) {
        harness_.executor.Run([&] { host->ReleaseHeld(); });
        if (host->killed && !host->exited && i > 20) host->Exit("killed by SIGKILL, late");
      }
      harness_.executor.Run([&] { harness_.workers.FinishAll(); });
      harness_.executor.Advance(absl::Seconds(5));
    }
  };
  pass();
  Check();
  for (const auto& operation : operations_) {
    Require(operation->done(), "every operation ends",
            operation->updates.empty() ? 0 : operation->updates.size());
  }
  const v1::StatusReply idle = harness_.service()->Status();
  Require(idle.sessions() == 0, "silent sessions are reaped", idle.sessions());
  Require(idle.leases() == 0, "no lease outlives its session", idle.leases());
  Require(idle.contexts() == 0, "idle hosts retire", idle.contexts());
  Require(idle.handles_built() == idle.handles_destroyed(), "destroyed + retained = built",
          idle.handles_built() - idle.handles_destroyed());
  Require(idle.compiles_running() == 0 && idle.compiles_queued() == 0, "compiles end",
          idle.compiles_queued());
  for (const auto& host : harness_.hosts.hosts) CheckHost(*host);
}

}  // namespace kcache::core
