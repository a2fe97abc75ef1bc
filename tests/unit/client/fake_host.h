// A device host in this process: memory is host memory, "kernels" are recorded. Commands are parsed
// from the very bytes that would travel, so the encoder is tested along.
//
// Threads: any, if replies are not held.

#ifndef KCACHE_TESTS_UNIT_CLIENT_FAKE_HOST_H_
#define KCACHE_TESTS_UNIT_CLIENT_FAKE_HOST_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/src/scheduling.h"
#include "client/src/transport.h"
#include "contract/error_reason.h"
#include "contract/mutex.h"

namespace kcache::internal {

class FakeHost : public std::enable_shared_from_this<FakeHost> {
 public:
  std::shared_ptr<ExecutionTransport> Open(std::shared_ptr<ExecutionObserver> observer) {
    MutexLock lock(&mutex_);
    observer_ = observer;
    ++opened;
    return std::make_shared<Wire>(shared_from_this());
  }

  // The host dies.
  void Die(const std::string& how) {
    if (auto observer = TakeObserver()) observer->OnClosed(absl::UnavailableError(how));
  }

  // Everything that arrived, in order.
  std::vector<v1::Command> commands() {
    MutexLock lock(&mutex_);
    return commands_;
  }
  size_t messages() {
    MutexLock lock(&mutex_);
    return messages_;
  }
  uint64_t launches() {
    MutexLock lock(&mutex_);
    return launches_;
  }
  size_t buffers() {
    MutexLock lock(&mutex_);
    return memory_.size();
  }

  // Replies wait until this is switched off.
  void HoldReplies(bool hold) {
    v1::ExecutionReply held;
    std::shared_ptr<ExecutionObserver> observer;
    {
      MutexLock lock(&mutex_);
      hold_ = hold;
      if (hold) return;
      held.Swap(&held_);
      observer = observer_;
    }
    if (observer != nullptr && !held.replies().empty()) observer->OnReply(held);
  }
  // Messages are taken, but the transport does not say so: it is busy.
  void HoldWrites(bool hold) {
    std::shared_ptr<ExecutionObserver> observer;
    {
      MutexLock lock(&mutex_);
      hold_writes_ = hold;
      if (hold || !written_pending_) return;
      written_pending_ = false;
      observer = observer_;
    }
    if (observer != nullptr) observer->OnWritten();
  }
  // The next command of a queue fails.
  void FailNext(absl::Status failure) {
    MutexLock lock(&mutex_);
    fail_next_ = std::move(failure);
  }
  void Push(const v1::Reply& reply) {
    v1::ExecutionReply message;
    *message.add_replies() = reply;
    std::shared_ptr<ExecutionObserver> observer;
    {
      MutexLock lock(&mutex_);
      observer = observer_;
    }
    if (observer != nullptr) observer->OnReply(message);
  }

  // Launches of a slot that was not bound before, or after Fence: never by a correct client.
  uint64_t violations() {
    MutexLock lock(&mutex_);
    return violations_;
  }
  // From now on a launch of these is a violation unless announced by `positions`.
  void Fence(uint32_t slot, std::map<uint32_t, uint64_t> positions) {
    MutexLock lock(&mutex_);
    fenced_[slot] = std::move(positions);
  }

  // Takes messages and tells of the end on this thread, as a real transport would; else on the writer's
  // own, who then serves everybody that writes meanwhile.
  std::shared_ptr<TaskRunner> runner;
  uint64_t max_commands_in_flight = 65536;
  uint64_t max_message_bytes = 4u << 20;
  int opened = 0;

 private:
  class Wire final : public ExecutionTransport {
   public:
    explicit Wire(std::shared_ptr<FakeHost> host) : host_(std::move(host)) {}
    void Write(std::string message) override {
      Deliver([host = host_, message = std::move(message)] { host->OnMessage(message); });
    }
    void Close() override {
      Deliver([host = host_] {
        if (auto observer = host->TakeObserver()) observer->OnClosed(absl::OkStatus());
      });
    }

   private:
    void Deliver(Task task) {
      if (host_->runner != nullptr) return host_->runner->Post(std::move(task));
      std::move(task)();
    }
    const std::shared_ptr<FakeHost> host_;
  };

  std::shared_ptr<ExecutionObserver> TakeObserver() {
    MutexLock lock(&mutex_);
    return std::exchange(observer_, nullptr);
  }

  void OnMessage(const std::string& bytes) {
    v1::ExecutionReply replies;
    std::shared_ptr<ExecutionObserver> observer;
    bool written = true;
    {
      MutexLock lock(&mutex_);
      ++messages_;
      v1::ExecutionRequest request;
      if (!request.ParseFromString(bytes)) ++violations_;
      for (const v1::Command& command : request.commands()) Execute(command, &replies);
      observer = observer_;
      if (hold_) {
        held_.MergeFrom(replies);
        replies.Clear();
      }
      if (hold_writes_) {
        written_pending_ = true;
        written = false;
      }
    }
    if (observer == nullptr) return;
    if (!replies.replies().empty()) observer->OnReply(replies);
    if (written) observer->OnWritten();
  }

