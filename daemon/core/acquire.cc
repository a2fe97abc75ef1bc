#include "daemon/core/acquire.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/core/errors.h"

namespace kcache::core {
namespace {

constexpr int kMaxClearedRetries = 3;
constexpr size_t kMaxUploadAttempts = 8;
constexpr size_t kMaxCachedSpecs = 65536;

bool IsHandle(const v1::Acquire& acquire) { return acquire.mode() == v1::ACQUIRE_HANDLE; }

}  // namespace

void Acquirer::Acquire(Session* session, const v1::Acquire& acquire) {
  const Limits& limits = core_->options.limits;
  if (acquire.request_id() == 0) {
    session->SendFailure(0, BadRequest("Acquire.request_id is 0"));
    return;
  }
  // A resumed client asks again for what it has no answer to; the first one is still under way.
  if (session->requests.contains(acquire.request_id())) return;
  if (session->requests.size() >= limits.max_requests_per_session) {
    session->SendFailure(acquire.request_id(),
                         LimitExceeded("max_requests_per_session", limits.max_requests_per_session,
                                       absl::StrCat(session->requests.size(),
                                                    " requests are outstanding")));
    return;
  }
  auto request = std::make_shared<AcquireRequest>();
  request->session = session;
  request->acquire = acquire;
  session->requests[acquire.request_id()] = request;
  if (core_->shutting_down) {
    Fail(request, MakeError(v1::SHUTTING_DOWN, "the daemon is shutting down"));
    return;
  }
  if (absl::Status bad = Prepare(session, request.get()); !bad.ok()) {
    Fail(request, bad);
    return;
  }
  if (acquire.mode() == v1::ACQUIRE_CONTEXT) {
    WithArtifact(request, nullptr);
  } else if (core_->sources.Shown(session->domain.name, request->program) == nullptr) {
    NeedSource(request);
  } else {
    WithSource(request);
  }
}

// What can be refused at once: fields, devices, states.
absl::Status Acquirer::Prepare(Session* session, AcquireRequest* request) {
  const v1::Acquire& acquire = request->acquire;
  if (acquire.mode() != v1::ACQUIRE_CONTEXT) {
    auto program = Digest::FromBytes(acquire.program_digest());
    if (!program.ok()) return Annotate(program.status(), "Acquire.program_digest");
    request->program = *program;
  }
  if (IsHandle(acquire)) {
    if (acquire.entry().empty()) return BadRequest("Acquire.entry is empty");
    auto specialization = SpecializationBytes(acquire.specialization());
    if (!specialization.ok()) return specialization.status();
    request->specialization = *std::move(specialization);
  }
  if (acquire.has_target()) {
    if (acquire.mode() != v1::ACQUIRE_ARTIFACT) {
      return BadRequest("Acquire.target is for artifacts; a handle or context needs a device");
    }
    return core_->devices.FindCompiler(acquire.target()).status();
  }
  if (acquire.global_id() != 0) {
    auto device = core_->devices.FindByGlobalId(acquire.global_id());
    if (!device.ok()) return device.status();
    request->device = (*device)->name;
  } else if (acquire.has_device()) {
    auto name = DeviceName::FromProto(acquire.device());
    if (!name.ok()) return name.status();
    request->device = *std::move(name);
  } else {
    return BadRequest("Acquire names neither a device nor a target");
  }
  auto device = core_->devices.Find(request->device);
  if (!device.ok()) return device.status();
  if (acquire.mode() == v1::ACQUIRE_ARTIFACT) return absl::OkStatus();  // artifacts have no device
  if (absl::Status usable = DeviceRegistry::CheckUsable(**device); !usable.ok()) return usable;
  auto context = (*device)->contexts.find(session->domain.name);
  if (context != (*device)->contexts.end() &&
      context->second->state() != ContextState::kCreating &&
      context->second->state() != ContextState::kAlive) {
    return MakeError(v1::DEVICE_DRAINING, context->second->Describe() + " is being destroyed");
  }
  return absl::OkStatus();
}

// ---- sources ------------------------------------------------------------------------------------

void Acquirer::NeedSource(const RequestPtr& request) {
  const UploadKey key(request->session->domain.name, request->program);
  Upload& upload = uploads_[key];
  upload.waiting.push_back(request);
  if (upload.uploader == 0) AskUploader(key);
}

// Asks the first waiting session that has not been tried yet.
void Acquirer::AskUploader(const UploadKey& key) {
  Upload& upload = uploads_[key];
  auto untried = std::find_if(
      upload.waiting.begin(), upload.waiting.end(), [&upload](const RequestPtr& request) {
        return std::find(upload.tried.begin(), upload.tried.end(), request->session->id) ==
               upload.tried.end();
      });
  if (untried == upload.waiting.end()) {
    // Everybody has been asked once. The first ones may only have been slow: one more round each,
    // within a bound, so that nobody waits for ever on clients that do not upload.
    if (upload.waiting.empty() || upload.tried.size() >= kMaxUploadAttempts * upload.waiting.size()) {
      std::vector<RequestPtr> waiting = std::move(upload.waiting);
      uploads_.erase(key);
      for (const RequestPtr& request : waiting) {
        core_->deps.events->Emit(
            "source-not-shown",
            absl::StrCat(request->session->Describe(), " of ", key.first, " named program ",
                         key.second.short_hex(), " and did not show its source"),
            {{"program", key.second.hex()},
             {"uid", std::to_string(request->session->peer.uid)},
             {"pid", std::to_string(request->session->peer.pid)}});
        Fail(request, MakeError(v1::NEED_SOURCE,
                                absl::StrCat("nobody uploaded the source of program ",
                                             key.second.short_hex())));
      }
      return;
    }
    untried = upload.waiting.begin() +
              static_cast<std::ptrdiff_t>(upload.tried.size() % upload.waiting.size());
  }
  Session* session = (*untried)->session;
  upload.uploader = session->id;
  upload.tried.push_back(session->id);
  v1::DaemonEvent event;
  event.mutable_need_source()->set_request_id((*untried)->acquire.request_id());
  event.mutable_need_source()->set_program_digest(key.second.str());
  upload.stall = core_->deps.executor->RunAfter(
      core_->options.limits.upload_stall,
      [this, key, id = session->id] { NextUploader(key, id); });
  session->Send(std::move(event));
}

void Acquirer::NextUploader(const UploadKey& key, SessionId failed) {
  auto found = uploads_.find(key);
  if (found == uploads_.end() || found->second.uploader != failed) return;
  core_->deps.executor->Cancel(found->second.stall);
  found->second.uploader = 0;
  if (found->second.waiting.empty()) {
    uploads_.erase(found);
    return;
  }
  AskUploader(key);
}

void Acquirer::UploadProgress(Session* session, const Digest& program) {
  auto found = uploads_.find(UploadKey(session->domain.name, program));
  if (found == uploads_.end() || found->second.uploader != session->id) return;
  core_->deps.executor->Cancel(found->second.stall);
  found->second.stall = core_->deps.executor->RunAfter(
      core_->options.limits.upload_stall,
      [this, key = found->first, id = session->id] { NextUploader(key, id); });
}

void Acquirer::UploadFailed(Session* session, const Digest& program) {
  NextUploader(UploadKey(session->domain.name, program), session->id);
}

void Acquirer::SourceShown(const std::string& domain, const Digest& program) {
  auto found = uploads_.find(UploadKey(domain, program));
  if (found == uploads_.end()) return;
  core_->deps.executor->Cancel(found->second.stall);
  std::vector<RequestPtr> waiting = std::move(found->second.waiting);
  uploads_.erase(found);
  for (const RequestPtr& request : waiting) {
    if (!request->done) WithSource(request);
  }
}

// ---- artifacts ----------------------------------------------------------------------------------

absl::StatusOr<BuildSpec> Acquirer::SpecFor(const v1::Acquire& acquire, const TrustDomain& domain,
                                            const Digest& program, std::string_view language,
                                            DeviceRecord* device) const {
  const bool submitted = IsSubmitted(language);
  BuildSpec spec;
  ArtifactFields fields;
  fields.program = program;
  std::string fingerprint, driver;
  if (device == nullptr) {
    auto compiler = core_->devices.FindCompiler(acquire.target());
    if (!compiler.ok()) return compiler.status();
    spec.framework = acquire.target().framework();
    spec.family = spec.framework.substr(0, spec.framework.find('/'));
    spec.architecture = acquire.target().architecture();
    spec.compiler_version = compiler->compiler_version();
    fingerprint = compiler->compiler_fingerprint();
  } else {
    spec.framework = acquire.has_device() ? acquire.device().framework() : device->name.framework;
    spec.family = device->name.framework;
    spec.architecture = device->info.architecture();
    spec.compiler_version = device->info.compiler_version();
    spec.device_index = device->name.index;
    fingerprint = device->info.compiler_fingerprint();
    driver = device->info.driver_version();
  }
  fields.framework = spec.framework;
  fields.architecture = spec.architecture;
  fields.compiler_fingerprint = fingerprint;
  fields.driver_version = driver;
  const bool private_to_domain =
      !core_->options.share_artifacts ||
      (submitted && !core_->options.trust_submitted_binaries);
  if (private_to_domain) fields.trust_domain = domain.name;
  spec.key = ArtifactKey(fields);
  return spec;
}

absl::StatusOr<const BuildSpec*> Acquirer::CachedSpec(const AcquireRequest& request,
                                                      bool submitted) {
  const Session* session = request.session;
  std::string cache_key = absl::StrCat(
      AbslView(request.program.view()), request.device.index, "/", request.device.framework, "/",
      session->domain.name, "/", request.acquire.target().framework(), "/",
      request.acquire.target().architecture());
  auto cached = specs_.find(cache_key);
  if (cached == specs_.end()) {
    DeviceRecord* device = nullptr;
    if (!request.acquire.has_target()) {
      auto found = core_->devices.Find(request.device);
      if (!found.ok()) return found.status();
      device = *found;
    }
    auto spec = SpecFor(request.acquire, session->domain, request.program,
                        submitted ? "binary" : "", device);
    if (!spec.ok()) return spec.status();
    if (specs_.size() >= kMaxCachedSpecs) specs_.clear();
    cached = specs_.try_emplace(std::move(cache_key), *std::move(spec)).first;
  }
  return &cached->second;
}

bool Acquirer::StillCurrent(AcquireRequest* request) {
  if (request->probes == probes_) return true;
  const auto* shown = core_->sources.Shown(request->session->domain.name, request->program);
  if (shown == nullptr) return false;
  auto spec = CachedSpec(*request, shown->submitted);
  if (!spec.ok() || (*spec)->key != request->artifact) return false;
  request->probes = probes_;
  return true;
}

void Acquirer::WithSource(const RequestPtr& request) {
  Session* session = request->session;
  const auto* shown = core_->sources.Shown(session->domain.name, request->program);
  if (shown == nullptr) {
    NeedSource(request);
    return;
  }
  auto spec = CachedSpec(*request, shown->submitted);
  if (!spec.ok()) return Fail(request, spec.status());
  request->artifact = (*spec)->key;
  request->probes = probes_;
  if (ArtifactPtr ready = core_->deps.artifacts->Peek(request->artifact); ready != nullptr) {
    WithArtifact(request, std::move(ready));
    return;
  }
  request->spec = **spec;
  core_->deps.artifacts->Get(request->artifact, [this, request](ArtifactPtr artifact) {
    if (request->done) return;
    if (!StillCurrent(request.get())) return WithSource(request);
    if (artifact != nullptr) return WithArtifact(request, std::move(artifact));
    request->spec.program = core_->sources.Find(request->program);
    if (request->spec.program == nullptr) return NeedSource(request);
    auto progress = [request](bool) {
      if (request->done) return;
      v1::DaemonEvent event;
      event.mutable_progress()->set_request_id(request->acquire.request_id());
      event.mutable_progress()->set_what("compiling");
      request->session->Send(std::move(event));
    };
    auto build = core_->builds.Build(
        request->spec, request->acquire.priority(), request->session->domain.name, progress,
        [this, request](absl::StatusOr<BuildResult> result) {
          if (request->done) return;
          request->build = 0;
          if (ReasonOf(result.status()) == v1::CLEARED || !StillCurrent(request.get())) {
            return WithSource(request);
          }
          if (!result.ok()) return Fail(request, result.status());
          request->origin = result->joined ? v1::GRANT_JOINED : v1::GRANT_COMPILED;
          request->compile_ms = result->compile_ms;
          WithArtifact(request, result->artifact);
        });
    if (!build.ok()) return Fail(request, build.status());
    request->build = *build;
  });
}

// ---- contexts and handles -----------------------------------------------------------------------

void Acquirer::WithArtifact(const RequestPtr& request, ArtifactPtr artifact) {
  // The driver that it is for may have gone while it was built or its context opened.
  if (artifact != nullptr && !StillCurrent(request.get())) return WithSource(request);
  request->binary = std::move(artifact);
  if (request->acquire.mode() == v1::ACQUIRE_ARTIFACT) return GrantArtifact(request);
  auto device = core_->devices.Find(request->device);
  if (!device.ok()) return Fail(request, device.status());
  auto context = contexts_->Ensure(*device, request->session->domain);
  if (!context.ok()) return Fail(request, context.status());
  if ((*context)->state() == ContextState::kAlive) return WithContext(request, *context);
  (*context)->WhenAlive([this, request](absl::Status alive) {
    if (request->done) return;
    if (!alive.ok()) return Fail(request, alive);
    WithArtifact(request, request->binary);
  });
}

void Acquirer::WithContext(const RequestPtr& request, const std::shared_ptr<Context>& context) {
  if (request->acquire.mode() == v1::ACQUIRE_CONTEXT) return GrantContext(request, context.get());
  HandleFields fields;
  fields.artifact = request->artifact;
  fields.entry = request->acquire.entry();
  fields.specialization = request->specialization;
  fields.device = context->device();
  fields.trust_domain = context->domain().name;
  fields.generation = context->generation();
  request->handle = HandleKey(fields);
  if (Handle* ready = context->FindReady(request->handle); ready != nullptr) {
    return GrantHandle(request, context.get(), ready);
  }
  if (request->origin == v1::GRANT_WARM) request->origin = v1::GRANT_LOADED;
  context->AcquireHandle(
      request->handle, request->binary, request->acquire.entry(),
      request->acquire.specialization(),
      [this, request, context](absl::Status status, Handle* handle) {
        if (request->done) return;
        if (ReasonOf(status) == v1::CLEARED && ++request->cleared < kMaxClearedRetries) {
          return WithSource(request);
        }
        if (!status.ok()) return Fail(request, status);
        GrantHandle(request, context.get(), handle);
      });
}

void Acquirer::Introduce(Session* session, Context* context) {
  if (!session->contexts.insert(context->id()).second) return;
  v1::DaemonEvent event;
  *event.mutable_context_info() = context->IntroductionFor(session->id);
  session->Send(std::move(event));
}

// The one place where a session becomes a holder: state checked, holder registered and grant queued
// in one step.
void Acquirer::GrantHandle(const RequestPtr& request, Context* context, Handle* handle) {
  Session* session = request->session;
  if (context->state() != ContextState::kAlive || handle->state != HandleState::kReady) {
    return Fail(request, MakeError(v1::DEVICE_DRAINING, context->Describe() + " is being destroyed"));
  }
  const Limits& limits = core_->options.limits;
  auto [lease, added] = session->leases.try_emplace(LeaseKey{context->id(), handle->slot});
  if (added) {
    if (session->leases.size() > limits.max_leases_per_session) {
      session->leases.erase(lease);
      return Fail(request, LimitExceeded("max_leases_per_session", limits.max_leases_per_session,
                                         absl::StrCat("this session holds ",
                                                      session->leases.size(), " leases")));
    }
    if (limits.max_leases_per_domain != 0) {
      const uint64_t held = contexts_->LeasesOf(session->domain.name);
      if (held >= limits.max_leases_per_domain) {
        session->leases.erase(lease);
        return Fail(request, LimitExceeded("max_leases_per_domain", limits.max_leases_per_domain,
                                           absl::StrCat(session->domain.name, " holds ", held,
                                                        " leases")));
      }
    }
    handle->holders.insert(session->id);
    context->AddHolder(session->id);
  }
  const absl::Duration now = core_->deps.clock->Now();
  lease->second = {.incarnation = handle->incarnation,
                   .granted_s = static_cast<uint32_t>(absl::ToInt64Seconds(now))};
  handle->last_used = now;
  if (core_->deps.history != nullptr) {
    core_->deps.history->Record("granted", {{"session", session->id},
                                            {"context", context->id()},
                                            {"slot", handle->slot},
                                            {"incarnation", handle->incarnation}});
  }
  Introduce(session, context);

  v1::DaemonEvent event;
  v1::Grant* grant = event.mutable_grant();
  grant->set_context_id(context->id());
  grant->mutable_lease()->set_slot(handle->slot);
  grant->mutable_lease()->set_incarnation(handle->incarnation);
  grant->mutable_lease()->set_mac(
      context->LeaseToken(session->id, handle->slot, handle->incarnation));
  grant->set_artifact_key(handle->artifact.str());
  *grant->mutable_kernel() = handle->kernel;
  if (request->binary != nullptr) grant->set_artifact_bytes(request->binary->bytes);
  switch (request->origin) {
    case v1::GRANT_WARM:
      ++core_->counters.warm_grants;
      break;
    case v1::GRANT_LOADED:
      ++core_->counters.loaded_grants;
      break;
    case v1::GRANT_COMPILED:
      ++core_->counters.compiled_grants;
      break;
    default:
      ++core_->counters.joined_grants;
  }
  Finish(request, std::move(event));
}

void Acquirer::GrantArtifact(const RequestPtr& request) {
  Session* session = request->session;
  const Limits& limits = core_->options.limits;
  if (!session->pins.contains(request->artifact) &&
      session->pins.size() >= limits.max_pins_per_session) {
    return Fail(request, LimitExceeded("max_pins_per_session", limits.max_pins_per_session,
                                       absl::StrCat("this session holds ", session->pins.size(),
                                                    " artifacts")));
  }
  session->pins.insert(request->artifact);
  v1::DaemonEvent event;
  v1::Grant* grant = event.mutable_grant();
  grant->set_artifact_key(request->artifact.str());
  grant->set_artifact_bytes(request->binary->bytes);
  v1::ArtifactSummary* summary = grant->mutable_artifact();
  const v1::Artifact& artifact = request->binary->artifact;
  summary->set_format(artifact.format());
  summary->set_architecture(artifact.architecture());
  summary->set_build_log(artifact.build_log());
  *summary->mutable_kernels() = artifact.kernels();
  summary->set_file(request->binary->file);
  Finish(request, std::move(event));
}

void Acquirer::GrantContext(const RequestPtr& request, Context* context) {
  Introduce(request->session, context);
  context->Touch();
  v1::DaemonEvent event;
  event.mutable_grant()->set_context_id(context->id());
  Finish(request, std::move(event));
}

void Acquirer::Finish(const RequestPtr& request, v1::DaemonEvent event) {
  v1::Grant* grant = event.mutable_grant();
  grant->set_request_id(request->acquire.request_id());
  grant->set_revision(core_->revision);
  grant->set_origin(request->origin);
  grant->set_compile_ms(request->compile_ms);
  Session* session = request->session;
  Drop(request);
  session->Send(std::move(event));
}

void Acquirer::Fail(const RequestPtr& request, const absl::Status& status) {
  if (request->done) return;
  Session* session = request->session;
  const uint64_t id = request->acquire.request_id();
  Drop(request);
  session->SendFailure(id, status);
}

void Acquirer::Drop(const RequestPtr& request) {
  request->done = true;
  if (request->build != 0) core_->builds.Abandon(request->build);
  request->build = 0;
  request->binary = nullptr;
  request->spec.program = nullptr;
  if (request->session != nullptr) request->session->requests.erase(request->acquire.request_id());
}

void Acquirer::CancelRequest(Session* session, uint64_t request_id) {
  auto found = session->requests.find(request_id);
  if (found == session->requests.end()) return;  // answered already; that answer stands
  RequestPtr request = found->second;
  for (auto& [key, upload] : uploads_) std::erase(upload.waiting, request);
  Fail(request, MakeError(v1::CANCELLED, "cancelled by the client"));
  UploadFailed(session, request->program);
}

void Acquirer::SessionEnded(Session* session) {
  std::vector<UploadKey> orphaned;
  for (auto& [key, upload] : uploads_) {
    std::erase_if(upload.waiting,
                  [session](const RequestPtr& request) { return request->session == session; });
    if (upload.uploader == session->id) orphaned.push_back(key);
  }
  for (const UploadKey& key : orphaned) NextUploader(key, session->id);
  auto requests = std::move(session->requests);
  session->requests.clear();
  for (auto& [id, request] : requests) {
    Drop(request);
    request->session = nullptr;
  }
}

// ---- giving back --------------------------------------------------------------------------------

void Acquirer::Release(Session* session, const v1::Release& release) {
  if (release.context_id() == 0) {
    auto key = Digest::FromBytes(release.artifact_key());
    if (key.ok()) session->pins.erase(*key);
    return;
  }
  Context* context = contexts_->Find(release.context_id());
  if (context == nullptr) return;  // released with its context
  context->NotePositions(session->id, release.positions());
  auto lease = session->leases.find(LeaseKey{release.context_id(), release.lease().slot()});
  // Another incarnation: it was revoked, and the slot has been given out again since.
  if (lease == session->leases.end() ||
      lease->second.incarnation != release.lease().incarnation()) {
    return;
  }
  Handle* handle = context->AtSlot(release.lease().slot());
  if (handle != nullptr && handle->incarnation == release.lease().incarnation()) {
    handle->holders.erase(session->id);
    handle->last_used = core_->deps.clock->Now();
  }
  session->leases.erase(lease);
  context->RemoveHolder(session->id);
  if (core_->deps.history != nullptr) {
    core_->deps.history->Record("lease-released", {{"session", session->id},
                                                   {"context", context->id()},
                                                   {"slot", release.lease().slot()},
                                                   {"incarnation", release.lease().incarnation()}});
  }
}

void Acquirer::DropLeases(Context* context,
                          const std::vector<std::pair<uint32_t, uint32_t>>& slots) {
  for (const auto& [slot, incarnation] : slots) {
    Handle* handle = context->AtSlot(slot);
    if (handle == nullptr || handle->incarnation != incarnation) continue;
    for (SessionId id : handle->holders) {
      if (Session* session = core_->sessions.Find(id); session != nullptr) {
        session->leases.erase(LeaseKey{context->id(), slot});
      }
      context->RemoveHolder(id);
    }
    handle->holders.clear();
  }
}

void Acquirer::DropAllLeases(Context* context) {
  std::vector<SessionId> sessions(context->introduced().begin(), context->introduced().end());
  for (const auto& [id, leases] : context->holders()) sessions.push_back(id);
  for (SessionId id : sessions) {
    Session* session = core_->sessions.Find(id);
    if (session == nullptr) continue;
    session->contexts.erase(context->id());
    absl::erase_if(session->leases,
                   [&](const auto& lease) { return lease.first.context == context->id(); });
  }
}

}  // namespace kcache::core
