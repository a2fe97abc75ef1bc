// A whole core with everything around it faked: clients, workers, hosts, time. Deterministic.

#ifndef KCACHE_TESTS_UNIT_CORE_HARNESS_H_
#define KCACHE_TESTS_UNIT_CORE_HARNESS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/kernel_key.h"
#include "daemon/core/dependencies.h"
#include "daemon/core/service.h"
#include "tests/unit/core/fake_hosts.h"
#include "tests/unit/core/manual_executor.h"

namespace kcache::core {

// Counts up: ids are readable, and nothing repeats.
class CountingRandom : public Random {
 public:
  uint64_t Id() override { return ++next_; }
  std::string Bytes(size_t count) override {
    std::string bytes(count, '\0');
    const uint64_t value = ++next_;
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>((value >> (8 * (i % 8))) ^ i);
    return bytes;
  }

 private:
  uint64_t next_ = 100;
};

// Compiles when the test says so, or at once.
class FakeWorkers : public CompileWorkers {
 public:
  explicit FakeWorkers(Executor* executor) : executor_(executor) {}

  struct Job {
    JobId id = 0;
    std::string family;
    std::shared_ptr<const v1::CompileRequest> request;
    Function<void(CompileOutcome)> done;
  };

  int slots() const override { return slots_; }
  JobId Compile(const std::string& family, std::shared_ptr<const v1::CompileRequest> request,
                Function<void(CompileOutcome)> done) override {
    Job job{++next_, family, std::move(request), std::move(done)};
    sources.push_back(job.request->source());
    running = std::max(running, static_cast<int>(jobs.size()) + 1);
    const JobId id = job.id;
    jobs.push_back(std::move(job));
    if (!hold) executor_->Post([this, id] { Finish(id, Good(id)); });
    return id;
  }
  void Renew() override { ++renewed; }
  void Cancel(JobId job) override {
    std::erase_if(jobs, [job](const Job& one) { return one.id == job; });
  }

  // An artifact with one kernel for each "kernel NAME" in the source; COMPILE_FAILED for "error".
  CompileOutcome Good(JobId id) {
    CompileOutcome outcome;
    outcome.end = CompileOutcome::End::kReplied;
    for (const Job& job : jobs) {
      if (job.id != id) continue;
      const std::string& source = job.request->source();
      if (source.find("error") != std::string::npos) {
        *outcome.reply.mutable_error() =
            ToProto(MakeError(v1::COMPILE_FAILED, "line 1: there is an error"));
        return outcome;
      }
      v1::Artifact* artifact = outcome.reply.mutable_artifact();
      artifact->set_format("fake");
      artifact->set_architecture(job.request->architecture());
      artifact->set_binary(absl::StrCat("binary of ", source));
      for (size_t at = source.find("kernel "); at != std::string::npos;
           at = source.find("kernel ", at + 1)) {
        const size_t begin = at + 7;
        artifact->add_kernels()->set_entry(
            source.substr(begin, source.find(' ', begin) - begin));
      }
    }
    return outcome;
  }
  void Finish(JobId id, CompileOutcome outcome) {
    auto found =
        std::find_if(jobs.begin(), jobs.end(), [id](const Job& job) { return job.id == id; });
    if (found == jobs.end()) return;
    auto done = std::move(found->done);
    jobs.erase(found);
    auto shared = std::make_shared<decltype(done)>(std::move(done));
    executor_->Run([shared, outcome]() mutable { (*shared)(std::move(outcome)); });
  }
  void FinishAll() {
    while (!jobs.empty()) Finish(jobs.front().id, Good(jobs.front().id));
  }
  void Crash(JobId id, CompileOutcome::End end, const std::string& what) {
    CompileOutcome outcome;
    outcome.end = end;
    outcome.what = what;
    Finish(id, std::move(outcome));
  }

  int slots_ = 2;
  bool hold = false;
  int running = 0;  // the most at once
  int renewed = 0;
  std::vector<Job> jobs;
  std::vector<std::string> sources;  // of every attempt, in order

