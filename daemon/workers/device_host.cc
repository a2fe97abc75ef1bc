#include "daemon/workers/device_host.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/grpc_status.h"
#include "contract/strings.h"
#include "daemon/workers/channel.h"
#include "daemon/workers/private_directory.h"

namespace kcache::workers {
namespace {

constexpr uint64_t kMaxReplyBytes = 64 << 20;
// Beyond the time that a request itself gives the host to finish.
constexpr absl::Duration kAnswerSlack = absl::Seconds(10);

absl::Duration Milliseconds(uint64_t count) {
  return absl::Milliseconds(static_cast<int64_t>(std::min<uint64_t>(count, 1ull << 40)));
}

// What the core holds.
class HostHandle : public core::DeviceHost {
 public:
  explicit HostHandle(std::shared_ptr<HostProcess> host) : host_(std::move(host)) {}
  ~HostHandle() override { host_->Detach(); }

  pid_t pid() const override { return host_->pid(); }
  std::string execution_target() const override { return host_->execution_target(); }
  void Load(v1::LoadRequest request, HostProcess::Done<v1::LoadReply> done) override {
    host_->Load(std::move(request), std::move(done));
  }
  void Fence(v1::FenceRequest request, HostProcess::Done<v1::FenceReply> done) override {
    host_->Fence(std::move(request), std::move(done));
  }
  void Unload(v1::UnloadRequest request, HostProcess::Done<v1::UnloadReply> done) override {
    host_->Unload(std::move(request), std::move(done));
  }
  void EndSession(v1::EndSessionRequest request,
                  HostProcess::Done<v1::EndSessionReply> done) override {
    host_->EndSession(std::move(request), std::move(done));
  }
  void Teardown(v1::TeardownRequest request, HostProcess::Done<v1::TeardownReply> done) override {
    host_->Teardown(std::move(request), std::move(done));
  }
  void Kill(std::string_view why) override { host_->Kill(why); }

 private:
  const std::shared_ptr<HostProcess> host_;
};

}  // namespace

// The host's event stream. Each event is handled on the executor before the next is read, which is
// outside of gRPC's reactions: the hold keeps the call alive until a read has failed.
class HostWatch : public grpc::ClientReadReactor<v1::HostEvent> {
 public:
  HostWatch(std::shared_ptr<HostProcess> host, core::Executor* executor, uint64_t heartbeat_ms)
      : host_(std::move(host)), executor_(executor) {
    request_.set_heartbeat_ms(heartbeat_ms);
  }

  void Start(v1::Device::Stub* stub) {
    stub->async()->Watch(&context_, &request_, this);
    AddHold();
    StartRead(&event_);
    StartCall();
  }

  // On the executor, while its host has not heard OnWatchEnded.
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return RemoveHold();  // OnDone follows
    executor_->Run([this] {
      host_->OnEvent(event_);
      StartRead(&event_);
    });
  }

  void OnDone(const grpc::Status&) override {
    // Behind what was read; the exit of the process says the rest.
    executor_->Post([this] {
      host_->OnWatchEnded();
      delete this;
    });
  }

 private:
  std::shared_ptr<HostProcess> host_;
  core::Executor* const executor_;
  grpc::ClientContext context_;
  v1::WatchRequest request_;
  v1::HostEvent event_;
};

HostProcess::HostProcess(const HostParts* parts, core::HostSpec spec,
                         core::HostObserver* observer, Started done)
    : parts_(parts), spec_(std::move(spec)), observer_(observer), started_(std::move(done)) {}

HostProcess::~HostProcess() {
  if (child_ != nullptr) child_->Kill("kcached lets go of it");
}

// ---- start --------------------------------------------------------------------------------------

void HostProcess::OnStarted(absl::StatusOr<ChildPtr> child, ops::UniqueFd socket) {
  if (!child.ok()) {
    start_failure_.Update(child.status());
    OnExited({});
    return;
  }
  child_ = *std::move(child);
  if (!start_failure_.ok()) {  // abandoned before there was a process
    child_->Kill("no longer wanted");
    return;
  }
  stub_ = v1::Device::NewStub(MakeChannel(std::move(socket), kMaxReplyBytes));
  Invoke<v1::OpenContextReply>(
      "opening the context", spec_.open, parts_->config->host_start_timeout,
      [](v1::Device::Stub* stub, auto* context, auto* request, auto* reply, auto callback) {
        stub->async()->OpenContext(context, request, reply, std::move(callback));
      },
      [this](absl::StatusOr<v1::OpenContextReply> reply) { OnOpened(std::move(reply)); });
}

