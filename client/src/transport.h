// The library's side of the wire, without the wire: what the session and execution logic need from
// whatever carries them. The gRPC adapters are in grpc_*.{h,cc}; tests bring fakes; a shared-memory
// ring can carry execution later.
//
// Threads: every method from any thread; observers are called from any thread, one call at a time
// for each stream. Ownership: a stream keeps its observer alive until OnClosed, its last call.

#ifndef KCACHE_CLIENT_TRANSPORT_H_
#define KCACHE_CLIENT_TRANSPORT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/v1/execution.pb.h"
#include "kcache/v1/session.pb.h"

namespace kcache::internal {

// ---- session ------------------------------------------------------------------------------------

class SessionStreamObserver {
 public:
  virtual ~SessionStreamObserver() = default;
  virtual void OnMessage(v1::DaemonMessage message) = 0;
  virtual void OnWritten() = 0;
  virtual void OnClosed(absl::Status why) = 0;
};

class SessionStream {
 public:
  virtual ~SessionStream() = default;
  // One at a time: the next one after OnWritten. Does not block.
  virtual void Write(v1::ClientMessage message) = 0;
  // Ends the stream after what has been written. OnClosed follows when the daemon has seen it.
  virtual void Close() = 0;
  // Ends the stream now. OnClosed follows.
  virtual void Abandon() = 0;
};

// ---- execution ----------------------------------------------------------------------------------

class ExecutionObserver {
 public:
  virtual ~ExecutionObserver() = default;
  virtual void OnReply(const v1::ExecutionReply& reply) = 0;
  virtual void OnWritten() = 0;
  virtual void OnClosed(absl::Status why) = 0;
};

class ExecutionTransport {
 public:
  virtual ~ExecutionTransport() = default;
  // `message` is a serialized v1::ExecutionRequest. One at a time: the next one after OnWritten.
  virtual void Write(std::string message) = 0;
  // Ends the stream now, whatever is under way. OnClosed follows.
  virtual void Close() = 0;
};

// ---- blobs --------------------------------------------------------------------------------------

// One blob of an upload; `data` stays valid until the upload is done.
struct BlobPart {
  std::string digest;
  const std::string* data = nullptr;
};

class BlobTransport {
 public:
  virtual ~BlobTransport() = default;
  virtual void Missing(v1::MissingRequest request,
                       std::function<void(absl::StatusOr<v1::MissingReply>)> done) = 0;
  // Sends the blobs in pieces and commits the program.
  virtual void Upload(v1::UploadRequest first, std::vector<BlobPart> blobs,
                      std::function<void(absl::StatusOr<v1::UploadReply>)> done) = 0;
  // The artifact's bytes, whole.
  virtual void Fetch(v1::FetchRequest request,
                     std::function<void(absl::StatusOr<std::string>)> done) = 0;
};

// ---- all of it ----------------------------------------------------------------------------------

class Transport : public BlobTransport {
 public:
  // Connects to the daemon. Failure to do so is told by OnClosed, DAEMON_UNREACHABLE with the
  // socket and why. OnClosed may come before this returns.
  virtual std::shared_ptr<SessionStream> OpenSession(
      std::shared_ptr<SessionStreamObserver> observer) = 0;
  // Connects to a device host ("unix:/…").
  virtual std::shared_ptr<ExecutionTransport> OpenExecution(
      const std::string& target, std::shared_ptr<ExecutionObserver> observer) = 0;
  // Waits until OnClosed of every stream has returned, at most that long. Never in a callback.
  virtual void AwaitEnds(std::chrono::milliseconds patience) = 0;
  // For messages.
  virtual const std::string& socket() const = 0;
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_TRANSPORT_H_