 private:
  Executor* const executor_;
  JobId next_ = 0;
};

class FakeStore : public ArtifactStore {
 public:
  void Get(const Digest& key, Function<void(ArtifactPtr)> done) override { done(Peek(key)); }
  ArtifactPtr Peek(const Digest& key) override {
    auto found = artifacts.find(key);
    return found == artifacts.end() ? nullptr : found->second;
  }
  absl::Status Put(ArtifactPtr artifact) override {
    artifacts[artifact->key] = std::move(artifact);
    return absl::OkStatus();
  }
  void Remove(const Digest& key) override { artifacts.erase(key); }
  void Clear() override { artifacts.clear(); }
  std::vector<ArtifactPtr> List() override {
    std::vector<ArtifactPtr> list;
    for (auto& [key, artifact] : artifacts) list.push_back(artifact);
    return list;
  }
  uint64_t bytes() const override { return 0; }
  uint64_t count() const override { return artifacts.size(); }

  std::map<Digest, ArtifactPtr> artifacts;
};

class FakeProber : public Prober {
 public:
  explicit FakeProber(Executor* executor) : executor_(executor) {}
  void Probe(std::vector<std::string> skip,
             Function<void(std::vector<v1::ProbeReport>)> done) override {
    skipped = std::move(skip);
    auto shared = std::make_shared<decltype(done)>(std::move(done));
    executor_->Post([this, shared] { (*shared)(reports); });
  }
  std::vector<v1::ProbeReport> reports;
  std::vector<std::string> skipped;

 private:
  Executor* const executor_;
};

class FakeCensus : public DeviceCensus {
 public:
  void Holders(std::vector<std::string> nodes,
               Function<void(std::vector<OpenHolder>)> done) override {
    asked = std::move(nodes);
    done(holders);
  }
  std::vector<OpenHolder> holders;
  std::vector<std::string> asked;
};

class FakeState : public StateStore {
 public:
  DurableState Load() override { return state; }
  absl::Status Save(const DurableState& next) override {
    if (!status.ok()) return status;
    state = next;
    ++saves;
    return absl::OkStatus();
  }
  DurableState state;
  absl::Status status;
  int saves = 0;
};

class RecordingEvents : public EventSink {
 public:
  void Emit(std::string_view kind, std::string message, EventFields) override {
    events.push_back(absl::StrCat(std::string(kind), ": ", message));
    EXPECT_NE(kind, "bug") << message;
  }
  void Audit(std::string_view who, std::string_view what, std::string_view result) override {
    audits.push_back(absl::StrCat(std::string(who), " | ", std::string(what), " | ",
                                  std::string(result)));
  }
  bool Saw(std::string_view kind) const {
    return std::any_of(events.begin(), events.end(), [kind](const std::string& event) {
      return event.starts_with(std::string(kind) + ":");
    });
  }
  std::vector<std::string> events, audits;
};

inline v1::DeviceInfo FakeDevice(const std::string& family, uint32_t index,
                                 const std::string& card = "") {
  v1::DeviceInfo info;
  info.mutable_device()->set_framework(family);
  info.mutable_device()->set_index(index);
  info.set_name(absl::StrCat(family, " device ", index));
  info.set_uuid(card.empty() ? absl::StrCat(family, "-", index) : card);
  info.set_architecture("arch-1");
  info.set_compiler_fingerprint("compiler-1");
  info.set_driver_version("1");
  return info;
}

inline v1::ProbeReport FakeReport(const std::string& family, int devices) {
  v1::ProbeReport report;
  report.set_family(family);
  report.set_available(true);
  for (int i = 0; i < devices; ++i) {
    *report.add_devices() = FakeDevice(family, static_cast<uint32_t>(i));
  }
  v1::CompileCapability* compiler = report.add_compilers();
  compiler->set_framework(family);
  compiler->set_compiler_fingerprint("compiler-1");
  return report;
}

struct TestProgram {
  std::string source;
  v1::ProgramManifest manifest;
  Digest digest;

  explicit TestProgram(std::string text, std::string language = "fake") : source(std::move(text)) {
    manifest.set_language(std::move(language));
    manifest.set_source_digest(Digest::Of(source).str());
    manifest.set_source_bytes(source.size());
    digest = *ProgramDigest(manifest);
  }
};

class Harness;

// A client process, as the daemon sees it.
class TestClient : public SessionEndpoint {
 public:
  TestClient(Harness* harness, Peer peer) : harness_(harness), peer_(peer) {}
  ~TestClient() override;

