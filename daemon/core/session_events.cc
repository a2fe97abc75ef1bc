// What clients say on their session streams, and on the blob RPCs beside them.

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"
#include "daemon/core/errors.h"
#include "daemon/core/service_impl.h"

namespace kcache::core {
namespace {

// What a client names an operation of its own by.
absl::Status CheckOperationId(const std::string& id) {
  constexpr size_t kBytes = 16;
  if (id.empty() || id.size() == kBytes) return absl::OkStatus();
  return BadRequest(
      absl::StrCat("operation_id has ", id.size(), " bytes; it has ", kBytes, ", or none"));
}

}  // namespace

Session* SessionStreamImpl::session() {
  if (session_id_ == 0) return nullptr;
  Session* session = service_->core_.sessions.Find(session_id_);
  return session != nullptr && session->endpoint == endpoint_ ? session : nullptr;
}

void SessionStreamImpl::Refuse(const absl::Status& why) {
  refused_ = true;
  v1::Failure* failure = last_words_.add_events()->mutable_failure();
  *failure->mutable_error() = ToProto(why);
  endpoint_->Wake();
  endpoint_->Close(why);
}

bool SessionStreamImpl::TakeOutgoing(size_t max_bytes, v1::DaemonMessage* message) {
  if (refused_) {
    if (last_words_.events().empty()) return false;
    message->Swap(&last_words_);
    return true;
  }
  Session* bound = session();
  if (bound == nullptr) return false;
  if (bound->outbox.Take(max_bytes, message)) return true;
  bound->wake_pending = false;
  return false;
}

void SessionStreamImpl::OnMessage(const v1::ClientMessage& message) {
  for (const v1::ClientEvent& event : message.events()) {
    if (refused_) return;
    if (session_id_ == 0) {
      if (!event.has_hello()) {
        Refuse(BadRequest("the first event of a session stream must be Hello"));
        return;
      }
      service_->OnHello(this, event.hello());
      continue;
    }
    Session* bound = session();
    if (bound == nullptr) return;  // moved to another stream, or ended
    bound->last_heard = service_->core_.deps.clock->Now();
    service_->OnEvent(bound, event);
  }
}

void ServiceImpl::OnHello(SessionStreamImpl* stream, const v1::Hello& hello) {
  if (hello.version() != v1::PROTOCOL_VERSION_1) {
    stream->Refuse(MakeError(v1::UNSUPPORTED_PROTOCOL_VERSION,
                             absl::StrCat("protocol version ", static_cast<int>(hello.version()),
                                          "; this daemon speaks ",
                                          static_cast<int>(v1::PROTOCOL_VERSION_1))));
    return;
  }
  if (core_.shutting_down) {
    stream->Refuse(MakeError(v1::SHUTTING_DOWN, "the daemon is shutting down"));
    return;
  }
  if (hello.client_name().size() > core_.options.limits.max_client_name_bytes) {
    stream->Refuse(LimitExceeded("max_client_name_bytes",
                                 core_.options.limits.max_client_name_bytes,
                                 absl::StrCat("the client's name has ", hello.client_name().size(),
                                              " bytes")));
    return;
  }
  Session* session = nullptr;
  bool resumed = false;
  if (hello.session_id() != 0 && hello.instance() == core_.instance) {
    auto known = core_.sessions.Authenticate(stream->peer(), hello.session_id(),
                                             hello.session_key());
    if (known.ok()) {
      session = *known;
      resumed = true;
    } else if (ReasonOf(known.status()) == v1::PERMISSION_DENIED) {
      stream->Refuse(known.status());
      return;
    }
    // Unknown: reaped meanwhile. It gets a new one, and Welcome says that the old is void.
  }
  if (session == nullptr) {
    auto created = core_.sessions.Create(stream->peer(), hello.client_name());
    if (!created.ok()) {
      stream->Refuse(created.status());
      return;
    }
    session = *created;
    core_.deps.events->Emit("session-opened", session->Describe(),
                            {{"session", std::to_string(session->id)},
                             {"uid", std::to_string(session->peer.uid)},
                             {"pid", std::to_string(session->peer.pid)},
                             {"domain", session->domain.name}});
  }
  if (session->endpoint != nullptr) {
    // The old stream is dead at the other end, but has not been noticed here yet.
    session->endpoint->Close(MakeError(v1::CONNECTION_LOST, "resumed on another stream"));
  }
  stream->Bind(session->id);
  session->endpoint = stream->endpoint();
  session->close_pending = session->wake_pending = false;
  session->last_heard = core_.deps.clock->Now();
  v1::DaemonEvent event;
  v1::Welcome* welcome = event.mutable_welcome();
  welcome->set_version(v1::PROTOCOL_VERSION_1);
  welcome->set_instance(core_.instance);
  welcome->set_session_id(session->id);
  welcome->set_session_key(session->key);
  welcome->set_resumed(resumed);
  welcome->set_ttl_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(core_.options.limits.session_ttl)));
  welcome->set_revision(core_.revision);
  welcome->set_daemon_version(core_.options.version);
  welcome->set_max_message_bytes(core_.options.limits.max_message_bytes);
  welcome->set_max_source_bytes(core_.options.limits.max_source_bytes);
  if (resumed) {
    // Welcome first, then what the client has missed, in order.
    session->outbox.Resume(hello.last_revision());
    session->outbox.PushFront(std::move(event));
    session->wake_pending = true;
    session->endpoint->Wake();
  } else {
    session->Send(std::move(event));
  }
}