void HostProcess::OnOpened(absl::StatusOr<v1::OpenContextReply> reply) {
  if (exited_ || !start_failure_.ok()) return;
  constexpr std::string_view kWhy = "its context could not be opened";
  if (!reply.ok()) return FailStart(reply.status(), kWhy);
  if (reply->has_error()) return FailStart(FromProto(reply->error()), kWhy);
  serving_ = true;
  last_heard_ = last_check_ = parts_->clock->Now();
  watch_ = new HostWatch(
      shared_from_this(), parts_->executor,
      static_cast<uint64_t>(absl::ToInt64Milliseconds(parts_->config->host_heartbeat)));
  watch_->Start(stub_.get());
  CheckHeartbeat();
  Started started = std::move(started_);
  started(std::make_unique<HostHandle>(shared_from_this()));
}

void HostProcess::FailStart(const absl::Status& why, std::string_view killed_for) {
  if (!start_failure_.ok()) return;
  start_failure_ = why;
  if (child_ != nullptr) child_->Kill(killed_for);
}

void HostProcess::Abandon() {
  if (started_ && !exited_) {
    FailStart(absl::CancelledError("destroyed while it was starting"), "no longer wanted");
  }
}

void HostProcess::OnExited(const ExitStatus& status) {
  if (exited_) return;
  auto self = shared_from_this();
  exited_ = true;
  parts_->executor->Cancel(heartbeat_timer_);
  if (watch_ != nullptr) watch_->Cancel();
  parts_->supervisor->RunInBackground([directory = directory_, socket = execution_socket_] {
    if (!socket.empty()) unlink(socket.c_str());
    if (!directory.empty()) RemoveTree(directory);
  });

  std::string what = status.Describe();
  if (status.ended_for != ExitStatus::EndedFor::kNothing) {
    what = absl::StrCat("ended by kcached: ", status.why);
  }
  const auto calls = std::move(calls_);
  calls_.clear();
  const absl::Status gone = absl::UnavailableError(absl::StrCat("the device host ", what));
  for (const auto& [id, fail] : calls) fail(gone);

  if (started_) {
    Started started = std::move(started_);
    absl::Status why = start_failure_;
    if (why.ok()) {
      why = MakeError(v1::DEVICE_LOST, absl::StrCat("the device host ", what, " while it started",
                                                    LastWords(status.last_words)));
    } else if (!status.last_words.empty()) {
      why = MakeError(why.code(), ReasonOf(why),
                      absl::StrCat(why.message(), LastWords(status.last_words)), DetailsOf(why));
    }
    started(why);
    return;
  }
  if (observer_ == nullptr) return;
  core::HostExit exit;
  exit.verified = status.verified;
  exit.expected = torn_down_ && status.clean();
  exit.what = std::move(what);
  exit.last_words = status.last_words;
  std::exchange(observer_, nullptr)->OnExited(exit);
}

void HostProcess::Kill(std::string_view why) {
  if (child_ != nullptr) child_->Kill(why);
}

void HostProcess::Detach() {
  observer_ = nullptr;
  Kill("no longer wanted");
}

// ---- heartbeats ---------------------------------------------------------------------------------

void HostProcess::OnEvent(const v1::HostEvent& event) {
  last_heard_ = parts_->clock->Now();
  if (observer_ == nullptr || exited_) return;
  switch (event.event_case()) {
    case v1::HostEvent::kHeartbeat:
      observer_->OnHeartbeat(event.heartbeat());
      break;
    case v1::HostEvent::kLabel:
      observer_->OnLabel(event.label());
      break;
    case v1::HostEvent::kLost:
      observer_->OnLost(event.lost());
      break;
    case v1::HostEvent::kSecurity:
      observer_->OnSecurityEvent(event.security());
      break;
    case v1::HostEvent::EVENT_NOT_SET:
      break;  // something that a newer backend says
  }
}

void HostProcess::OnWatchEnded() { watch_ = nullptr; }

void HostProcess::CheckHeartbeat() {
  const absl::Duration limit = parts_->config->host_unresponsive;
  const absl::Duration now = parts_->clock->Now();
  // When this check itself comes late, kcached was stopped, or the machine was: what the host sent
  // meanwhile has not been read yet, so it gets a full limit from here.
  if (now - last_check_ > limit / 2 + parts_->config->host_heartbeat) last_heard_ = now;
  last_check_ = now;
  if (now - last_heard_ > limit) {
    const std::string why =
        absl::StrCat("no heartbeat for ", absl::FormatDuration(now - last_heard_),
                     "; hosts.unresponsive is ", absl::FormatDuration(limit));
    if (observer_ != nullptr) observer_->OnUnresponsive(why);
    Kill(why);
    return;
  }
  heartbeat_timer_ = parts_->executor->RunAfter(limit / 4, [self = shared_from_this()] {
    if (!self->exited_) self->CheckHeartbeat();
  });
}