  // Connects and says Hello; with `resume`, as the session it was.
  void Connect(bool resume = false);
  void CutStream();
  void Send(v1::ClientEvent event);

  uint64_t Acquire(const TestProgram& program, const std::string& entry,
                   const std::string& device = "Fake:0",
                   v1::Priority priority = v1::PRIORITY_INTERACTIVE);
  uint64_t AcquireArtifact(const TestProgram& program, const std::string& device = "Fake:0");
  uint64_t AcquireContext(const std::string& device = "Fake:0");
  absl::Status Upload(const TestProgram& program);
  void Release(const v1::Grant& grant, std::map<uint32_t, uint64_t> positions = {});
  void Ack(const v1::Invalidate& step, std::map<uint32_t, uint64_t> positions = {});
  void Subscribe(std::vector<std::string> families = {});
  void Renew();

  // What it got, in order.
  std::vector<v1::DaemonEvent> events;
  std::optional<v1::Grant> GrantOf(uint64_t request) const;
  std::optional<absl::Status> FailureOf(uint64_t request) const;
  std::vector<v1::Invalidate> Invalidations() const;
  std::optional<v1::OperationDone> DoneOf(uint64_t request) const;
  int NeedSources() const;
  const v1::Welcome& welcome() const { return welcome_; }

  // Behaviour.
  int hello_version = v1::PROTOCOL_VERSION_1;
  bool reads = true;           // false: takes nothing (a stopped process)
  bool acks = true;            // acknowledges BEFORE by itself
  bool uploads = true;         // answers NeedSource by itself
  std::map<std::string, const TestProgram*> programs;  // by digest

  bool connected() const { return stream_ != nullptr; }
  absl::Status close_status() const { return close_status_; }
  bool closed() const { return closed_; }
  const Peer& peer() const { return peer_; }
  uint64_t session_id() const { return welcome_.session_id(); }

  // SessionEndpoint
  void Wake() override;
  void Close(absl::Status why) override;
  void Take();

 private:
  Harness* const harness_;
  Peer peer_;
  std::unique_ptr<SessionStream> stream_;
  v1::Welcome welcome_;
  absl::Status close_status_;
  bool closed_ = false;
  uint64_t next_request_ = 0;
  uint64_t last_revision_ = 0;
};

class Harness {
 public:
  explicit Harness(Options options = {}, std::vector<v1::ProbeReport> reports = {FakeReport("Fake",
                                                                                            2)});
  ~Harness();

  Service* service() { return service_.get(); }
  std::unique_ptr<TestClient> Client(uid_t uid = 0, pid_t pid = 0, std::string container = "");
  HostRecord& host(size_t number = 0) { return *hosts.hosts.at(number); }

  // An admin's operation, as it was told.
  struct Told {
    std::vector<v1::OperationUpdate> updates;
    bool done() const { return !updates.empty() && updates.back().has_result(); }
    const v1::OperationResult& result() const { return updates.back().result(); }
  };
  std::shared_ptr<Told> Destroy(const std::string& device, bool physical = false,
                                bool stay_down = false, uint64_t grace_ms = 0);
  std::shared_ptr<Told> Clear(const std::string& family = "", std::optional<uint32_t> index = {},
                              bool artifacts = false, uint64_t grace_ms = 0);
  std::shared_ptr<Told> Reset();

  // Lets everything that can happen without time happen.
  void Settle() { executor.Drain(); }

  ManualClock clock;
  ManualExecutor executor{&clock};
  CountingRandom random;
  FakeWorkers workers{&executor};
  FakeHosts hosts{&executor};
  FakeCensus census;
  FakeProber prober{&executor};
  FakeStore store;
  FakeState state;
  RecordingEvents events;

 private:
  std::unique_ptr<Service> service_;
  pid_t next_pid_ = 4000;
};

}  // namespace kcache::core

#endif  // KCACHE_TESTS_UNIT_CORE_HARNESS_H_