void ServiceImpl::OnEvent(Session* session, const v1::ClientEvent& event) {
  switch (event.event_case()) {
    case v1::ClientEvent::kAcquire:
      return acquirer_.Acquire(session, event.acquire());
    case v1::ClientEvent::kRelease:
      return acquirer_.Release(session, event.release());
    case v1::ClientEvent::kRenew: {
      session->outbox.Confirm(event.renew().last_revision());
      v1::DaemonEvent answer;
      answer.mutable_renewed()->set_sequence(event.renew().sequence());
      return session->Send(std::move(answer));
    }
    case v1::ClientEvent::kAck:
      return teardowns_.OnAck(session, event.ack());
    case v1::ClientEvent::kNack:
      return teardowns_.OnNack(session, event.nack());
    case v1::ClientEvent::kSubscribe:
      session->subscribed = true;
      if (core_.deps.history != nullptr) {
        core_.deps.history->Record("subscribed", {{"session", session->id}});
      }
      session->families.assign(event.subscribe().families().begin(),
                               event.subscribe().families().end());
      return;
    case v1::ClientEvent::kClear:
      return OnClear(session, event.clear());
    case v1::ClientEvent::kDestroyDevice:
      return OnDestroyDevice(session, event.destroy_device());
    case v1::ClientEvent::kListDevices:
      return OnListDevices(session, event.list_devices());
    case v1::ClientEvent::kCancel:
      return acquirer_.CancelRequest(session, event.cancel().request_id());
    case v1::ClientEvent::kGoodbye: {
      SessionEndpoint* endpoint = session->endpoint;
      core_.sessions.End(session, "said goodbye");
      if (endpoint != nullptr) endpoint->Close(absl::OkStatus());
      return;
    }
    case v1::ClientEvent::kHello:
      return session->SendFailure(0, BadRequest("a second Hello on one stream"));
    case v1::ClientEvent::EVENT_NOT_SET:
      return;  // of a newer client
  }
}

void ServiceImpl::AnswerOperation(Session* session, uint64_t request_id,
                                  const OperationPtr& operation) {
  operations_.Watch(operation, [this, id = session->id, request_id](
                                   const v1::OperationUpdate& update) {
    if (!update.has_result()) return;
    Session* asker = core_.sessions.Find(id);
    if (asker == nullptr) return;
    v1::DaemonEvent event;
    v1::OperationDone* done = event.mutable_operation_done();
    done->set_request_id(request_id);
    done->set_operation_id(update.operation_id());
    if (update.result().has_error()) *done->mutable_error() = update.result().error();
    *done->mutable_failures() = update.result().failures();
    asker->Send(std::move(event));
  });
}

void ServiceImpl::OnClear(Session* session, const v1::ClearRequest& request) {
  if (request.artifacts()) {
    return session->SendFailure(
        request.request_id(),
        MakeError(v1::PERMISSION_DENIED,
                  "artifacts are the node's, not a session's; an operator clears them: kcachectl "
                  "clear --artifacts"));
  }
  if (request.has_index() && request.family().empty()) {
    return session->SendFailure(
        request.request_id(),
        BadRequest(absl::StrCat("clear of index ", request.index(), " names no family")));
  }
  // A clear that an operation has caused, here or in another process, is part of that operation:
  // everybody has been told.
  if (OperationPtr outer = operations_.Find(request.operation_id()); outer != nullptr) {
    return AnswerOperation(session, request.request_id(), outer);
  }
  if (absl::Status bad = CheckOperationId(request.operation_id()); !bad.ok()) {
    return session->SendFailure(request.request_id(), bad);
  }
  std::optional<uint32_t> index;
  if (request.has_index()) index = request.index();
  OperationPtr operation = operations_.Create(
      request.operation_id(), "clear",
      absl::StrCat(request.family().empty() ? "all" : request.family(), " of ",
                   session->domain.name),
      session->peer, absl::StrCat("session of ", session->Describe()));
  AnswerOperation(session, request.request_id(), operation);
  teardowns_.Clear(operation, {.family = request.family(),
                               .index = index,
                               .domain = session->domain.name,
                               .artifacts = false,
                               .grace = teardowns_.Grace(request.grace_ms()),
                               .initiator = session->id});
}

