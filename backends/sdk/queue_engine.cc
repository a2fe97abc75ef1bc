#include "backends/sdk/queue_engine.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::backend {

absl::StatusOr<std::unique_ptr<QueueEngine>> QueueEngine::Create(Context* context, uint32_t number,
                                                                 OnError on_error,
                                                                 uint64_t mark_every) {
  auto handle = context->CreateQueue();
  if (!handle.ok()) return handle.status();
  return std::unique_ptr<QueueEngine>(
      new QueueEngine(context, number, *handle, std::move(on_error), mark_every));
}

QueueEngine::QueueEngine(Context* context, uint32_t number, QueueHandle handle, OnError on_error,
                         uint64_t mark_every)
    : context_(context),
      number_(number),
      handle_(handle),
      on_error_(std::move(on_error)),
      mark_every_(mark_every) {
  thread_ = std::thread([this] { Run(); });
}

QueueEngine::~QueueEngine() { Close().IgnoreError(); }

// Numbered under the driver's lock: a marker that another thread records in between would otherwise
// stand for a command that the driver does not have yet.
absl::Status QueueEngine::Submit(uint64_t count,
                                 absl::FunctionRef<absl::Status(QueueHandle)> call) {
  uint64_t sequence;
  absl::Status status;
  {
    MutexLock driver(&driver_);
    {
      MutexLock lock(&mutex_);
      admitted_ += count;
      sequence = admitted_;
    }
    status = call(handle_);
    if (sequence - last_await_ >= mark_every_) AwaitLocked(nullptr);
  }
  if (!status.ok()) Note(sequence, status);
  return status;
}

absl::Status QueueEngine::SubmitLaunch(uint32_t slot, uint64_t count,
                                       absl::FunctionRef<absl::Status(QueueHandle)> call) {
  return Submit(count, [&](QueueHandle handle) {
    {
      MutexLock lock(&mutex_);
      if (last_use_.size() <= slot) last_use_.resize(slot + 1, 0);
      last_use_[slot] = admitted_;
    }
    return call(handle);
  });
}

uint64_t QueueEngine::Refuse(const absl::Status& why, uint64_t count) {
  uint64_t sequence;
  {
    MutexLock lock(&mutex_);
    admitted_ += count;
    sequence = admitted_;
  }
  Note(sequence, why);
  return sequence;
}

void QueueEngine::Note(uint64_t sequence, const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (first_error_.ok()) first_error_ = status;
  }
  on_error_(sequence, status);
}

void QueueEngine::Await(std::function<void(const absl::Status&)> done) {
  MutexLock driver(&driver_);
  AwaitLocked(std::move(done));
}

void QueueEngine::AwaitLocked(std::function<void(const absl::Status&)> done) {
  Pending pending;
  pending.done = std::move(done);
  auto marker = context_->RecordMarker(handle_);
  if (marker.ok()) {
    pending.marker = *marker;
  } else {
    pending.status = marker.status();
  }
  MutexLock lock(&mutex_);
  pending.sequence = last_await_ = admitted_;
  pending_.push_back(std::move(pending));
  changed_.NotifyAll();
}

void QueueEngine::Flush() {
  absl::Status status;
  {
    MutexLock driver(&driver_);
    CoverLocked();
    status = context_->Flush(handle_);
  }
  if (!status.ok()) Note(admitted(), status);
}

void QueueEngine::CoverLocked() {
  {
    MutexLock lock(&mutex_);
    if (!pending_.empty() || waiting_ || last_await_ >= admitted_) return;
  }
  AwaitLocked(nullptr);
}

void QueueEngine::Run() {
  while (true) {
    Pending next;
    {
      MutexLock lock(&mutex_);
      while (pending_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (pending_.empty()) return;
      next = std::move(pending_.front());
      pending_.pop_front();
      waiting_ = true;
    }
    absl::Status status =
        next.marker == 0 ? next.status : context_->WaitMarker(next.marker);
    if (!status.ok()) Note(next.sequence, status);
    {
      MutexLock lock(&mutex_);
      if (next.sequence > completed_) completed_ = next.sequence;
      waiting_ = false;
    }
    if (next.done) next.done(status);
    {
      MutexLock driver(&driver_);
      CoverLocked();
    }
    MutexLock lock(&mutex_);
    changed_.NotifyAll();
  }
}

absl::Status QueueEngine::TakeFirstError() {
  MutexLock lock(&mutex_);
  absl::Status first = std::move(first_error_);
  first_error_ = absl::OkStatus();
  return first;
}

uint64_t QueueEngine::admitted() const {
  MutexLock lock(&mutex_);
  return admitted_;
}

uint64_t QueueEngine::completed() const {
  MutexLock lock(&mutex_);
  return completed_;
}

bool QueueEngine::busy() const {
  MutexLock lock(&mutex_);
  return waiting_ || !pending_.empty();
}

bool QueueEngine::UsesSlot(uint32_t slot) const {
  MutexLock lock(&mutex_);
  return slot < last_use_.size() && last_use_[slot] > completed_;
}

bool QueueEngine::WaitIdle(Deadline deadline) {
  Await(nullptr);
  Flush();
  const uint64_t until = admitted();
  MutexLock lock(&mutex_);
  while (completed_ < until || !pending_.empty()) {
    if (!changed_.WaitUntil(&mutex_, deadline)) return completed_ >= until && pending_.empty();
  }
  return true;
}

absl::Status QueueEngine::Close() {
  MutexLock closing(&closing_);  // who comes second waits until the queue is gone
  if (closed_) return absl::OkStatus();
  closed_ = true;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  return context_->DestroyQueue(handle_);
}

}  // namespace kcache::backend
