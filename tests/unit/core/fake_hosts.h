// Device hosts without processes. By default they do at once what they are asked; a test can hold any
// answer back, make it a failure, or let the host die.
//
// Every host keeps what really matters: which slots are loaded, which are fenced, what was released,
// so that tests can check the order of things.

#ifndef KCACHE_TESTS_UNIT_CORE_FAKE_HOSTS_H_
#define KCACHE_TESTS_UNIT_CORE_FAKE_HOSTS_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "daemon/core/dependencies.h"

namespace kcache::core {

class FakeHosts;

// What one host has seen and holds; outlives the host.
struct HostRecord {
  int number = 0;
  HostSpec spec;
  HostObserver* observer = nullptr;
  Executor* executor = nullptr;
  bool started = false;  // the context has got it
  bool exited = false;
  bool killed = false;
  std::string kill_reason;

  // Behaviour.
  bool hold_loads = false, hold_fences = false, hold_unloads = false, hold_teardowns = false;
  bool ignore_kill = false;      // a process in uninterruptible sleep
  bool exits_after_teardown = true;
  bool teardown_finishes = true;
  std::vector<std::string> teardown_failures;
  absl::Status load_status;

  // What happened, in order: "load 0.1", "fence context", "unload 0.1", "teardown".
  std::vector<std::string> log;
  std::vector<v1::FenceRequest> fences;
  std::vector<v1::TeardownRequest> teardowns;
  std::map<uint32_t, uint32_t> loaded;  // slot -> incarnation
  std::set<std::string> modules;
  int built = 0, destroyed = 0;
  std::vector<std::function<void()>> held;  // answers held back

  // Gives the answers that were held back.
  void ReleaseHeld() {
    hold_loads = hold_fences = hold_unloads = hold_teardowns = false;
    std::vector<std::function<void()>> answers = std::move(held);
    held.clear();
    for (auto& answer : answers) answer();
  }
  // Its context is lost, it says; its process goes on until Exit.
  void SayLost(const std::string& why, bool physical = false) {
    v1::ContextLost lost;
    *lost.mutable_error() = ToProto(MakeError(v1::KERNEL_FAULT, why));
    lost.set_physical(physical);
    HostObserver* told = observer;
    executor->Run([told, lost] { told->OnLost(lost); });
  }
  void Exit(const std::string& what, bool expected = false) {
    if (exited) return;
    exited = true;
    destroyed += static_cast<int>(loaded.size());
    loaded.clear();
    HostObserver* told = observer;
    executor->Run([told, what, expected] {
      told->OnExited({.verified = true, .expected = expected, .what = what, .last_words = ""});
    });
  }
};

class FakeHost : public DeviceHost {
 public:
  explicit FakeHost(std::shared_ptr<HostRecord> record) : record_(std::move(record)) {}

  pid_t pid() const override { return 10000 + record_->number; }
  std::string execution_target() const override {
    return absl::StrCat("unix:/fake/", record_->number);
  }

  void Load(v1::LoadRequest request, Function<void(absl::StatusOr<v1::LoadReply>)> done) override {
    auto record = record_;
    auto shared = std::make_shared<Function<void(absl::StatusOr<v1::LoadReply>)>>(std::move(done));
    Answer(record_->hold_loads, [record, request, shared] {
      if (record->exited) return (*shared)(absl::UnavailableError("the host is gone"));
      if (!record->load_status.ok()) return (*shared)(record->load_status);
      v1::LoadReply reply;
      if (!request.has_artifact() && !record->modules.contains(request.artifact_key())) {
        reply.set_need_artifact(true);
        return (*shared)(std::move(reply));
      }
      record->modules.insert(request.artifact_key());
      for (const v1::LoadItem& item : request.items()) {
        record->loaded[item.slot()] = item.incarnation();
        ++record->built;
        record->log.push_back(absl::StrCat("load ", item.slot(), ".", item.incarnation()));
        v1::LoadResult* result = reply.add_results();
        result->set_slot(item.slot());
        *result->mutable_kernel() = item.kernel();
      }
      (*shared)(std::move(reply));
    });
  }

  void Fence(v1::FenceRequest request,
             Function<void(absl::StatusOr<v1::FenceReply>)> done) override {
    auto record = record_;
    record->fences.push_back(request);
    auto shared = std::make_shared<Function<void(absl::StatusOr<v1::FenceReply>)>>(std::move(done));
    Answer(record_->hold_fences, [record, request, shared] {
      if (record->exited) return (*shared)(absl::UnavailableError("the host is gone"));
      v1::FenceReply reply;
      if (request.has_context()) record->log.push_back("fence context");
      if (request.has_session_id()) {
        record->log.push_back(absl::StrCat("fence session ", request.session_id()));
      }
      for (const v1::SlotRef& slot : request.slots().slots()) {
        record->log.push_back(absl::StrCat("fence ", slot.slot(), ".", slot.incarnation()));
        *reply.add_fenced() = slot;
      }
      (*shared)(std::move(reply));
    });
  }

