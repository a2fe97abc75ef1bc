// A daemon in this process: answers what a real one would, unless the test intercepts it.
//
// Threads: any. Everything is delivered inside the call that causes it.

#ifndef KCACHE_TESTS_UNIT_CLIENT_FAKE_DAEMON_H_
#define KCACHE_TESTS_UNIT_CLIENT_FAKE_DAEMON_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/src/transport.h"
#include "contract/kernel_key.h"
#include "contract/mutex.h"
#include "fake_host.h"

namespace kcache::internal {

class FakeDaemon final : public Transport {
 public:
  std::string artifact_format = "fake-binary";
  // ---- what the test sets
  absl::Status unreachable;  // not OK: every OpenSession fails with it
  bool answer_hello = true;
  uint64_t ttl_ms = 9000;
  std::string instance = std::string(16, 'i');
  bool has_source = true;            // else NEED_SOURCE once for each program
  bool resume_known = true;          // a Hello with our session resumes it
  std::vector<std::string> missing;  // what Missing answers; empty: all blobs
  std::shared_ptr<TaskRunner> host_runner;  // of every host that is made from now on
  // Sees each event first; true: the test has dealt with it.
  std::function<bool(const v1::ClientEvent&)> intercept;

  // ---- what the test does
  void Send(const v1::DaemonEvent& event) {
    v1::DaemonMessage message;
    *message.add_events() = event;
    SendMessage(std::move(message));
  }
  void SendMessage(v1::DaemonMessage message) {
    {
      MutexLock lock(&mutex_);
      outbox_.push_back(std::move(message));
    }
    Deliver();
  }
  void Invalidate(v1::Invalidate event) {
    {
      MutexLock lock(&mutex_);
      event.set_revision(++revision_);
      *outbox_.emplace_back().add_events()->mutable_invalidate() = std::move(event);
    }
    Deliver();
  }
  void Fail(uint64_t request_id, const absl::Status& why) {
    v1::DaemonEvent event;
    event.mutable_failure()->set_request_id(request_id);
    *event.mutable_failure()->mutable_error() = ToProto(why);
    Send(event);
  }
  // The stream breaks; the session lives on.
  void Break() {
    if (auto observer = TakeObserver()) {
      observer->OnClosed(MakeError(v1::CONNECTION_LOST, "cut"));
    }
  }
  // Another daemon process takes over.
  void Restart() {
    {
      MutexLock lock(&mutex_);
      instance = std::string(16, ++instances_);
      contexts_.clear();
      introduced_.clear();
      revision_ = 0;
    }
    Break();
  }
  // What `acquire` gets.
  void Grant(const v1::Acquire& acquire) {
    {
      MutexLock lock(&mutex_);
      FillGrant(acquire, &outbox_.emplace_back());
    }
    Deliver();
  }
  // The device's context is made anew.
  void NextGeneration(uint32_t index) {
    MutexLock lock(&mutex_);
    contexts_.erase(index);
  }
  // A clear: the next grants give out other slots. Returns the last one given out until now.
  uint32_t NewSlots() {
    MutexLock lock(&mutex_);
    slots_.clear();
    return last_slot_;
  }

