#include "tests/chaos/domains/watcher.h"

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"

namespace kcache::domains {
namespace {

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "kcached");
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

template <class Reply, class Request>
absl::StatusOr<Reply> Ask(v1::Admin::Stub* stub,
                          grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*,
                                                                  const Request&, Reply*)) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + Watcher::kPatience);
  Reply reply;
  const grpc::Status status = (stub->*method)(&context, Request(), &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

}  // namespace

Watcher::Watcher(const std::string& admin_socket)
    : stub_(v1::Admin::NewStub(ChannelTo(admin_socket))), follower_([this] { Follow(); }) {}

Watcher::~Watcher() {
  events_context_.TryCancel();
  follower_.join();
}

void Watcher::Follow() {
  v1::EventsRequest request;
  request.set_follow(true);
  auto reader = stub_->Events(&events_context_, request);
  v1::Event event;
  while (reader->Read(&event)) {
    MutexLock lock(&mutex_);
    ++heard_[event.kind()];
    last_[event.kind()] = event.message();
    changed_.NotifyAll();
  }
  reader->Finish();
}

absl::StatusOr<v1::StatusReply> Watcher::Status() {
  return Ask<v1::StatusReply>(stub_.get(), &v1::Admin::Stub::Status);
}

absl::StatusOr<v1::SessionList> Watcher::Sessions() {
  return Ask<v1::SessionList>(stub_.get(), &v1::Admin::Stub::ListSessions);
}

absl::StatusOr<v1::AdminDeviceList> Watcher::Devices() {
  return Ask<v1::AdminDeviceList>(stub_.get(), &v1::Admin::Stub::ListDevices);
}

absl::StatusOr<std::string> Watcher::DomainOf(pid_t pid) {
  auto sessions = Sessions();
  if (!sessions.ok()) return sessions.status();
  for (const v1::SessionSummary& session : sessions->sessions()) {
    if (session.pid() == pid) return session.domain();
  }
  return absl::NotFoundError(absl::StrCat("no session of pid ", pid));
}

absl::StatusOr<pid_t> Watcher::HostOf(const std::string& domain, const std::string& framework,
                                      uint32_t index) {
  auto devices = Devices();
  if (!devices.ok()) return devices.status();
  for (const v1::AdminDevice& device : devices->devices()) {
    if (device.info().device().framework() != framework ||
        device.info().device().index() != index) {
      continue;
    }
    for (const v1::ContextSummary& context : device.contexts()) {
      if (context.domain() == domain && context.host_pid() != 0) return context.host_pid();
    }
  }
  return absl::NotFoundError(absl::StrCat("no host of ", domain, " on ", framework, ":", index));
}

uint64_t Watcher::Heard(const std::string& kind) {
  MutexLock lock(&mutex_);
  return heard_[kind];
}

absl::Status Watcher::AwaitEvents(const std::string& kind, uint64_t count) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(&mutex_);
  while (heard_[kind] < count) {
    if (changed_.WaitUntil(&mutex_, deadline)) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("heard ", heard_[kind], " events '", kind, "', not ", count));
  }
  return absl::OkStatus();
}

std::string Watcher::LastOf(const std::string& kind) {
  MutexLock lock(&mutex_);
  return last_[kind];
}

}  // namespace kcache::domains
