// The protocol without the library, so that a process can say what the library never would.
//
// Threads: one. Blocking.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_PLAYER_RAW_SESSION_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_PLAYER_RAW_SESSION_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kcache/v1/execution.grpc.pb.h"
#include "kcache/v1/session.grpc.pb.h"

namespace kcache::domains {

class RawSession {
 public:
  // Says Hello. A Failure, or the end of the stream, is the answer's status.
  static absl::StatusOr<std::unique_ptr<RawSession>> Open(const std::string& socket,
                                                          v1::Hello hello = {});
  ~RawSession();

  // Sends one Acquire and waits for its answer. Uploads when asked to and `source` is there.
  absl::StatusOr<v1::Grant> Acquire(v1::Acquire acquire, const v1::ProgramManifest* manifest,
                                    const std::string* source);
  absl::Status Fetch(const v1::BlobCredentials& credentials, const std::string& artifact_key);

  const v1::Welcome& welcome() const { return welcome_; }
  v1::BlobCredentials credentials() const;
  // Of the context that this session has last been introduced to.
  const v1::ContextInfo& context() const { return context_; }

 private:
  explicit RawSession(const std::string& socket);
  bool Write(v1::ClientEvent event);
  absl::StatusOr<v1::DaemonEvent> Next();
  absl::Status Upload(const v1::ProgramManifest& manifest, const std::string& source);

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Session::Stub> session_;
  std::unique_ptr<v1::Blobs::Stub> blobs_;
  grpc::ClientContext stream_context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientMessage, v1::DaemonMessage>> stream_;
  v1::DaemonMessage message_;
  int next_event_ = 0;
  bool finished_ = false;
  uint64_t next_request_ = 0;
  v1::Welcome welcome_;
  v1::ContextInfo context_;
};

class RawExecution {
 public:
  static absl::StatusOr<std::unique_ptr<RawExecution>> Attach(const std::string& target,
                                                              const v1::AttachSession& attach);
  ~RawExecution();

  bool Write(v1::Command command);
  // The next reply; the end of the stream is its status.
  absl::StatusOr<v1::Reply> Next();
  // The first failure among what has been sent, and since the last time.
  absl::Status Synchronize();

 private:
  RawExecution() = default;

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Execution::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ExecutionRequest, v1::ExecutionReply>> stream_;
  v1::ExecutionReply message_;
  int next_reply_ = 0;
  bool finished_ = false;
  uint64_t next_request_ = 1000;
};

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_PLAYER_RAW_SESSION_H_