  // ---- what the test looks at
  std::vector<v1::ClientEvent> events() {
    MutexLock lock(&mutex_);
    return events_;
  }
  template <class Is>
  std::vector<v1::ClientEvent> EventsThat(Is is) {
    std::vector<v1::ClientEvent> found;
    for (const v1::ClientEvent& event : events()) {
      if (is(event)) found.push_back(event);
    }
    return found;
  }
  std::vector<v1::ClientEvent> acquires() {
    return EventsThat([](const auto& event) { return event.has_acquire(); });
  }
  std::vector<v1::ClientEvent> acks() {
    return EventsThat([](const auto& event) { return event.has_ack(); });
  }
  std::vector<v1::ClientEvent> nacks() {
    return EventsThat([](const auto& event) { return event.has_nack(); });
  }
  std::vector<v1::ClientEvent> releases() {
    return EventsThat([](const auto& event) { return event.has_release(); });
  }
  void ForgetEvents() {
    MutexLock lock(&mutex_);
    events_.clear();
    messages_ = 0;
  }
  size_t messages() {
    MutexLock lock(&mutex_);
    return messages_;
  }
  int sessions_opened() {
    MutexLock lock(&mutex_);
    return opened_;
  }
  std::shared_ptr<FakeHost> host(uint32_t index = 0) {
    MutexLock lock(&mutex_);
    return ContextOf(index).host;
  }
  v1::ContextRef context(uint32_t index = 0) {
    MutexLock lock(&mutex_);
    return ContextOf(index).ref;
  }
  std::vector<std::string> uploaded() {
    MutexLock lock(&mutex_);
    return uploaded_;
  }

  // ---- Transport
  std::shared_ptr<SessionStream> OpenSession(
      std::shared_ptr<SessionStreamObserver> observer) override {
    absl::Status refused;
    auto stream = std::make_shared<Stream>(this);
    {
      MutexLock lock(&mutex_);
      ++opened_;
      refused = unreachable;
      if (refused.ok()) {
        observer_ = observer;
        stream_ = stream;
      }
    }
    if (!refused.ok()) observer->OnClosed(refused);
    return stream;
  }
  std::shared_ptr<ExecutionTransport> OpenExecution(
      const std::string& target, std::shared_ptr<ExecutionObserver> observer) override {
    std::shared_ptr<FakeHost> host;
    {
      MutexLock lock(&mutex_);
      host = hosts_.at(target);
    }
    return host->Open(std::move(observer));
  }
  void Missing(v1::MissingRequest request,
               std::function<void(absl::StatusOr<v1::MissingReply>)> done) override {
    v1::MissingReply reply;
    for (const std::string& digest : missing) reply.add_digests(digest);
    if (missing.empty()) {
      reply.add_digests(request.manifest().source_digest());
      for (const auto& header : request.manifest().headers()) reply.add_digests(header.digest());
    }
    done(reply);
  }
  void Upload(v1::UploadRequest first, std::vector<BlobPart> blobs,
              std::function<void(absl::StatusOr<v1::UploadReply>)> done) override {
    for (const BlobPart& blob : blobs) {
      if (Digest::Of(*blob.data).str() != blob.digest) {
        return done(MakeError(v1::DIGEST_MISMATCH, "a blob is not what was announced"));
      }
    }
    if (!upload_failure.ok()) return done(upload_failure);
    v1::UploadReply reply;
    reply.set_program_digest(ProgramDigest(first.manifest())->str());
    std::vector<v1::Acquire> waiting;
    {
      MutexLock lock(&mutex_);
      for (const BlobPart& blob : blobs) uploaded_.push_back(*blob.data);
      has_source = true;
      waiting.swap(waiting_for_source_);
    }
    done(reply);
    for (const v1::Acquire& acquire : waiting) Grant(acquire);
  }
  void Fetch(v1::FetchRequest request,
             std::function<void(absl::StatusOr<std::string>)> done) override {
    done("binary of " + request.artifact_key());
  }
  void AwaitEnds(std::chrono::milliseconds) override {}  // streams end inside the call
  const std::string& socket() const override { return socket_; }

  absl::Status upload_failure;

 private:
  class Stream final : public SessionStream {
   public:
    explicit Stream(FakeDaemon* daemon) : daemon_(daemon) {}
    void Write(v1::ClientMessage message) override { daemon_->OnMessage(this, message); }
    void Close() override { End(); }
    void Abandon() override { End(); }

   private:
    void End() {
      if (!daemon_->IsCurrent(this)) return;
      if (auto observer = daemon_->TakeObserver()) observer->OnClosed(absl::OkStatus());
    }
    FakeDaemon* const daemon_;
  };

  struct Context {
    v1::ContextRef ref;
    std::shared_ptr<FakeHost> host;
  };

