#include "tests/bench/bare_fanout.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "kcache/v1/session.grpc.pb.h"
#include "tests/bench/samples.h"

namespace kcache::bench {
namespace {

const std::string kOperation(16, 'o');

// What the daemon says when a device is destroyed, and what a holder without work in flight answers.
v1::DaemonMessage Invalidation() {
  v1::DaemonMessage message;
  v1::Invalidate* step = message.add_events()->mutable_invalidate();
  step->set_operation_id(kOperation);
  step->set_revision(1000);
  step->set_phase(v1::PHASE_BEFORE);
  step->set_kind(v1::INVALIDATE_DEVICE);
  step->set_family("Fake");
  step->set_index(0);
  step->mutable_context()->set_context_id(1000);
  step->mutable_context()->mutable_device()->set_framework("Fake");
  step->mutable_context()->set_generation(1000);
  step->set_reason("destroyed by uid 1000 pid 12345");
  step->set_deadline_ms(30000);
  step->set_needs_ack(true);
  return message;
}

v1::ClientMessage Acknowledgement() {
  v1::ClientMessage message;
  message.add_events()->mutable_ack()->set_operation_id(kOperation);
  message.mutable_events(0)->mutable_ack()->set_context_id(1000);
  return message;
}

class BareReactor;

// The open streams and the round that is under way.
class Hub {
 public:
  void Add(BareReactor* stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_.push_back(stream);
    changed_.notify_all();
  }
  void Answered() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--missing_ == 0) changed_.notify_all();
  }
  // The stream has ended; `answered`: not in the round that is under way, if any.
  void Remove(BareReactor* stream, bool answered);

  double Round(size_t streams, const std::function<void()>& told);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<BareReactor*> streams_;
  std::vector<BareReactor*> ended_;  // while a round writes to them
  size_t missing_ = 0;
  bool writing_ = false;
};

class BareReactor : public grpc::ServerBidiReactor<v1::ClientMessage, v1::DaemonMessage> {
 public:
  explicit BareReactor(Hub* hub) : hub_(hub) {
    hub_->Add(this);
    StartRead(&answer_);
  }
  void Tell(const v1::DaemonMessage* message) {
    asked_ = true;
    StartWrite(message);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return hub_->Remove(this, !asked_.exchange(false));
    asked_ = false;
    hub_->Answered();
    StartRead(&answer_);
  }
  void OnDone() override { delete this; }

 private:
  Hub* const hub_;
  std::atomic<bool> asked_{false};
  v1::ClientMessage answer_;
};

void Hub::Remove(BareReactor* stream, bool answered) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase(streams_, stream);
    if (!answered && --missing_ == 0) changed_.notify_all();
    if (writing_) {
      ended_.push_back(stream);
      return;
    }
  }
  stream->Finish(grpc::Status::OK);
}

double Hub::Round(size_t streams, const std::function<void()>& told) {
  static const v1::DaemonMessage message = Invalidation();
  std::vector<BareReactor*> everybody;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return streams_.size() == streams; });
    everybody = streams_;
    missing_ = streams;
    writing_ = true;
  }
  Stopwatch watch;
  for (BareReactor* stream : everybody) stream->Tell(&message);
  told();
  std::vector<BareReactor*> ended;
  double took = 0;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return missing_ == 0; });
    took = watch.Microseconds();
    writing_ = false;
    ended.swap(ended_);
  }
  for (BareReactor* stream : ended) stream->Finish(grpc::Status::OK);
  return took;
}

class BareService : public v1::Session::CallbackService {
 public:
  explicit BareService(Hub* hub) : hub_(hub) {}
  grpc::ServerBidiReactor<v1::ClientMessage, v1::DaemonMessage>* Open(
      grpc::CallbackServerContext*) override {
    return new BareReactor(hub_);
  }

 private:
  Hub* const hub_;
};

class BareStream : public grpc::ClientBidiReactor<v1::ClientMessage, v1::DaemonMessage> {
 public:
  explicit BareStream(const std::string& socket) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    channel_ = grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(),
                                         arguments);
    stub_ = v1::Session::NewStub(channel_);
    stub_->async()->Open(&context_, this);
    StartRead(&asked_);
    StartCall();
  }
  ~BareStream() override {
    context_.TryCancel();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
  }
  void OnReadDone(bool ok) override {
    if (ok) StartWrite(&answer_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) StartRead(&asked_);
  }
  void OnDone(const grpc::Status&) override {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Session::Stub> stub_;
  grpc::ClientContext context_;
  v1::DaemonMessage asked_;
  const v1::ClientMessage answer_ = Acknowledgement();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

class BareStreamsImpl : public BareStreams {
 public:
  BareStreamsImpl(const std::string& socket, size_t count) {
    for (size_t i = 0; i < count; ++i) streams_.push_back(std::make_unique<BareStream>(socket));
  }

 private:
  std::vector<std::unique_ptr<BareStream>> streams_;
};

}  // namespace

int RunBareFanoutServer(const std::string& socket) {
  Hub hub;
  BareService service(&hub);
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const int listening = ListenAt(socket);
  if (listening < 0) return 1;
  std::thread([listening, server = server.get()] {
    while (true) {
      const int accepted = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (accepted >= 0) grpc::AddInsecureChannelFromFd(server, accepted);
    }
  }).detach();
  TellParent("serving");
  while (auto line = HearParent()) {
    std::istringstream words(*line);
    std::string what;
    size_t streams = 0;
    words >> what >> streams;
    const double took = hub.Round(streams, [&] {
      if (what == "tell") TellParent("told");
    });
    TellParent(std::to_string(took));
  }
  _exit(0);
}

std::unique_ptr<BareFanoutServer> BareFanoutServer::Start(const std::string& program) {
  auto server = std::make_unique<BareFanoutServer>();
  server->socket_ = server->folder_.path() + "/bare.sock";
  server->child_ = Child::Start({program, "fanout-server", server->socket_});
  if (server->child_ == nullptr || server->child_->Listen() != "serving") return nullptr;
  return server;
}

std::optional<double> BareFanoutServer::Round(size_t streams, const std::function<void()>& told) {
  if (!child_->Say((told ? "tell " : "round ") + std::to_string(streams))) return std::nullopt;
  if (told) {
    if (child_->Listen() != "told") return std::nullopt;
    told();
  }
  const auto took = child_->Listen();
  if (!took) return std::nullopt;
  return std::strtod(took->c_str(), nullptr);
}

std::unique_ptr<BareStreams> BareStreams::Open(const std::string& socket, size_t count) {
  return std::make_unique<BareStreamsImpl>(socket, count);
}

}  // namespace kcache::bench