void ServiceImpl::OnDestroyDevice(Session* session, const v1::DestroyDeviceRequest& request) {
  auto name = DeviceName::FromProto(request.device());
  if (!name.ok()) return session->SendFailure(request.request_id(), name.status());
  auto device = core_.devices.Find(*name);
  if (!device.ok()) return session->SendFailure(request.request_id(), device.status());
  if (OperationPtr outer = operations_.Find(request.operation_id()); outer != nullptr) {
    return AnswerOperation(session, request.request_id(), outer);
  }
  if (absl::Status bad = CheckOperationId(request.operation_id()); !bad.ok()) {
    return session->SendFailure(request.request_id(), bad);
  }
  // The asker's id, so that asking again after a break is the same operation.
  OperationPtr operation = operations_.Create(
      request.operation_id(), "destroy-device", absl::StrCat(name->ToString(), " of ", session->domain.name),
      session->peer, absl::StrCat("session of ", session->Describe()));
  AnswerOperation(session, request.request_id(), operation);
  teardowns_.Destroy(operation, {.devices = {*device},
                                 .domain = session->domain.name,
                                 .grace = teardowns_.Grace(request.grace_ms()),
                                 .reason = absl::StrCat("destroyed by ", session->Describe()),
                                 .initiator = session->id});
}

void ServiceImpl::OnListDevices(Session* session, const v1::ListDevicesRequest& request) {
  v1::DaemonEvent event;
  v1::DeviceList* list = event.mutable_device_list();
  list->set_request_id(request.request_id());
  for (DeviceRecord* device : core_.devices.All()) *list->add_devices() = device->info;
  for (const auto& [family, reason] : core_.devices.unavailable()) {
    v1::UnavailableFamily* away = list->add_unavailable();
    away->set_family(family);
    away->set_reason(reason);
  }
  session->Send(std::move(event));
}

// ---- blobs --------------------------------------------------------------------------------------

absl::StatusOr<Session*> ServiceImpl::SessionOf(const Peer& peer,
                                                const v1::BlobCredentials& credentials) {
  if (credentials.instance() != core_.instance) {
    return MakeError(v1::WRONG_INSTANCE, "these credentials are of another daemon process");
  }
  return core_.sessions.Authenticate(peer, credentials.session_id(), credentials.session_key());
}

absl::StatusOr<v1::MissingReply> ServiceImpl::Missing(const Peer& peer,
                                                      const v1::MissingRequest& request) {
  auto session = SessionOf(peer, request.credentials());
  if (!session.ok()) return session.status();
  auto missing = core_.sources.Missing((*session)->domain.name, request.manifest());
  if (!missing.ok()) return missing.status();
  v1::MissingReply reply;
  for (const Digest& digest : *missing) reply.add_digests(digest.str());
  return reply;
}

absl::Status ServiceImpl::AddBlob(const Peer& peer, const v1::BlobCredentials& credentials,
                                  const Digest& digest, std::string content) {
  auto session = SessionOf(peer, credentials);
  if (!session.ok()) return session.status();
  return core_.sources.AddBlob((*session)->domain.name, digest, std::move(content));
}

void ServiceImpl::UploadProgress(const v1::BlobCredentials& credentials, const Digest& program) {
  Session* session = core_.sessions.Find(credentials.session_id());
  if (session != nullptr) acquirer_.UploadProgress(session, program);
}

absl::StatusOr<v1::UploadReply> ServiceImpl::CommitProgram(const Peer& peer,
                                                           const v1::BlobCredentials& credentials,
                                                           const v1::ProgramManifest& manifest) {
  auto session = SessionOf(peer, credentials);
  if (!session.ok()) return session.status();
  const std::string domain = (*session)->domain.name;
  auto program = core_.sources.Commit(domain, manifest);
  if (!program.ok()) {
    if (auto digest = ProgramDigest(manifest); digest.ok()) {
      acquirer_.UploadFailed(*session, *digest);
    }
    return program.status();
  }
  acquirer_.SourceShown(domain, (*program)->digest);
  v1::UploadReply reply;
  reply.set_program_digest((*program)->digest.str());
  return reply;
}

absl::StatusOr<ArtifactPtr> ServiceImpl::Fetch(const Peer& peer, const v1::FetchRequest& request) {
  auto session = SessionOf(peer, request.credentials());
  if (!session.ok()) return session.status();
  auto key = Digest::FromBytes(request.artifact_key());
  if (!key.ok()) return key.status();
  // A digest alone opens nothing: the session must have been granted it.
  if (!(*session)->pins.contains(*key)) {
    core_.deps.events->Emit("foreign-artifact",
                            absl::StrCat((*session)->Describe(), " of ", (*session)->domain.name,
                                         " asked for artifact ", key->short_hex(),
                                         ", which it has not been granted"),
                            {{"artifact", key->hex()},
                             {"uid", std::to_string(peer.uid)},
                             {"pid", std::to_string(peer.pid)}});
    return MakeError(v1::PERMISSION_DENIED,
                     absl::StrCat("this session holds no artifact ", key->short_hex()));
  }
  ArtifactPtr artifact = core_.deps.artifacts->Peek(*key);
  if (artifact == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, v1::CLEARED,
                     absl::StrCat("artifact ", key->short_hex(),
                                  " has been cleared or evicted; acquire it again"));
  }
  return artifact;
}

}  // namespace kcache::core