  std::shared_ptr<SessionStreamObserver> Observer() {
    MutexLock lock(&mutex_);
    return observer_;
  }
  std::shared_ptr<SessionStreamObserver> TakeObserver() {
    MutexLock lock(&mutex_);
    outbox_.clear();
    stream_ = nullptr;
    return std::exchange(observer_, nullptr);
  }
  bool IsCurrent(Stream* stream) {
    MutexLock lock(&mutex_);
    return stream_.get() == stream;
  }

  void OnMessage(Stream* stream, const v1::ClientMessage& message) {
    if (!IsCurrent(stream)) return;
    {
      MutexLock lock(&mutex_);
      ++messages_;
      for (const auto& event : message.events()) events_.push_back(event);
    }
    for (const v1::ClientEvent& event : message.events()) {
      if (intercept && intercept(event)) continue;
      OnEvent(event);
    }
    if (IsCurrent(stream)) {
      if (auto observer = Observer()) observer->OnWritten();
    }
  }

  void OnEvent(const v1::ClientEvent& event) {
    v1::DaemonMessage message;
    {
      MutexLock lock(&mutex_);
      switch (event.event_case()) {
        case v1::ClientEvent::kHello: {
          if (!answer_hello) return;
          v1::Welcome* welcome = message.add_events()->mutable_welcome();
          const v1::Hello& hello = event.hello();
          const bool resumed = resume_known && hello.session_id() != 0 &&
                               hello.instance() == instance && hello.session_id() == session_;
          if (!resumed) {
            ++session_;
            introduced_.clear();
          }
          welcome->set_version(v1::PROTOCOL_VERSION_1);
          welcome->set_instance(instance);
          welcome->set_session_id(session_);
          welcome->set_session_key(std::string(16, 'k'));
          welcome->set_resumed(resumed);
          welcome->set_ttl_ms(ttl_ms);
          welcome->set_daemon_version("fake");
          break;
        }
        case v1::ClientEvent::kAcquire:
          if (!has_source && event.acquire().mode() != v1::ACQUIRE_CONTEXT) {
            waiting_for_source_.push_back(event.acquire());
            v1::NeedSource* need = message.add_events()->mutable_need_source();
            need->set_request_id(event.acquire().request_id());
            need->set_program_digest(event.acquire().program_digest());
            break;
          }
          FillGrant(event.acquire(), &message);
          break;
        case v1::ClientEvent::kRenew:
          message.add_events()->mutable_renewed()->set_sequence(event.renew().sequence());
          break;
        case v1::ClientEvent::kListDevices: {
          v1::DeviceList* list = message.add_events()->mutable_device_list();
          list->set_request_id(event.list_devices().request_id());
          for (uint32_t index = 0; index < 2; ++index) {
            v1::DeviceInfo* device = list->add_devices();
            device->mutable_device()->set_framework("Fake");
            device->mutable_device()->set_index(index);
            device->set_state(v1::DEVICE_UP);
            device->set_global_id(100 + index);
          }
          break;
        }
        default:
          break;
      }
      if (!message.events().empty()) outbox_.push_back(std::move(message));
    }
    Deliver();
  }

  // One FIFO, as a real session has: what is decided first is heard first.
  void Deliver() {
    while (true) {
      v1::DaemonMessage message;
      std::shared_ptr<SessionStreamObserver> observer;
      {
        MutexLock lock(&mutex_);
        if (delivering_ || outbox_.empty()) return;
        delivering_ = true;
        message = std::move(outbox_.front());
        outbox_.pop_front();
        observer = observer_;
      }
      if (observer != nullptr) observer->OnMessage(std::move(message));
      MutexLock lock(&mutex_);
      delivering_ = false;
    }
  }

