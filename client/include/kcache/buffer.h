// Device memory.
//
// Threads: every method from any thread. Ownership: a Buffer owns its memory; destroying it
// releases the memory after what was queued before has run. It may outlive the Client object.
// A destroy of its device, or the loss of its context, takes the
// memory away: what is queued on it afterwards fails with DEVICE_DESTROYED or DEVICE_LOST.
//
// Units: bytes. Commands on one queue run in order; errors of the device surface at
// Queue::Synchronize, errors the library can see at once are answered at once.

#ifndef KCACHE_BUFFER_H_
#define KCACHE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/device.h"
#include "kcache/queue.h"

namespace kcache {

namespace internal {
class BufferState;
}

// A part of a buffer, as a kernel argument. Keeps the memory alive.
class BufferView {
 public:
  BufferView() = default;

  uint64_t offset() const { return offset_; }
  uint64_t bytes() const { return bytes_; }

  const internal::BufferState* state() const { return state_.get(); }

 private:
  friend class Buffer;
  BufferView(std::shared_ptr<internal::BufferState> state, uint64_t offset, uint64_t bytes)
      : state_(std::move(state)), offset_(offset), bytes_(bytes) {}

  std::shared_ptr<internal::BufferState> state_;
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
};

class Buffer {
 public:
  using Done = std::function<void(absl::Status)>;

  Buffer() = default;  // no memory; using it is an UNKNOWN_BUFFER
  ~Buffer() = default;
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  bool empty() const { return state_ == nullptr; }
  uint64_t size() const;
  DeviceId device() const;

  // Whether the device's own memory was full, and host-visible memory was taken instead.
  bool fell_back() const;

  // Queues a write; the bytes are copied before it returns. Blocks only while too many commands are
  // in flight.
  absl::Status Write(const Queue& queue, uint64_t offset, std::span<const std::byte> bytes);

  // Waits for what is on the queue, then fills `bytes`. The first failure of the queue is answered.
  absl::Status Read(const Queue& queue, uint64_t offset, std::span<std::byte> bytes) const;

  // `bytes` must stay valid until `done`, which runs on a thread of the library and must not block.
  // `done` runs exactly once, unless ReadAsync itself fails.
  absl::Status ReadAsync(const Queue& queue, uint64_t offset, std::span<std::byte> bytes,
                         Done done) const;

  // `pattern` has 1, 2, 4, 8 or 16 bytes, `bytes` is a multiple of that.
  absl::Status Fill(const Queue& queue, uint64_t offset, uint64_t bytes,
                    std::span<const std::byte> pattern);

  absl::Status CopyFrom(const Queue& queue, uint64_t offset, const Buffer& source,
                        uint64_t source_offset, uint64_t bytes);

  // The whole buffer, or a part: BUFFER_OUT_OF_RANGE when it does not fit.
  BufferView View() const;
  absl::StatusOr<BufferView> View(uint64_t offset, uint64_t bytes) const;

  // The same for arrays of plain values.
  template <class T>
  absl::Status Write(const Queue& queue, const std::vector<T>& values) {
    return Write(queue, 0, std::as_bytes(std::span(values)));
  }
  template <class T>
  absl::Status Read(const Queue& queue, std::vector<T>* values) const {
    return Read(queue, 0, std::as_writable_bytes(std::span(*values)));
  }

  const internal::BufferState* state() const { return state_.get(); }

 private:
  friend class Client;
  explicit Buffer(std::shared_ptr<internal::BufferState> state) : state_(std::move(state)) {}

  std::shared_ptr<internal::BufferState> state_;
};

}  // namespace kcache

#endif  // KCACHE_BUFFER_H_
