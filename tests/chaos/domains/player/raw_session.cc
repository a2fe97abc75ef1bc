#include "tests/chaos/domains/player/raw_session.h"

#include "contract/error_reason.h"
#include "contract/grpc_status.h"

namespace kcache::domains {
namespace {

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "kcached");
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

// Why a stream that should have gone on has ended.
absl::Status Ended(const grpc::Status& status) {
  absl::Status why = FromGrpc(status);
  return why.ok() ? absl::UnavailableError("the stream was closed") : why;
}

}  // namespace

RawSession::RawSession(const std::string& socket)
    : channel_(ChannelTo("unix:" + socket)),
      session_(v1::Session::NewStub(channel_)),
      blobs_(v1::Blobs::NewStub(channel_)),
      stream_(session_->Open(&stream_context_)) {}

RawSession::~RawSession() {
  if (finished_) return;
  stream_context_.TryCancel();
  while (stream_->Read(&message_)) {
  }
  stream_->Finish();
}

absl::StatusOr<std::unique_ptr<RawSession>> RawSession::Open(const std::string& socket,
                                                             v1::Hello hello) {
  std::unique_ptr<RawSession> session(new RawSession(socket));
  hello.set_version(v1::PROTOCOL_VERSION_1);
  hello.set_client_name("raw");
  v1::ClientEvent event;
  *event.mutable_hello() = std::move(hello);
  session->Write(std::move(event));
  auto first = session->Next();
  if (!first.ok()) return first.status();
  if (!first->has_welcome()) return absl::InternalError("the first event is no Welcome");
  session->welcome_ = first->welcome();
  return session;
}

bool RawSession::Write(v1::ClientEvent event) {
  v1::ClientMessage message;
  *message.add_events() = std::move(event);
  return stream_->Write(message);
}

// Failures become the status.
absl::StatusOr<v1::DaemonEvent> RawSession::Next() {
  while (next_event_ >= message_.events_size()) {
    next_event_ = 0;
    if (!stream_->Read(&message_)) {
      message_.Clear();
      if (finished_) return absl::UnavailableError("the stream has ended");
      finished_ = true;
      return Ended(stream_->Finish());
    }
  }
  v1::DaemonEvent event = message_.events(next_event_++);
  if (event.has_failure()) return FromProto(event.failure().error());
  return event;
}

absl::StatusOr<v1::Grant> RawSession::Acquire(v1::Acquire acquire,
                                              const v1::ProgramManifest* manifest,
                                              const std::string* source) {
  acquire.set_request_id(++next_request_);
  v1::ClientEvent ask;
  *ask.mutable_acquire() = std::move(acquire);
  Write(std::move(ask));
  for (;;) {
    auto event = Next();
    if (!event.ok()) return event.status();
    if (event->has_context_info()) context_ = event->context_info();
    if (event->has_grant()) return event->grant();
    if (event->has_need_source() && source != nullptr) {
      if (absl::Status sent = Upload(*manifest, *source); !sent.ok()) return sent;
    }
  }
}

v1::BlobCredentials RawSession::credentials() const {
  v1::BlobCredentials credentials;
  credentials.set_instance(welcome_.instance());
  credentials.set_session_id(welcome_.session_id());
  credentials.set_session_key(welcome_.session_key());
  return credentials;
}

absl::Status RawSession::Upload(const v1::ProgramManifest& manifest, const std::string& source) {
  grpc::ClientContext context;
  v1::UploadReply reply;
  auto writer = blobs_->Upload(&context, &reply);
  v1::UploadRequest request;
  *request.mutable_credentials() = credentials();
  *request.mutable_manifest() = manifest;
  writer->Write(request);
  request.Clear();
  request.set_digest(manifest.source_digest());
  request.set_data(source);
  writer->Write(request);
  request.Clear();
  request.set_commit(true);
  writer->Write(request);
  writer->WritesDone();
  return FromGrpc(writer->Finish());
}

absl::Status RawSession::Fetch(const v1::BlobCredentials& credentials,
                               const std::string& artifact_key) {
  grpc::ClientContext context;
  v1::FetchRequest request;
  *request.mutable_credentials() = credentials;
  request.set_artifact_key(artifact_key);
  auto reader = blobs_->Fetch(&context, request);
  v1::FetchReply reply;
  while (reader->Read(&reply)) {
  }
  return FromGrpc(reader->Finish());
}

// ---- execution ----------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<RawExecution>> RawExecution::Attach(
    const std::string& target, const v1::AttachSession& attach) {
  std::unique_ptr<RawExecution> execution(new RawExecution());
  execution->channel_ = ChannelTo(target);
  execution->stub_ = v1::Execution::NewStub(execution->channel_);
  execution->stream_ = execution->stub_->Attach(&execution->context_);
  v1::Command command;
  *command.mutable_attach() = attach;
  execution->Write(std::move(command));
  auto first = execution->Next();
  if (!first.ok()) return first.status();
  if (!first->has_attached()) return absl::InternalError("the first reply is no Attached");
  return execution;
}

RawExecution::~RawExecution() {
  if (finished_) return;
  context_.TryCancel();
  while (stream_->Read(&message_)) {
  }
  stream_->Finish();
}

bool RawExecution::Write(v1::Command command) {
  v1::ExecutionRequest request;
  *request.add_commands() = std::move(command);
  return stream_->Write(request);
}

absl::StatusOr<v1::Reply> RawExecution::Next() {
  while (next_reply_ >= message_.replies_size()) {
    next_reply_ = 0;
    if (!stream_->Read(&message_)) {
      message_.Clear();
      if (finished_) return absl::UnavailableError("the stream has ended");
      finished_ = true;
      return Ended(stream_->Finish());
    }
  }
  return message_.replies(next_reply_++);
}

absl::Status RawExecution::Synchronize() {
  v1::Command command;
  command.mutable_synchronize()->set_request_id(++next_request_);
  command.mutable_synchronize()->set_all_queues(true);
  Write(std::move(command));
  absl::Status first;
  for (;;) {
    auto reply = Next();
    if (!reply.ok()) return reply.status();
    if (reply->has_queue_error()) first.Update(FromProto(reply->queue_error().error()));
    if (reply->has_read_data() && reply->read_data().has_error()) {
      first.Update(FromProto(reply->read_data().error()));
    }
    if (!reply->has_done()) continue;
    if (reply->done().has_error()) first.Update(FromProto(reply->done().error()));
    if (reply->done().request_id() == next_request_) return first;
  }
}

}  // namespace kcache::domains
