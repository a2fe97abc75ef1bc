// Buffer, BufferView, Image and Queue: commands, checked for what can be known here.

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/src/await.h"
#include "client/src/client_impl.h"
#include "client/src/convert.h"
#include "client/src/state.h"
#include "contract/error_reason.h"
#include "kcache/buffer.h"
#include "kcache/image.h"
#include "kcache/queue.h"

namespace kcache {
namespace {

using internal::BufferState;

std::string_view Chars(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Whether a command on `state`'s bytes [offset, offset + bytes) may go to `queue`.
absl::Status Check(const BufferState* state, const Queue& queue, uint64_t offset, uint64_t bytes) {
  if (state == nullptr) return MakeError(v1::UNKNOWN_BUFFER, "the buffer is empty");
  if (state->context->fork_guard.forked()) return internal::ForkedError();
  if (queue.slot() != state->context->slot) {
    return MakeError(v1::UNKNOWN_QUEUE, queue.empty()
                                            ? "the queue is empty"
                                            : absl::StrCat("a queue of ", queue.device().ToString(),
                                                           ", but the buffer is on ",
                                                           state->context->slot->id().ToString()));
  }
  if (offset <= state->bytes && bytes <= state->bytes - offset) return absl::OkStatus();
  return MakeError(
      v1::BUFFER_OUT_OF_RANGE,
      absl::StrCat(bytes, " bytes at offset ", offset, " of a buffer of ", state->bytes, " bytes"));
}

}  // namespace

// ---- buffers ------------------------------------------------------------------------------------

uint64_t Buffer::size() const { return state_ == nullptr ? 0 : state_->bytes; }

DeviceId Buffer::device() const {
  return state_ == nullptr ? DeviceId() : state_->context->slot->id();
}

bool Buffer::fell_back() const { return state_ != nullptr && state_->fell_back; }

absl::Status Buffer::Write(const Queue& queue, uint64_t offset, std::span<const std::byte> bytes) {
  if (absl::Status bad = Check(state_.get(), queue, offset, bytes.size()); !bad.ok()) return bad;
  if (bytes.empty()) return absl::OkStatus();
  return state_->context->stream->Write(queue.number(), state_->id, offset, Chars(bytes));
}

absl::Status Buffer::ReadAsync(const Queue& queue, uint64_t offset, std::span<std::byte> bytes,
                               Done done) const {
  if (absl::Status bad = Check(state_.get(), queue, offset, bytes.size()); !bad.ok()) return bad;
  if (bytes.empty()) {
    queue.SynchronizeAsync(std::move(done));
    return absl::OkStatus();
  }
  return state_->context->stream->Read(queue.number(), state_->id, offset, bytes, std::move(done));
}

absl::Status Buffer::Read(const Queue& queue, uint64_t offset, std::span<std::byte> bytes) const {
  if (absl::Status bad = Check(state_.get(), queue, offset, bytes.size()); !bad.ok()) return bad;
  if (auto client = state_->context->slot->client()) {
    if (absl::Status bad = client->CheckMayWait(/*for_daemon=*/false); !bad.ok()) return bad;
  }
  return internal::Await<absl::Status>([&](std::function<void(absl::Status)> done) {
    if (absl::Status bad = ReadAsync(queue, offset, bytes, done); !bad.ok()) done(bad);
  });
}

absl::Status Buffer::Fill(const Queue& queue, uint64_t offset, uint64_t bytes,
                          std::span<const std::byte> pattern) {
  if (absl::Status bad = Check(state_.get(), queue, offset, bytes); !bad.ok()) return bad;
  const size_t size = pattern.size();
  if ((size != 1 && size != 2 && size != 4 && size != 8 && size != 16) || bytes % size != 0) {
    return MakeError(v1::BAD_REQUEST,
                     absl::StrCat("a fill of ", bytes, " bytes with a pattern of ", size,
                                  "; a pattern has 1, 2, 4, 8 or 16 bytes, and the fill a "
                                  "multiple of that"));
  }
  if (bytes == 0) return absl::OkStatus();
  v1::Command command;
  command.set_queue(queue.number());
  v1::FillBuffer* fill = command.mutable_fill();
  fill->set_buffer(state_->id);
  fill->set_offset(offset);
  fill->set_bytes(bytes);
  fill->set_pattern(std::string(Chars(pattern)));
  return state_->context->stream->Enqueue(command);
}

absl::Status Buffer::CopyFrom(const Queue& queue, uint64_t offset, const Buffer& source,
                              uint64_t source_offset, uint64_t bytes) {
  if (absl::Status bad = Check(state_.get(), queue, offset, bytes); !bad.ok()) return bad;
  if (absl::Status bad = Check(source.state_.get(), queue, source_offset, bytes); !bad.ok()) {
    return Annotate(bad, "the source");
  }
  if (source.state_->context != state_->context) {
    return MakeError(v1::UNKNOWN_BUFFER,
                     "the source was lost with an earlier context of " + device().ToString());
  }
  if (bytes == 0) return absl::OkStatus();
  v1::Command command;
  command.set_queue(queue.number());
  v1::CopyBuffer* copy = command.mutable_copy();
  copy->set_source(source.state_->id);
  copy->set_source_offset(source_offset);
  copy->set_destination(state_->id);
  copy->set_destination_offset(offset);
  copy->set_bytes(bytes);
  return state_->context->stream->Enqueue(command);
}

BufferView Buffer::View() const { return {state_, 0, size()}; }

absl::StatusOr<BufferView> Buffer::View(uint64_t offset, uint64_t bytes) const {
  // On the wire, 0 bytes mean "to the end".
  if (bytes == 0 || offset > size() || bytes > size() - offset) {
    return MakeError(v1::BUFFER_OUT_OF_RANGE,
                     absl::StrCat("a view of ", bytes, " bytes at offset ", offset,
                                  " of a buffer of ", size(), " bytes"));
  }
  return BufferView(state_, offset, bytes);
}

// ---- images -------------------------------------------------------------------------------------

DeviceId Image::device() const {
  return state_ == nullptr ? DeviceId() : state_->context->slot->id();
}

absl::Status Image::CopyFrom(const Queue& queue, Dim3 origin, Dim3 region, const Buffer& source,
                             uint64_t source_offset) {
  return Copy(queue, origin, region, source, source_offset, /*to_buffer=*/false);
}

absl::Status Image::CopyTo(const Queue& queue, Dim3 origin, Dim3 region, const Buffer& destination,
                           uint64_t destination_offset) const {
  return Copy(queue, origin, region, destination, destination_offset, /*to_buffer=*/true);
}

absl::Status Image::Copy(const Queue& queue, Dim3 origin, Dim3 region, const Buffer& buffer,
                         uint64_t buffer_offset, bool to_buffer) const {
  if (absl::Status bad = Check(state_.get(), queue, 0, 0); !bad.ok()) return bad;
  if (absl::Status bad = Check(buffer.state(), queue, buffer_offset, 0); !bad.ok()) return bad;
  if (buffer.state()->context != state_->context) {
    return MakeError(v1::UNKNOWN_BUFFER,
                     "the buffer was lost with an earlier context of " + device().ToString());
  }
  v1::Command command;
  command.set_queue(queue.number());
  v1::CopyImage* copy = command.mutable_copy_image();
  copy->set_image(state_->id);
  copy->set_buffer(buffer.state()->id);
  copy->set_buffer_offset(buffer_offset);
  *copy->mutable_origin() = internal::ToWire(origin);
  *copy->mutable_region() = internal::ToWire(region);
  copy->set_to_buffer(to_buffer);
  return state_->context->stream->Enqueue(command);
}

// ---- queues -------------------------------------------------------------------------------------

DeviceId Queue::device() const { return slot_ == nullptr ? DeviceId() : slot_->id(); }

void Queue::SynchronizeAsync(std::function<void(absl::Status)> done) const {
  if (slot_ == nullptr) return done(MakeError(v1::UNKNOWN_QUEUE, "the queue is empty"));
  if (slot_->forked()) return done(internal::ForkedError());
  const std::shared_ptr<internal::ExecutionStream> stream = slot_->stream();
  if (stream == nullptr) return done(absl::OkStatus());  // nothing was ever queued
  stream->Synchronize(number_, std::move(done));
}

absl::Status Queue::Synchronize() const {
  if (slot_ == nullptr) return MakeError(v1::UNKNOWN_QUEUE, "the queue is empty");
  if (slot_->forked()) return internal::ForkedError();
  if (auto client = slot_->client()) {
    if (absl::Status bad = client->CheckMayWait(/*for_daemon=*/false); !bad.ok()) return bad;
  }
  return internal::Await<absl::Status>(
      [this](std::function<void(absl::Status)> done) { SynchronizeAsync(std::move(done)); });
}

absl::Status Queue::Flush() const {
  if (slot_ == nullptr) return MakeError(v1::UNKNOWN_QUEUE, "the queue is empty");
  if (slot_->forked()) return internal::ForkedError();
  if (auto stream = slot_->stream()) stream->Flush();
  return absl::OkStatus();
}

}  // namespace kcache