  void Unload(v1::UnloadRequest request,
              Function<void(absl::StatusOr<v1::UnloadReply>)> done) override {
    auto record = record_;
    auto shared =
        std::make_shared<Function<void(absl::StatusOr<v1::UnloadReply>)>>(std::move(done));
    Answer(record_->hold_unloads, [record, request, shared] {
      if (record->exited) return (*shared)(absl::UnavailableError("the host is gone"));
      v1::UnloadReply reply;
      reply.set_finished(true);
      for (const v1::SlotRef& slot : request.slots()) {
        record->log.push_back(absl::StrCat("unload ", slot.slot(), ".", slot.incarnation()));
        auto loaded = record->loaded.find(slot.slot());
        if (loaded == record->loaded.end() || loaded->second != slot.incarnation()) {
          reply.add_failures(absl::StrCat("handle ", slot.slot(), ": not loaded"));
          continue;
        }
        record->loaded.erase(loaded);
        ++record->destroyed;
        reply.set_unloaded(reply.unloaded() + 1);
      }
      (*shared)(std::move(reply));
    });
  }

  void EndSession(v1::EndSessionRequest request,
                  Function<void(absl::StatusOr<v1::EndSessionReply>)> done) override {
    record_->log.push_back(absl::StrCat("end session ", request.session_id()));
    auto shared =
        std::make_shared<Function<void(absl::StatusOr<v1::EndSessionReply>)>>(std::move(done));
    Answer(false, [shared] { (*shared)(v1::EndSessionReply()); });
  }

  void Teardown(v1::TeardownRequest request,
                Function<void(absl::StatusOr<v1::TeardownReply>)> done) override {
    auto record = record_;
    record->teardowns.push_back(request);
    auto shared =
        std::make_shared<Function<void(absl::StatusOr<v1::TeardownReply>)>>(std::move(done));
    Answer(record_->hold_teardowns, [record, shared] {
      if (record->exited) return (*shared)(absl::UnavailableError("the host is gone"));
      record->log.push_back("teardown");
      v1::TeardownReply reply;
      reply.set_finished(record->teardown_finishes);
      for (const std::string& failure : record->teardown_failures) reply.add_failures(failure);
      if (record->teardown_finishes) {
        for (auto slot = record->loaded.rbegin(); slot != record->loaded.rend(); ++slot) {
          reply.add_released(absl::StrCat("kernel ", slot->first));
        }
        reply.add_released("context");
      }
      (*shared)(std::move(reply));
      if (record->teardown_finishes && record->exits_after_teardown) {
        record->executor->Post([record] { record->Exit("exited with 0", true); });
      }
    });
  }

  void Kill(std::string_view why) override {
    record_->killed = true;
    record_->kill_reason = std::string(why);
    if (record_->ignore_kill) return;
    auto record = record_;
    record_->executor->Post([record] { record->Exit("killed by SIGKILL"); });
  }

 private:
  void Answer(bool hold, std::function<void()> answer) {
    if (hold) {
      record_->held.push_back(std::move(answer));
    } else {
      record_->executor->Post([answer] { answer(); });
    }
  }

  const std::shared_ptr<HostRecord> record_;
};

class FakeHosts : public HostLauncher {
 public:
  explicit FakeHosts(Executor* executor) : executor_(executor) {}

  void Start(HostSpec spec, HostObserver* observer,
             Function<void(absl::StatusOr<std::unique_ptr<DeviceHost>>)> done) override {
    auto record = std::make_shared<HostRecord>();
    record->number = static_cast<int>(hosts.size());
    record->spec = std::move(spec);
    record->observer = observer;
    record->executor = executor_;
    if (prepare) prepare(record.get());
    hosts.push_back(record);
    auto shared = std::make_shared<Function<void(absl::StatusOr<std::unique_ptr<DeviceHost>>)>>(
        std::move(done));
    auto answer = [this, record, shared] {
      if (!start_status.ok()) return (*shared)(start_status);
      record->started = true;
      (*shared)(std::make_unique<FakeHost>(record));
    };
    if (hold_starts) {
      held.push_back({observer, answer,
                      [shared] { (*shared)(absl::CancelledError("abandoned")); }});
    } else {
      executor_->Post(answer);
    }
  }
  void Abandon(HostObserver* observer) override {
    auto found = std::find_if(held.begin(), held.end(), [observer](const HeldStart& start) {
      return start.observer == observer;
    });
    if (found == held.end()) return;
    executor_->Post(std::move(found->abandon));
    held.erase(found);
  }
  void ReleaseHeld() {
    hold_starts = false;
    auto starts = std::exchange(held, {});
    for (HeldStart& start : starts) start.answer();
  }

  struct HeldStart {
    HostObserver* observer = nullptr;
    std::function<void()> answer, abandon;
  };

  std::vector<std::shared_ptr<HostRecord>> hosts;
  std::function<void(HostRecord*)> prepare;
  bool hold_starts = false;
  absl::Status start_status;
  std::vector<HeldStart> held;

 private:
  Executor* const executor_;
};

}  // namespace kcache::core

#endif  // KCACHE_TESTS_UNIT_CORE_FAKE_HOSTS_H_