// ---- requests -----------------------------------------------------------------------------------

template <class Reply, class Request, class Send>
void HostProcess::Invoke(const char* what, Request request, absl::Duration limit, Send send,
                         Done<Reply> done) {
  struct Call {
    grpc::ClientContext context;
    Request request;
    Reply reply;
    grpc::Status status;
    Done<Reply> done;
  };
  auto self = shared_from_this();
  if (exited_) {
    parts_->executor->Post([done = std::move(done)]() mutable {
      done(absl::UnavailableError("the device host has exited"));
    });
    return;
  }
  auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->done = std::move(done);
  call->context.set_deadline(std::chrono::system_clock::now() +
                             absl::ToChronoMilliseconds(limit));
  const uint64_t id = next_call_++;
  calls_[id] = [call](const absl::Status& why) {
    call->context.TryCancel();
    Done<Reply> answer = std::move(call->done);
    answer(why);
  };
  send(stub_.get(), &call->context, &call->request, &call->reply,
       [self, call, id, what](grpc::Status status) {
         call->status = std::move(status);
         self->parts_->executor->Run([self, call, id, what] {
           if (self->calls_.erase(id) == 0) return;  // answered by the exit
           Done<Reply> answer = std::move(call->done);
           if (call->status.ok()) {
             answer(std::move(call->reply));
           } else {
             answer(Annotate(FromGrpc(call->status), absl::StrCat("while ", what).c_str()));
           }
         });
       });
}

void HostProcess::Load(v1::LoadRequest request, Done<v1::LoadReply> done) {
  const absl::Duration limit = parts_->config->host_load_timeout;
  // The timer, not the call's deadline, decides: a driver that is stuck in a load must go.
  const core::TimerId timer = parts_->executor->RunAfter(limit, [self = shared_from_this(), limit] {
    self->Kill(absl::StrCat("loading kernels took longer than hosts.load_timeout = ",
                            absl::FormatDuration(limit)));
  });
  Invoke<v1::LoadReply>(
      "loading kernels", std::move(request), limit + kAnswerSlack,
      [](v1::Device::Stub* stub, auto* context, auto* r, auto* reply, auto callback) {
        stub->async()->Load(context, r, reply, std::move(callback));
      },
      [self = shared_from_this(), timer,
       done = std::move(done)](absl::StatusOr<v1::LoadReply> reply) mutable {
        self->parts_->executor->Cancel(timer);
        done(std::move(reply));
      });
}

void HostProcess::Fence(v1::FenceRequest request, Done<v1::FenceReply> done) {
  const absl::Duration limit = Milliseconds(request.wait_ms()) + kAnswerSlack;
  Invoke<v1::FenceReply>(
      "fencing", std::move(request), limit,
      [](v1::Device::Stub* stub, auto* context, auto* r, auto* reply, auto callback) {
        stub->async()->Fence(context, r, reply, std::move(callback));
      },
      std::move(done));
}

void HostProcess::Unload(v1::UnloadRequest request, Done<v1::UnloadReply> done) {
  const absl::Duration limit = Milliseconds(request.finish_ms()) + kAnswerSlack;
  Invoke<v1::UnloadReply>(
      "unloading kernels", std::move(request), limit,
      [](v1::Device::Stub* stub, auto* context, auto* r, auto* reply, auto callback) {
        stub->async()->Unload(context, r, reply, std::move(callback));
      },
      std::move(done));
}

void HostProcess::EndSession(v1::EndSessionRequest request, Done<v1::EndSessionReply> done) {
  const absl::Duration limit = Milliseconds(request.finish_ms()) + kAnswerSlack;
  Invoke<v1::EndSessionReply>(
      "ending a session", std::move(request), limit,
      [](v1::Device::Stub* stub, auto* context, auto* r, auto* reply, auto callback) {
        stub->async()->EndSession(context, r, reply, std::move(callback));
      },
      std::move(done));
}

void HostProcess::Teardown(v1::TeardownRequest request, Done<v1::TeardownReply> done) {
  const absl::Duration limit = Milliseconds(request.finish_ms()) + kAnswerSlack;
  Invoke<v1::TeardownReply>(
      "tearing the context down", std::move(request), limit,
      [](v1::Device::Stub* stub, auto* context, auto* r, auto* reply, auto callback) {
        stub->async()->Teardown(context, r, reply, std::move(callback));
      },
      [self = shared_from_this(),
       done = std::move(done)](absl::StatusOr<v1::TeardownReply> reply) mutable {
        if (reply.ok() && reply->finished()) self->torn_down_ = true;
        done(std::move(reply));
      });
}

}  // namespace kcache::workers
