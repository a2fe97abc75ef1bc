#include "client/src/execution_stream.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/src/callback_scope.h"
#include "contract/error_reason.h"

namespace kcache::internal {
namespace {

constexpr size_t kBatchCommands = 256;
constexpr size_t kBatchBytes = 48u << 10;
constexpr size_t kSealBytes = 1u << 20;
constexpr Duration kTick = std::chrono::microseconds(150);
// Of a message, beside the payload of the largest command.
constexpr size_t kMessageOverhead = 4096;

}  // namespace

class ExecutionStream::Observer final : public ExecutionObserver {
 public:
  explicit Observer(std::weak_ptr<ExecutionStream> stream) : stream_(std::move(stream)) {}
  void OnReply(const v1::ExecutionReply& reply) override {
    if (auto stream = stream_.lock()) stream->OnReply(reply);
  }
  void OnWritten() override {
    if (auto stream = stream_.lock()) stream->OnWritten();
  }
  void OnClosed(absl::Status why) override {
    if (auto stream = stream_.lock()) stream->OnClosed(why);
  }

 private:
  const std::weak_ptr<ExecutionStream> stream_;
};

void ExecutionStream::Outcome::Deliver() {
  CallbackScope scope;
  if (done) done(status);
  if (created) {
    if (status.ok()) {
      created(yes);
    } else {
      created(status);
    }
  }
}

ExecutionStream::ExecutionStream(Target target, std::shared_ptr<Runtime> runtime)
    : target_(std::move(target)), runtime_(std::move(runtime)) {}

ExecutionStream::~ExecutionStream() {
  if (wire_ != nullptr) wire_->Close();
}

// ---- commands -----------------------------------------------------------------------------------

absl::Status ExecutionStream::CheckQueue(uint32_t queue) const {
  if (queue < kMaxQueues) return absl::OkStatus();
  return MakeError(v1::UNKNOWN_QUEUE, absl::StrCat("queue ", queue, " of ", target_.device,
                                                   "; the limit is ", kMaxQueues, " queues"));
}

absl::Status ExecutionStream::Launch(uint32_t queue, LeaseGate* gate,
                                     std::span<const WireArgument> arguments,
                                     const LaunchConfig& config) {
  if (queue >= kMaxQueues) return CheckQueue(queue);
  size_t bytes = 256 + config.push_constants.size();
  for (const WireArgument& argument : arguments)
    bytes += 32 + argument.bytes * (argument.data != nullptr);
  mutex_.Lock();
  AwaitRoom(std::max(config.repeat, 1u));
  absl::Status refused;
  if (state_ == State::kEnded) {
    refused = gate->state == LeaseGate::State::kOpen ? ended_ : gate->why;
  } else if (gate->state != LeaseGate::State::kOpen &&
             (gate->state == LeaseGate::State::kClosed || gate->uses == 0)) {
    refused = gate->why;
  }
  if (!refused.ok()) {
    mutex_.Unlock();
    return refused;
  }
  if (!gate->bound) {
    gate->bound = true;
    v1::Command bind;
    *bind.mutable_bind()->mutable_lease() = gate->lease;
    AppendPlain(bind);
  }
  MakeRoomInBatch(bytes);
  AppendLaunch(queue,
               {.slot = gate->lease.slot(),
                .incarnation = gate->lease.incarnation(),
                .arguments = arguments},
               config, &batch_);
  ++launches_;
  CountCommand(queue, Queue(queue), std::max(config.repeat, 1u));
  UnlockAndSend(Urgency::kGather);
  return absl::OkStatus();
}

absl::Status ExecutionStream::Write(uint32_t queue, uint64_t buffer, uint64_t offset,
                                    std::string_view data) {
  if (absl::Status bad = CheckQueue(queue); !bad.ok()) return bad;
  do {
    mutex_.Lock();
    const size_t piece = std::min({data.size(), kSealBytes, max_message_bytes_ - kMessageOverhead});
    AwaitRoom(1);
    if (state_ == State::kEnded) {
      const absl::Status why = ended_;
      mutex_.Unlock();
      return why;
    }
    MakeRoomInBatch(piece);
    AppendWrite(queue, buffer, offset, data.substr(0, piece), &batch_);
    CountCommand(queue, Queue(queue), 1);
    UnlockAndSend(Urgency::kGather);
    offset += piece;
    data.remove_prefix(piece);
  } while (!data.empty());
  return absl::OkStatus();
}

absl::Status ExecutionStream::Enqueue(const v1::Command& command) {
  if (absl::Status bad = CheckQueue(command.queue()); !bad.ok()) return bad;
  mutex_.Lock();
  AwaitRoom(1);
  if (state_ == State::kEnded) {
    const absl::Status why = ended_;
    mutex_.Unlock();
    return why;
  }
  AppendPlain(command);
  CountCommand(command.queue(), Queue(command.queue()), 1);
  UnlockAndSend(Urgency::kGather);
  return absl::OkStatus();
}

absl::Status ExecutionStream::Read(uint32_t queue, uint64_t buffer, uint64_t offset,
                                   std::span<std::byte> out, Done done) {
  if (absl::Status bad = CheckQueue(queue); !bad.ok()) return bad;
  mutex_.Lock();
  AwaitRoom(1);
  if (state_ == State::kEnded) {
    const absl::Status why = ended_;
    mutex_.Unlock();
    return why;
  }
  QueueState* const state = Queue(queue);
  v1::Command command;
  command.set_queue(queue);
  v1::ReadBuffer* const read = command.mutable_read();
  read->set_buffer(buffer);
  read->set_offset(offset);
  read->set_bytes(out.size());
  Pending pending;
  pending.kind = Pending::Kind::kRead;
  pending.queue = queue;
  // The reply also says that everything before it is finished, and the read itself.
  pending.snapshot = {{queue, state->sequence + 1}};
  pending.done = std::move(done);
  pending.out = out;
  read->set_request_id(AddPending(std::move(pending)));
  AppendPlain(command);
  CountCommand(queue, state, 1);
  UnlockAndSend(Urgency::kNow);
  return absl::OkStatus();
}

void ExecutionStream::Synchronize(uint32_t queue, Done done) {
  absl::Status failure = CheckQueue(queue);
  mutex_.Lock();
  if (state_ == State::kEnded || !failure.ok()) {
    failure.Update(EndedOutcome(false, queue));
    mutex_.Unlock();
    Outcome{std::move(done), nullptr, failure}.Deliver();
    return;
  }
  v1::Command command;
  command.set_queue(queue);
  Pending pending;
  pending.kind = Pending::Kind::kSynchronize;
  pending.queue = queue;
  pending.snapshot = TakeSnapshot(false, queue);
  pending.done = std::move(done);
  command.mutable_synchronize()->set_request_id(AddPending(std::move(pending)));
  AppendPlain(command);
  UnlockAndSend(Urgency::kNow);
}

void ExecutionStream::SynchronizeAll(Done done) {
  mutex_.Lock();
  if (state_ == State::kEnded) {
    const absl::Status failure = EndedOutcome(true, 0);
    mutex_.Unlock();
    Outcome{std::move(done), nullptr, failure}.Deliver();
    return;
  }
  v1::Command command;
  Pending pending;
  pending.kind = Pending::Kind::kSynchronize;
  pending.all_queues = true;
  pending.snapshot = TakeSnapshot(true, 0);
  pending.done = std::move(done);
  command.mutable_synchronize()->set_all_queues(true);
  command.mutable_synchronize()->set_request_id(AddPending(std::move(pending)));
  AppendPlain(command);
  UnlockAndSend(Urgency::kNow);
}

void ExecutionStream::Flush() {
  mutex_.Lock();
  UnlockAndSend(Urgency::kNow);
}

uint64_t ExecutionStream::NewBufferId() {
  MutexLock lock(&mutex_);
  return ++last_buffer_;
}

void ExecutionStream::Create(v1::Command command, CreateDone done) {
  mutex_.Lock();
  if (state_ == State::kEnded) {
    const absl::Status failure = ended_;
    mutex_.Unlock();
    Outcome{nullptr, std::move(done), failure}.Deliver();
    return;
  }
  Pending pending;
  pending.kind = Pending::Kind::kCreate;
  pending.created = std::move(done);
  const uint64_t id = AddPending(std::move(pending));
  if (command.has_create_buffer()) command.mutable_create_buffer()->set_request_id(id);
  if (command.has_create_image()) command.mutable_create_image()->set_request_id(id);
  if (command.has_scratch()) command.mutable_scratch()->set_request_id(id);
  AppendPlain(command);
  UnlockAndSend(Urgency::kNow);
}

void ExecutionStream::ReleaseBuffer(uint64_t buffer) {
  mutex_.Lock();
  if (state_ != State::kOpen) return mutex_.Unlock();
  v1::Command command;
  command.mutable_release_buffer()->set_buffer(buffer);
  AppendPlain(command);
  UnlockAndSend(Urgency::kGather);
}

void ExecutionStream::EndGroup(const std::string& group) {
  mutex_.Lock();
  if (state_ != State::kOpen) return mutex_.Unlock();
  v1::Command command;
  command.mutable_end_group()->set_group(group);
  AppendPlain(command);
  UnlockAndSend(Urgency::kGather);
}

void ExecutionStream::Ask(v1::Command command, AnswerDone done) {
  mutex_.Lock();
  if (state_ == State::kEnded) {
    const absl::Status failure = ended_;
    mutex_.Unlock();
    Outcome{nullptr, std::move(done), failure}.Deliver();
    return;
  }
  Pending pending;
  pending.kind = Pending::Kind::kAnswer;
  pending.created = std::move(done);
  const uint64_t id = AddPending(std::move(pending));
  if (command.has_first_n()) command.mutable_first_n()->set_request_id(id);
  if (command.has_first_shape()) command.mutable_first_shape()->set_request_id(id);
  AppendPlain(command);
  UnlockAndSend(Urgency::kNow);
}

// ---- leases -------------------------------------------------------------------------------------

absl::Status ExecutionStream::OpenUse(LeaseGate* gate) {
  MutexLock lock(&mutex_);
  if (gate->state != LeaseGate::State::kOpen) return gate->why;
  if (state_ == State::kEnded) return ended_;
  ++gate->uses;
  return absl::OkStatus();
}

void ExecutionStream::CloseUse(LeaseGate* gate) {
  std::vector<std::function<void()>> quiet;
  {
    MutexLock lock(&mutex_);
    --gate->uses;
    if (gate->state != LeaseGate::State::kClosing) return;
    if (gate->uses == 0) gate->state = LeaseGate::State::kClosed;
    if (--uses_holding_out_ == 0) quiet.swap(quiet_);
  }
  for (auto& callback : quiet) callback();
}

bool ExecutionStream::Admits(const LeaseGate& gate) const {
  MutexLock lock(&mutex_);
  return gate.state == LeaseGate::State::kOpen && state_ != State::kEnded;
}

void ExecutionStream::CloseGates(std::span<LeaseGate* const> gates, const absl::Status& why,
                                 std::function<void()> quiet) {
  {
    MutexLock lock(&mutex_);
    for (LeaseGate* gate : gates) {
      if (gate->state != LeaseGate::State::kOpen) continue;
      gate->why = why;
      gate->state = gate->uses > 0 ? LeaseGate::State::kClosing : LeaseGate::State::kClosed;
      uses_holding_out_ += gate->uses;
    }
    // Nobody waits for room under a gate that is closed now.
    room_.NotifyAll();
    if (uses_holding_out_ > 0) {
      quiet_.push_back(std::move(quiet));
      return;
    }
  }
  quiet();
}

uint32_t ExecutionStream::UsesHoldingOut() const {
  MutexLock lock(&mutex_);
  return uses_holding_out_;
}

ExecutionStream::Positions ExecutionStream::SubmitAll() {
  Positions positions;
  mutex_.Lock();
  for (const auto& [number, queue] : queues_) {
    if (queue.sequence == 0) continue;
    v1::QueuePosition& position = positions.emplace_back();
    position.set_queue(number);
    position.set_sequence(queue.sequence);
  }
  UnlockAndSend(Urgency::kNow);
  return positions;
}

// ---- the end ------------------------------------------------------------------------------------

void ExecutionStream::End(const absl::Status& why) {
  std::shared_ptr<ExecutionTransport> wire;
  std::vector<Outcome> outcomes;
  {
    MutexLock lock(&mutex_);
    if (state_ == State::kEnded) return;
    state_ = State::kEnded;
    ended_ = why;
    wire = wire_;
    for (auto& [id, pending] : pending_) {
      outcomes.push_back({std::move(pending.done), std::move(pending.created), why});
    }
    pending_.clear();
    batch_.clear();
    batch_commands_ = 0;
    sealed_.clear();
    sealed_bytes_ = 0;
    room_.NotifyAll();
  }
  if (wire != nullptr) wire->Close();
  for (Outcome& outcome : outcomes) outcome.Deliver();
}

absl::Status ExecutionStream::ended() const {
  MutexLock lock(&mutex_);
  return ended_;
}

void ExecutionStream::set_on_broken(std::function<void(absl::Status)> on_broken) {
  MutexLock lock(&mutex_);
  on_broken_ = std::move(on_broken);
}

uint64_t ExecutionStream::launches() const {
  MutexLock lock(&mutex_);
  return launches_;
}

// ---- bookkeeping, locked ------------------------------------------------------------------------

bool ExecutionStream::HasRoom(uint64_t count) const {
  if (state_ == State::kEnded) return true;
  // What is larger than the whole window goes alone; the host has the last word on it.
  return (in_flight_ == 0 || in_flight_ + count <= max_in_flight_) &&
         sealed_bytes_ + batch_.size() < kMaxBacklogBytes;
}

void ExecutionStream::AwaitRoom(uint64_t count) {
  while (!HasRoom(count)) {
    // Whoever fills the window has to learn when it empties.
    for (auto& [number, queue] : queues_) {
      if (queue.marked < queue.sequence) AppendMarker(number, &queue);
    }
    UnlockAndSend(Urgency::kNow);
    mutex_.Lock();
    if (!HasRoom(count)) room_.Wait(&mutex_);
  }
}

ExecutionStream::QueueState* ExecutionStream::Queue(uint32_t queue) {
  if (last_queue_ == nullptr || last_queue_number_ != queue) {
    last_queue_ = &queues_[queue];
    last_queue_number_ = queue;
  }
  return last_queue_;
}

void ExecutionStream::CountCommand(uint32_t queue, QueueState* state, uint32_t repeat) {
  state->sequence += repeat;
  in_flight_ += repeat;
  ++batch_commands_;
  if (state->sequence - state->marked >= max_in_flight_ / 8 + 1) AppendMarker(queue, state);
}

void ExecutionStream::AppendMarker(uint32_t queue, QueueState* state) {
  state->marked = state->sequence;
  Pending pending;
  pending.queue = queue;
  pending.snapshot = {{queue, state->sequence}};
  v1::Command command;
  command.set_queue(queue);
  command.mutable_synchronize()->set_request_id(AddPending(std::move(pending)));
  AppendPlain(command);
}

uint64_t ExecutionStream::AddPending(Pending pending) {
  const uint64_t id = ++last_request_;
  pending_.emplace(id, std::move(pending));
  return id;
}

ExecutionStream::Snapshot ExecutionStream::TakeSnapshot(bool all, uint32_t queue) {
  Snapshot snapshot;
  for (auto& [number, state] : queues_) {
    if (!all && number != queue) continue;
    state.marked = state.sequence;
    state.asked = state.sequence;
    snapshot.emplace_back(number, state.sequence);
  }
  return snapshot;
}

void ExecutionStream::Complete(const Snapshot& snapshot) {
  for (const auto& [number, sequence] : snapshot) {
    QueueState* const queue = Queue(number);
    if (sequence <= queue->completed) continue;
    in_flight_ -= sequence - queue->completed;
    queue->completed = sequence;
  }
  if (HasRoom(1)) room_.NotifyAll();
}

// A synchronize answers what was pushed before, what a marker of ours learnt, and what it learnt
// itself, whichever came first; and it is answered once.
absl::Status ExecutionStream::TakeFailure(const Pending& pending, const absl::Status& reported) {
  absl::Status first;
  for (auto& [number, queue] : queues_) {
    if (!pending.all_queues && number != pending.queue) continue;
    first.Update(std::exchange(queue.failure, absl::OkStatus()));
  }
  first.Update(reported);
  return first;
}

absl::Status ExecutionStream::EndedOutcome(bool all, uint32_t queue) {
  absl::Status outcome;
  for (auto& [number, state] : queues_) {
    if (!all && number != queue) continue;
    outcome.Update(std::exchange(state.failure, absl::OkStatus()));
    if (std::exchange(state.asked, state.sequence) != state.sequence) outcome.Update(ended_);
  }
  return outcome;
}

void ExecutionStream::AppendPlain(const v1::Command& command) {
  MakeRoomInBatch(command.ByteSizeLong());
  AppendCommand(command, &batch_);
  ++batch_commands_;
}

// ---- sending ------------------------------------------------------------------------------------

void ExecutionStream::MakeRoomInBatch(size_t bytes) {
  if (state_ == State::kIdle && batch_.empty() && sealed_.empty()) {
    v1::Command attach;
    *attach.mutable_attach() = target_.attach;
    AppendCommand(attach, &batch_);
  }
  const size_t limit = std::min(kSealBytes, max_message_bytes_ - kMessageOverhead / 2);
  if (batch_.empty() || batch_.size() + bytes + 64 <= limit) return;
  sealed_bytes_ += batch_.size();
  sealed_.push_back(std::exchange(batch_, {}));
  batch_commands_ = 0;
}

void ExecutionStream::UnlockAndSend(Urgency urgency) {
  std::string message;
  std::shared_ptr<ExecutionTransport> wire;
  bool start = false;
  bool arm = false;
  if (urgency == Urgency::kNow && batch_commands_ > 0) urgent_ = true;
  const bool due =
      !sealed_.empty() ||
      (batch_commands_ > 0 &&
       (urgent_ || !ticking_ || batch_commands_ >= kBatchCommands || batch_.size() >= kBatchBytes));
  if (due && !writing_ && state_ != State::kEnded) {
    writing_ = true;
    if (!sealed_.empty()) {
      message = std::move(sealed_.front());
      sealed_.pop_front();
      sealed_bytes_ -= message.size();
    } else {
      message = std::exchange(batch_, {});
      batch_.reserve(std::min(message.capacity(), 2 * kBatchBytes));
      batch_commands_ = 0;
      urgent_ = false;
    }
    start = state_ == State::kIdle;
    state_ = State::kOpen;
    wire = wire_;
  }
  if (!ticking_ && state_ == State::kOpen) {
    ticking_ = true;
    arm = true;
  }
  mutex_.Unlock();
  if (start) {
    StartTransport(std::move(message));
  } else if (wire != nullptr) {
    wire->Write(std::move(message));
  }
  if (arm) {
    runtime_->timers->After(kTick, [self = weak_from_this()] {
      if (auto stream = self.lock()) stream->Tick();
    });
  }
}

void ExecutionStream::StartTransport(std::string first) {
  std::shared_ptr<ExecutionTransport> wire = runtime_->transport->OpenExecution(
      target_.address, std::make_shared<Observer>(weak_from_this()));
  bool ended = false;
  {
    MutexLock lock(&mutex_);
    wire_ = wire;
    ended = state_ == State::kEnded;
  }
  // writing_ is set, so nobody overtakes the first message.
  if (ended) {
    wire->Close();
  } else {
    wire->Write(std::move(first));
  }
}

void ExecutionStream::Tick() {
  mutex_.Lock();
  ticking_ = false;
  if (batch_commands_ == 0 && sealed_.empty() && !writing_) return mutex_.Unlock();
  if (state_ == State::kEnded) return mutex_.Unlock();
  UnlockAndSend(Urgency::kNow);
}

// ---- replies ------------------------------------------------------------------------------------

void ExecutionStream::OnWritten() {
  mutex_.Lock();
  writing_ = false;
  if (HasRoom(1)) room_.NotifyAll();
  UnlockAndSend(Urgency::kGather);
}

void ExecutionStream::OnReply(const v1::ExecutionReply& replies) {
  for (const v1::Reply& reply : replies.replies()) {
    switch (reply.reply_case()) {
      case v1::Reply::kAttached:
        OnAttached(reply.attached());
        break;
      case v1::Reply::kDone:
        OnDone(reply.done());
        break;
      case v1::Reply::kReadData:
        OnRead(reply.read_data());
        break;
      case v1::Reply::kQueueError:
        OnQueueError(reply.queue_error());
        break;
      case v1::Reply::kAnswer:
        OnAnswer(reply.answer());
        break;
      case v1::Reply::REPLY_NOT_SET:  // of a newer host
        break;
    }
  }
}

void ExecutionStream::OnAttached(const v1::Attached& attached) {
  MutexLock lock(&mutex_);
  if (attached.max_commands_in_flight() > 0) {
    // Commands without a queue count at the host, too: stay below.
    max_in_flight_ = std::max<uint64_t>(attached.max_commands_in_flight() / 4 * 3, 1);
  }
  if (attached.max_message_bytes() > 0) {
    max_message_bytes_ = std::max<size_t>(attached.max_message_bytes(), 2 * kMessageOverhead);
  }
  room_.NotifyAll();
}

void ExecutionStream::OnDone(const v1::Done& done) {
  const absl::Status reported = FromProto(done.error());
  Outcome outcome;
  {
    MutexLock lock(&mutex_);
    auto node = pending_.extract(done.request_id());
    if (node.empty()) {
      // An unrequested failure of a creation without a request id has no queue either.
      return;
    }
    Pending& pending = node.mapped();
    Complete(pending.snapshot);
    switch (pending.kind) {
      case Pending::Kind::kMarker:
        if (!reported.ok()) Queue(pending.queue)->failure.Update(reported);
        return;
      case Pending::Kind::kSynchronize:
        outcome.status = TakeFailure(pending, reported);
        break;
      default:
        outcome.status = reported;
        outcome.yes = done.fell_back();
        break;
    }
    outcome.done = std::move(pending.done);
    outcome.created = std::move(pending.created);
  }
  outcome.Deliver();
}

void ExecutionStream::OnRead(const v1::ReadData& read) {
  absl::flat_hash_map<uint64_t, Pending>::node_type node;
  {
    MutexLock lock(&mutex_);
    node = pending_.extract(read.request_id());
  }
  if (node.empty() || node.mapped().kind != Pending::Kind::kRead) return;
  Pending& pending = node.mapped();
  absl::Status status = FromProto(read.error());
  const std::string& data = read.data();
  if (status.ok() &&
      (read.offset() > pending.out.size() || data.size() > pending.out.size() - read.offset())) {
    status =
        MakeError(v1::INTERNAL, absl::StrCat("the device host answered a read of ",
                                             pending.out.size(), " bytes with bytes ",
                                             read.offset(), " to ", read.offset() + data.size()));
  }
  // Copied without the lock; the entry is out of the table meanwhile, so End() cannot free it.
  if (status.ok() && !data.empty()) {
    std::memcpy(pending.out.data() + read.offset(), data.data(), data.size());
  }
  Outcome outcome;
  {
    MutexLock lock(&mutex_);
    if (status.ok() && !read.last()) {
      if (state_ != State::kEnded) {
        pending_.insert(std::move(node));
        return;
      }
      status = ended_;
    }
    Complete(pending.snapshot);
    if (!status.ok()) {
      // The same failure was, or will be, pushed for the queue: it is told by this read.
      QueueState* const queue = Queue(pending.queue);
      status = queue->failure.ok() ? status : std::exchange(queue->failure, absl::OkStatus());
    } else {
      status = std::exchange(Queue(pending.queue)->failure, absl::OkStatus());
    }
    outcome.done = std::move(pending.done);
    outcome.status = status;
  }
  outcome.Deliver();
}

void ExecutionStream::OnAnswer(const v1::Answer& answer) {
  Outcome outcome;
  {
    MutexLock lock(&mutex_);
    auto node = pending_.extract(answer.request_id());
    if (node.empty()) return;
    outcome.created = std::move(node.mapped().created);
    outcome.yes = answer.yes();
  }
  outcome.Deliver();
}

void ExecutionStream::OnQueueError(const v1::QueueError& error) {
  MutexLock lock(&mutex_);
  if (error.position().queue() >= kMaxQueues) return;
  Queue(error.position().queue())->failure.Update(FromProto(error.error()));
}

void ExecutionStream::OnClosed(const absl::Status& why) {
  std::function<void(absl::Status)> on_broken;
  {
    MutexLock lock(&mutex_);
    if (state_ == State::kEnded) return;
    on_broken = std::exchange(on_broken_, nullptr);
  }
  const absl::Status lost =
      MakeError(v1::DEVICE_LOST, absl::StrCat("the device host of ", target_.device,
                                              " is gone: ", std::string(why.message())));
  // The owner may know better why, and ends the stream with that.
  if (on_broken) on_broken(lost);
  End(lost);
}

}  // namespace kcache::internal