  void Execute(const v1::Command& command, v1::ExecutionReply* replies) {
    commands_.push_back(command);
    const uint32_t queue = command.queue();
    const bool counts = command.has_launch() || command.has_write() || command.has_read() ||
                        command.has_copy() || command.has_fill() || command.has_copy_image();
    if (counts) {
      sequence_[queue] += command.has_launch() ? std::max(command.launch().repeat(), 1u) : 1;
      if (!fail_next_.ok()) {
        v1::QueueError* error = replies->add_replies()->mutable_queue_error();
        error->mutable_position()->set_queue(queue);
        error->mutable_position()->set_sequence(sequence_[queue]);
        *error->mutable_error() = ToProto(fail_next_);
        failure_[queue].Update(std::exchange(fail_next_, absl::OkStatus()));
        if (!command.has_read()) return;
      }
    }
    switch (command.command_case()) {
      case v1::Command::kAttach: {
        v1::Attached* attached = replies->add_replies()->mutable_attached();
        attached->set_max_queues(16);
        attached->set_max_commands_in_flight(max_commands_in_flight);
        attached->set_max_message_bytes(max_message_bytes);
        break;
      }
      case v1::Command::kBind:
        bound_.insert(command.bind().lease().slot());
        break;
      case v1::Command::kLaunch: {
        ++launches_;
        const uint32_t slot = command.launch().slot();
        if (!bound_.contains(slot)) ++violations_;
        if (const auto fence = fenced_.find(slot); fence != fenced_.end()) {
          const auto until = fence->second.find(queue);
          if (until == fence->second.end() || until->second < sequence_[queue]) ++violations_;
        }
        break;
      }
      case v1::Command::kCreateBuffer:
        memory_[command.create_buffer().buffer()].resize(command.create_buffer().bytes());
        Done(command.create_buffer().request_id(), replies);
        break;
      case v1::Command::kScratch:
        memory_[command.scratch().buffer()].resize(command.scratch().bytes());
        Done(command.scratch().request_id(), replies);
        break;
      case v1::Command::kReleaseBuffer:
        memory_.erase(command.release_buffer().buffer());
        break;
      case v1::Command::kWrite:
        memory_[command.write().buffer()].replace(
            command.write().offset(), command.write().data().size(), command.write().data());
        break;
      case v1::Command::kFill:
        for (uint64_t at = 0; at < command.fill().bytes(); at += command.fill().pattern().size()) {
          memory_[command.fill().buffer()].replace(command.fill().offset() + at,
                                                   command.fill().pattern().size(),
                                                   command.fill().pattern());
        }
        break;
      case v1::Command::kCopy:
        memory_[command.copy().destination()].replace(
            command.copy().destination_offset(), command.copy().bytes(),
            memory_[command.copy().source()].substr(command.copy().source_offset(),
                                                    command.copy().bytes()));
        break;
      case v1::Command::kRead: {
        // In pieces, as a real one.
        const v1::ReadBuffer& read = command.read();
        constexpr uint64_t kPiece = 1000;
        for (uint64_t at = 0; at < read.bytes(); at += kPiece) {
          v1::ReadData* data = replies->add_replies()->mutable_read_data();
          data->set_request_id(read.request_id());
          data->set_offset(at);
          if (!failure_[queue].ok()) {
            *data->mutable_error() = ToProto(failure_[queue]);
            data->set_last(true);
            break;
          }
          data->set_data(memory_[read.buffer()].substr(read.offset() + at,
                                                       std::min(kPiece, read.bytes() - at)));
          data->set_last(at + kPiece >= read.bytes());
        }
        break;
      }
      case v1::Command::kSynchronize: {
        v1::Done* done = replies->add_replies()->mutable_done();
        done->set_request_id(command.synchronize().request_id());
        for (auto& [number, failure] : failure_) {
          if (failure.ok() || (!command.synchronize().all_queues() && number != queue)) continue;
          *done->mutable_error() = ToProto(std::exchange(failure, absl::OkStatus()));
          break;
        }
        break;
      }
      case v1::Command::kFirstN: {
        v1::Answer* answer = replies->add_replies()->mutable_answer();
        answer->set_request_id(command.first_n().request_id());
        answer->set_yes(counts_[command.first_n().key()]++ < command.first_n().n());
        break;
      }
      default:
        break;
    }
  }

  static void Done(uint64_t request, v1::ExecutionReply* replies) {
    if (request != 0) replies->add_replies()->mutable_done()->set_request_id(request);
  }

  Mutex mutex_;
  std::shared_ptr<ExecutionObserver> observer_;
  std::vector<v1::Command> commands_;
  size_t messages_ = 0;
  uint64_t launches_ = 0;
  uint64_t violations_ = 0;
  std::map<uint64_t, std::string> memory_;
  std::map<uint32_t, uint64_t> sequence_;
  std::map<uint32_t, absl::Status> failure_;
  std::map<std::string, uint32_t> counts_;
  std::set<uint32_t> bound_;
  std::map<uint32_t, std::map<uint32_t, uint64_t>> fenced_;
  absl::Status fail_next_;
  bool hold_ = false;
  bool hold_writes_ = false;
  bool written_pending_ = false;
  v1::ExecutionReply held_;
};

}  // namespace kcache::internal

#endif  // KCACHE_TESTS_UNIT_CLIENT_FAKE_HOST_H_