  void FillGrant(const v1::Acquire& acquire, v1::DaemonMessage* message) {
    if (acquire.mode() == v1::ACQUIRE_ARTIFACT) {
      v1::Grant* grant = message->add_events()->mutable_grant();
      grant->set_request_id(acquire.request_id());
      grant->set_artifact_key(acquire.program_digest());
      grant->mutable_artifact()->set_format(artifact_format);
      grant->mutable_artifact()->set_build_log("fine");
      grant->mutable_artifact()->add_kernels()->set_entry("main");
      return;
    }
    const uint32_t index = acquire.device().index();
    const Context& context = ContextOf(index);
    if (introduced_.insert(context.ref.context_id()).second) {
      v1::ContextInfo* info = message->add_events()->mutable_context_info();
      *info->mutable_context() = context.ref;
      info->set_execution_target("fake:" + std::to_string(context.ref.context_id()));
      info->set_execution_token(std::string(16, 't'));
    }
    v1::Grant* grant = message->add_events()->mutable_grant();
    grant->set_request_id(acquire.request_id());
    grant->set_context_id(context.ref.context_id());
    if (acquire.mode() == v1::ACQUIRE_CONTEXT) return;
    auto [slot, fresh] = slots_.try_emplace(
        {context.ref.context_id(), acquire.program_digest() + acquire.entry()}, last_slot_ + 1);
    if (fresh) ++last_slot_;
    grant->mutable_lease()->set_slot(slot->second);
    grant->mutable_lease()->set_incarnation(1);
    grant->mutable_lease()->set_mac(std::string(16, 'm'));
    grant->set_origin(fresh ? v1::GRANT_COMPILED : v1::GRANT_WARM);
    v1::KernelInfo* kernel = grant->mutable_kernel();
    kernel->set_entry(acquire.entry());
    kernel->set_arguments_known(acquire.entry() == "typed");
    if (acquire.entry() == "typed") {
      v1::ArgumentInfo* buffer = kernel->add_arguments();
      buffer->set_kind(v1::ARGUMENT_BUFFER);
      buffer->set_name("data");
      v1::ArgumentInfo* scalar = kernel->add_arguments();
      scalar->set_kind(v1::ARGUMENT_SCALAR);
      scalar->set_bytes(4);
      scalar->set_name("n");
      kernel->add_arguments()->set_kind(v1::ARGUMENT_LOCAL_MEMORY);
    }
  }

  Context& ContextOf(uint32_t index) {
    auto [context, fresh] = contexts_.try_emplace(index);
    if (fresh) {
      v1::ContextRef& ref = context->second.ref;
      ref.set_context_id(++last_context_);
      ref.mutable_device()->set_framework("Fake");
      ref.mutable_device()->set_index(index);
      ref.set_generation(++generations_[index]);
      context->second.host = std::make_shared<FakeHost>();
      context->second.host->runner = host_runner;
      hosts_["fake:" + std::to_string(ref.context_id())] = context->second.host;
    }
    return context->second;
  }

  const std::string socket_ = "/fake/kcached.sock";
  Mutex mutex_;
  std::shared_ptr<SessionStreamObserver> observer_;
  std::shared_ptr<Stream> stream_;
  std::deque<v1::DaemonMessage> outbox_;
  bool delivering_ = false;
  std::vector<v1::ClientEvent> events_;
  size_t messages_ = 0;
  int opened_ = 0;
  char instances_ = 'j';
  uint64_t session_ = 0;
  uint64_t revision_ = 0;
  uint64_t last_context_ = 0;
  uint32_t last_slot_ = 0;
  std::map<uint32_t, Context> contexts_;
  std::map<uint32_t, uint64_t> generations_;
  std::map<std::string, std::shared_ptr<FakeHost>> hosts_;
  std::set<uint64_t> introduced_;
  std::map<std::pair<uint64_t, std::string>, uint32_t> slots_;
  std::vector<v1::Acquire> waiting_for_source_;
  std::vector<std::string> uploaded_;
};

}  // namespace kcache::internal

#endif  // KCACHE_TESTS_UNIT_CLIENT_FAKE_DAEMON_H_
