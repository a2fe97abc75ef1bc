#include "client/src/client_impl.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/src/await.h"
#include "client/src/callback_scope.h"
#include "client/src/convert.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::internal {
namespace {

// How long, and how often, to ask for the context of a host that is known to be gone.
constexpr Duration kBrokenPatience = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kGoodbyePatience{500};
constexpr Duration kBrokenPause = std::chrono::milliseconds(10);

absl::Status Closed() { return MakeError(v1::CANCELLED, "the client was closed"); }

// Canonical bytes of what a caller fills in; empty for the usual nothing.
std::string MemoBytes(const Specialization& specialization) {
  if (specialization.constants.empty() && !specialization.local_size.given()) return {};
  return ToWire(specialization).SerializeAsString();
}

void SetDevice(const DeviceId& device, v1::DeviceRef* ref) {
  ref->set_framework(device.framework);
  ref->set_index(device.index);
}

}  // namespace

ClientImpl::ClientImpl(ClientOptions options, std::shared_ptr<Runtime> runtime)
    : options_(std::move(options)),
      runtime_(std::move(runtime)),
      memo_(std::make_shared<Memo>(options_.memo_capacity)),
      hub_(std::make_shared<InvalidationHub>()),
      counters_(std::make_shared<InvalidationCounters>()) {}

// Close has run, or this is a forked child that must not touch what it inherited.
ClientImpl::~ClientImpl() = default;

void ClientImpl::Connect(std::function<void(absl::Status)> done) {
  const std::weak_ptr<ClientImpl> weak = weak_from_this();
  invalidator_ =
      std::make_shared<Invalidator>(runtime_, memo_, hub_, counters_, options_.slow_listener,
                                    [weak](const absl::Status& problem) {
                                      if (auto self = weak.lock()) self->Problem(problem);
                                    });
  uploader_ =
      std::make_shared<Uploader>(runtime_, [weak](const Digest& program, const absl::Status& why) {
        auto self = weak.lock();
        if (self == nullptr) return;
        // What has a reason is final; else the daemon asks again, or somebody else.
        if (ReasonOf(why) != v1::ERROR_REASON_UNSPECIFIED) {
          self->acquirer_->FailProgram(program, why);
        } else {
          self->Problem(why);
        }
      });
  acquirer_ = std::make_shared<Acquirer>(
      runtime_, memo_, invalidator_, [weak](const v1::Grant& grant, uint64_t asked_order) {
        auto self = weak.lock();
        return self == nullptr ? Closed() : self->Adopt(grant, asked_order);
      });
  session_ = std::make_shared<Session>(SessionOptions{.client_name = options_.name,
                                                      .client_version = "0.1.0",
                                                      .connect_timeout = options_.connect_timeout},
                                       runtime_, this);
  acquirer_->SetSession(session_);
  invalidator_->Start(session_, &contexts_);
  runtime_->executor->Run([self = shared_from_this(), done = std::move(done)] {
    self->session_->Open([self, done](const absl::Status& status) {
      self->UpdateInfo();
      done(status);
    });
  });
}

void ClientImpl::Close() {
  if (closed_.exchange(true)) return;
  memo_->cache().Clear().IgnoreError();
  {
    std::map<std::pair<DeviceId, std::string>, std::shared_ptr<BufferState>> scratch;
    MutexLock lock(&mutex_);
    scratch.swap(scratch_);
    info_.connected = false;
  }
  auto goodbye = std::make_shared<Arrival<bool>>();
  runtime_->executor->Run([self = shared_from_this(), goodbye] {
    self->acquirer_->Stop();
    self->session_->Close([goodbye] { goodbye->Put(true); });
    self->invalidator_->Stop();
    const Invalidator::ContextMap contexts = std::exchange(self->contexts_, {});
    for (const auto& [id, context] : contexts) context->stream->End(Closed());
  });
  if (CallbackScope::active()) return;
  // So that what this process held is given back before it may end, and nothing of the transport's runs
  // any more when it does.
  goodbye->TakeWithin(kGoodbyePatience);
  runtime_->transport->AwaitEnds(kGoodbyePatience);
}

absl::Status ClientImpl::CheckMayWait(bool for_daemon) const {
  if (forked()) return ForkedError();
  if (CallbackScope::active() || hub_->InListener()) {
    return MakeError(v1::BLOCKING_IN_LISTENER,
                     "a call that waits was made inside a listener or callback of the library, "
                     "which would wait for itself; use the asynchronous form, or another thread");
  }
  if (!for_daemon || open_uses_.load(std::memory_order_relaxed) == 0) return absl::OkStatus();
  MutexLock lock(&mutex_);
  if (std::find(uses_.begin(), uses_.end(), std::this_thread::get_id()) == uses_.end()) {
    return absl::OkStatus();
  }
  return MakeError(v1::BLOCKING_IN_LISTENER,
                   "a call that waits for the daemon was made inside a use scope, for whose end a "
                   "teardown may be waiting; close the scope first");
}

// ---- kernels ------------------------------------------------------------------------------------

MemoKey ClientImpl::KeyOf(const KernelRequest& request) {
  return {.program = request.program.empty() ? Digest() : request.program.state()->digest,
          .entry = request.entry,
          .specialization = MemoBytes(request.specialization),
          .device = ToName(request.device),
          .global_id = request.global_id.value_or(0)};
}

absl::StatusOr<Acquirer::Ask> ClientImpl::AskOf(const KernelRequest& request) const {
  if (forked()) return ForkedError();
  if (closed_.load()) return Closed();
  if (request.program.empty()) {
    return MakeError(v1::BAD_REQUEST, "the request has no program");
  }
  if (request.entry.empty()) {
    return MakeError(v1::BAD_REQUEST, "the request names no entry point");
  }
  if (!IsValidUtf8(request.entry)) {
    return MakeError(v1::INVALID_UTF8,
                     absl::StrCat("the entry point's name is not UTF-8: ", Quoted(request.entry)));
  }
  if (absl::Status bad = DeviceName::ValidateFramework(request.device.framework); !bad.ok()) {
    return Annotate(bad, "the request's device");
  }
  Acquirer::Ask ask;
  ask.key = KeyOf(request);
  ask.program = request.program.state();
  ask.timeout = request.timeout.value_or(options_.acquire_timeout);
  v1::Acquire& acquire = ask.acquire;
  acquire.set_program_digest(ask.program->digest.str());
  SetDevice(request.device, acquire.mutable_device());
  acquire.set_entry(request.entry);
  if (!ask.key.specialization.empty()) {
    *acquire.mutable_specialization() = ToWire(request.specialization);
  }
  acquire.set_mode(v1::ACQUIRE_HANDLE);
  acquire.set_priority(static_cast<v1::Priority>(request.priority));
  acquire.set_global_id(request.global_id.value_or(0));
  return ask;
}

std::shared_ptr<KernelState> ClientImpl::FindKernel(const KernelRequest& request) {
  if (request.program.empty()) return nullptr;
  std::optional<std::shared_ptr<KernelState>> found = memo_->cache().Find(KeyOf(request));
  if (!found.has_value()) return nullptr;
  memo_hits_.fetch_add(1, std::memory_order_relaxed);
  return *std::move(found);
}

void ClientImpl::Acquire(const KernelRequest& request, KernelDone done) {
  absl::StatusOr<Acquirer::Ask> ask = AskOf(request);
  if (!ask.ok()) return done(ask.status());
  acquirer_->Start(*std::move(ask), std::move(done));
}

void ClientImpl::AcquireAll(
    std::span<const KernelRequest> requests,
    std::function<void(size_t, absl::StatusOr<std::shared_ptr<KernelState>>)> done) {
  std::vector<absl::StatusOr<Acquirer::Ask>> asks;
  asks.reserve(requests.size());
  for (const KernelRequest& request : requests) asks.push_back(AskOf(request));
  runtime_->executor->Run(
      [self = shared_from_this(), asks = std::move(asks), done = std::move(done)]() mutable {
        for (size_t i = 0; i < asks.size(); ++i) {
          if (!asks[i].ok()) {
            done(i, asks[i].status());
            continue;
          }
          self->acquirer_->Start(*std::move(asks[i]),
                                 [done, i](absl::StatusOr<std::shared_ptr<KernelState>> kernel) {
                                   done(i, std::move(kernel));
                                 });
        }
      });
}

void ClientImpl::ForgetKernels() { memo_->cache().Clear().IgnoreError(); }

absl::StatusOr<std::shared_ptr<KernelState>> ClientImpl::Adopt(const v1::Grant& grant,
                                                               uint64_t asked_order) {
  const auto found = contexts_.find(grant.context_id());
  if (found == contexts_.end()) {
    return MakeError(v1::NOT_READY, absl::StrCat("a lease in context ", grant.context_id(),
                                                 ", which is gone already"));
  }
  ContextState* const context = found->second.get();
  if (!context->stream->ended().ok()) {
    return MakeError(v1::NOT_READY,
                     absl::StrCat("the context on ", context->slot->id().ToString(),
                                  " is gone: ", std::string(context->stream->ended().message())));
  }
  const Lease lease{grant.context_id(), grant.lease().slot(), grant.lease().incarnation()};
  if (const auto released = released_.find(lease); released != released_.end()) {
    if (asked_order < released->second) {
      return MakeError(v1::LEASE_REVOKED, "released meanwhile by this process");
    }
    released_.erase(released);
  }
  // A session has one lease on a handle, however often it asks.
  std::weak_ptr<KernelState>& weak = context->kernels[lease.slot];
  if (auto kernel = weak.lock();
      kernel != nullptr && kernel->gate.lease.incarnation() == lease.incarnation) {
    return kernel;
  }
  auto kernel = std::make_shared<KernelState>(found->second, weak_from_this(), grant);
  weak = kernel;
  return kernel;
}

void ClientImpl::ReleaseLease(std::shared_ptr<ContextState> context, v1::LeaseRef lease) {
  runtime_->executor->Run(
      [self = shared_from_this(), context = std::move(context), lease = std::move(lease)] {
        const auto entry = context->kernels.find(lease.slot());
        if (entry != context->kernels.end()) {
          // Granted again meanwhile: the session's lease goes on.
          if (auto kernel = entry->second.lock();
              kernel != nullptr && kernel->gate.lease.incarnation() == lease.incarnation()) {
            return;
          }
          if (entry->second.expired()) context->kernels.erase(entry);
        }
        if (!self->contexts_.contains(context->id())) return;
        v1::ClientEvent event;
        v1::Release* release = event.mutable_release();
        release->set_context_id(context->id());
        *release->mutable_lease() = lease;
        for (v1::QueuePosition& position : context->stream->SubmitAll()) {
          *release->add_positions() = std::move(position);
        }
        self->SendRelease(std::move(event), {context->id(), lease.slot(), lease.incarnation()});
      });
}

void ClientImpl::SendRelease(v1::ClientEvent release, const Lease& lease) {
  // Only requests that are under way can be older than a release: a bounded memory is enough.
  constexpr size_t kRemembered = 4096;
  if (released_.size() >= kRemembered) released_.clear();
  released_[lease] = session_->Note(std::move(release), Session::Urgency::kSoon);
  releases_.fetch_add(1, std::memory_order_relaxed);
}

void ClientImpl::ReleasePin(const Digest& artifact) {
  runtime_->executor->Run([self = shared_from_this(), artifact] {
    const auto entry = self->artifacts_.find(artifact);
    if (entry != self->artifacts_.end()) {
      if (!entry->second.expired()) return;
      self->artifacts_.erase(entry);
    }
    v1::ClientEvent event;
    event.mutable_release()->set_artifact_key(artifact.str());
    self->released_pins_[artifact.str()] =
        self->session_->Note(std::move(event), Session::Urgency::kSoon);
    self->releases_.fetch_add(1, std::memory_order_relaxed);
  });
}

// ---- artifacts ----------------------------------------------------------------------------------

void ClientImpl::AcquireArtifact(const Program& program, v1::Acquire acquire, DeviceId device,
                                 ArtifactDone done) {
  if (forked()) return done(ForkedError());
  if (closed_.load()) return done(Closed());
  if (program.empty()) {
    return done(MakeError(v1::BAD_REQUEST, "the request has no program"));
  }
  acquire.set_program_digest(program.state()->digest.str());
  acquire.set_mode(v1::ACQUIRE_ARTIFACT);
  std::optional<DeviceName> name;
  if (!device.framework.empty()) name = ToName(device);
  acquirer_->StartPlain(
      acquire, program.state(), name, options_.acquire_timeout,
      [self = shared_from_this(), program, acquire, device, done](absl::StatusOr<v1::Grant> grant) {
        if (!grant.ok()) return done(grant.status());
        if (const auto released = self->released_pins_.find(grant->artifact_key());
            released != self->released_pins_.end()) {
          const bool released_behind = self->session_->answered_order() < released->second;
          self->released_pins_.erase(released);
          // Given back by ourselves behind this request.
          if (released_behind) return self->AcquireArtifact(program, acquire, device, done);
        }
        self->AdoptArtifact(*grant, device, done);
      });
}

void ClientImpl::AdoptArtifact(const v1::Grant& grant, DeviceId device, ArtifactDone done) {
  absl::StatusOr<Digest> key = Digest::FromBytes(grant.artifact_key());
  if (!key.ok()) return done(Annotate(key.status(), "the daemon's grant"));
  std::weak_ptr<ArtifactState>& weak = artifacts_[*key];
  if (auto known = weak.lock(); known != nullptr && !known->revoked) return done(known);
  auto artifact = std::make_shared<ArtifactState>(weak_from_this());
  weak = artifact;
  artifact->key = *key;
  artifact->device = std::move(device);
  artifact->format = grant.artifact().format();
  artifact->architecture = grant.artifact().architecture();
  artifact->build_log = grant.artifact().build_log();
  artifact->origin = FromWire(grant.origin());
  for (const v1::KernelInfo& kernel : grant.artifact().kernels()) {
    artifact->kernels.push_back(FromWire(kernel));
  }
  if (const std::string& file = grant.artifact().file(); !file.empty()) {
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size > 0 &&
        static_cast<uint64_t>(info.st_size) == grant.artifact_bytes()) {
      void* bytes = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (bytes != MAP_FAILED) {
        artifact->mapped = static_cast<const std::byte*>(bytes);
        artifact->mapped_bytes = static_cast<size_t>(info.st_size);
      }
    }
    if (fd >= 0) close(fd);
    if (artifact->mapped != nullptr) return done(std::move(artifact));
  }
  const Session::Credentials& credentials = session_->credentials();
  v1::FetchRequest request;
  request.mutable_credentials()->set_instance(credentials.instance);
  request.mutable_credentials()->set_session_id(credentials.session_id);
  request.mutable_credentials()->set_session_key(credentials.session_key);
  request.set_artifact_key(key->str());
  runtime_->transport->Fetch(std::move(request), [executor = runtime_->executor, artifact,
                                                  done](absl::StatusOr<std::string> bytes) {
    executor->Run([artifact, done, bytes = std::move(bytes)]() mutable {
      if (!bytes.ok()) {
        return done(Annotate(bytes.status(),
                             absl::StrCat("while fetching artifact ", artifact->key.short_hex())));
      }
      artifact->fetched = *std::move(bytes);
      done(artifact);
    });
  });
}

// ---- devices and operations ---------------------------------------------------------------------

void ClientImpl::ListDevices(std::function<void(absl::StatusOr<DeviceList>)> done) {
  runtime_->executor->Run([self = shared_from_this(), done = std::move(done)] {
    v1::ClientEvent event;
    event.mutable_list_devices();
    self->session_->Request(std::move(event), {.timeout = self->options_.request_timeout},
                            [done](absl::StatusOr<v1::DaemonEvent> reply) {
                              if (!reply.ok()) return done(reply.status());
                              done(FromWire(reply->device_list()));
                            });
  });
}

void ClientImpl::Operate(v1::ClientEvent event,
                         std::function<void(absl::StatusOr<OperationReport>)> done) {
  runtime_->executor->Run(
      [self = shared_from_this(), event = std::move(event), done = std::move(done)] {
        // Its id is ours, so that asking again after a break is the same operation.
        self->session_->Request(
            event, {.timeout = std::nullopt, .repeatable = true, .survives_session = false},
            [self, done](absl::StatusOr<v1::DaemonEvent> reply) {
              if (!reply.ok()) return done(reply.status());
              const v1::OperationDone& operation = reply->operation_done();
              OperationReport report;
              report.operation = OperationIdFrom(operation.operation_id());
              report.failures.assign(operation.failures().begin(), operation.failures().end());
              const absl::Status own = FromProto(operation.error());
              // The operation's failure wins over a listener's; either way all is done by now.
              self->invalidator_->WhenTold(operation.operation_id(),
                                           [own, report, done](const absl::Status& listeners) {
                                             if (!own.ok()) return done(own);
                                             if (!listeners.ok()) return done(listeners);
                                             done(report);
                                           });
            });
      });
}

absl::StatusOr<std::shared_ptr<DeviceSlot>> ClientImpl::Slot(const DeviceId& device) {
  if (absl::Status bad = DeviceName::ValidateFramework(device.framework); !bad.ok()) return bad;
  // Variants share their family's context.
  const std::string family(DeviceName{device.framework, device.index}.family());
  MutexLock lock(&mutex_);
  std::shared_ptr<DeviceSlot>& slot = slots_[{family, device.index}];
  if (slot == nullptr) {
    slot = std::make_shared<DeviceSlot>(DeviceId{family, device.index}, weak_from_this());
  }
  return slot;
}

void ClientImpl::Context(const DeviceId& device, ContextDone done) {
  Context(device, runtime_->timers->Now() + kBrokenPatience, std::move(done));
}

void ClientImpl::Context(const DeviceId& device, Time patience, ContextDone done) {
  if (forked()) return done(ForkedError());
  if (closed_.load()) return done(Closed());
  absl::StatusOr<std::shared_ptr<DeviceSlot>> slot = Slot(device);
  if (!slot.ok()) return done(slot.status());
  if (auto context = (*slot)->context();
      context != nullptr && !context->destroying && context->stream->ended().ok()) {
    return done(std::move(context));
  }
  v1::Acquire acquire;
  acquire.set_mode(v1::ACQUIRE_CONTEXT);
  SetDevice((*slot)->id(), acquire.mutable_device());
  acquirer_->StartPlain(
      std::move(acquire), nullptr, ToName((*slot)->id()), options_.acquire_timeout,
      [self = shared_from_this(), device, patience,
       done = std::move(done)](absl::StatusOr<v1::Grant> grant) {
        if (!grant.ok()) return done(grant.status());
        const auto context = self->contexts_.find(grant->context_id());
        if (context != self->contexts_.end() && context->second->stream->ended().ok()) {
          return done(context->second);
        }
        // The daemon has not noticed yet that the host is gone.
        if (self->runtime_->timers->Now() >= patience) {
          return done(MakeError(v1::DEVICE_LOST,
                                absl::StrCat("the context on ", device.ToString(), " is gone")));
        }
        self->runtime_->timers->After(kBrokenPause, [self, device, patience, done] {
          self->runtime_->executor->Run(
              [self, device, patience, done] { self->Context(device, patience, done); });
        });
      });
}

// ---- listeners and use scopes -------------------------------------------------------------------

namespace {

// A registration with the hub that is counted, and may outlive the client.
Registration Counted(std::shared_ptr<Invalidator> invalidator,
                     InvalidationHub::Registration registration) {
  invalidator->listener_count().fetch_add(1);
  auto held = std::make_shared<InvalidationHub::Registration>(std::move(registration));
  return Registration([invalidator = std::move(invalidator), held] {
    held->Unregister();
    invalidator->listener_count().fetch_sub(1);
  });
}

}  // namespace

Registration ClientImpl::OnDeviceDestroy(DeviceListener listener) {
  return Counted(invalidator_, hub_->OnDeviceDestroy(
                                   [listener = std::move(listener)](const v1::Invalidate& event) {
                                     return listener(DeviceEventFrom(event));
                                   }));
}

Registration ClientImpl::OnClearAll(ClearListener listener) {
  return Counted(invalidator_,
                 hub_->OnClearAll([listener = std::move(listener)](const v1::Invalidate& event) {
                   return listener(ClearEventFrom(event));
                 }));
}

Registration ClientImpl::OnAnyInvalidation(
    std::function<absl::Status(const v1::Invalidate&)> listener) {
  // MISSED and COVER go to both kinds; here they are heard as destroys.
  auto destroys =
      std::make_shared<Registration>(Counted(invalidator_, hub_->OnDeviceDestroy(listener)));
  auto clears = std::make_shared<Registration>(Counted(
      invalidator_, hub_->OnClearAll([listener](const v1::Invalidate& event) -> absl::Status {
        if (event.kind() == v1::INVALIDATE_COVER || event.kind() == v1::INVALIDATE_MISSED) {
          return absl::OkStatus();
        }
        return listener(event);
      })));
  return Registration([destroys, clears] {
    destroys->Unregister();
    clears->Unregister();
  });
}

void ClientImpl::OpenedUse() {
  MutexLock lock(&mutex_);
  uses_.push_back(std::this_thread::get_id());
  open_uses_.store(uses_.size(), std::memory_order_relaxed);
}

void ClientImpl::ClosedUse() {
  MutexLock lock(&mutex_);
  const auto use = std::find(uses_.begin(), uses_.end(), std::this_thread::get_id());
  // Closed on another thread than it was opened on: any one goes, so that the count stays right.
  if (use != uses_.end()) {
    uses_.erase(use);
  } else if (!uses_.empty()) {
    uses_.pop_back();
  }
  open_uses_.store(uses_.size(), std::memory_order_relaxed);
}

// ---- scratch ------------------------------------------------------------------------------------

std::shared_ptr<BufferState> ClientImpl::MemoizedScratch(const DeviceId& device,
                                                         const std::string& tag, uint64_t bytes) {
  std::shared_ptr<BufferState> scratch;
  {
    MutexLock lock(&mutex_);
    const auto found = scratch_.find({device, tag});
    if (found == scratch_.end()) return nullptr;
    scratch = found->second;
  }
  const bool usable = scratch->bytes >= bytes && !scratch->context->destroying &&
                      scratch->context->stream->ended().ok();
  return usable ? scratch : nullptr;
}

void ClientImpl::MemoizeScratch(const DeviceId& device, const std::string& tag,
                                std::shared_ptr<BufferState> scratch) {
  MutexLock lock(&mutex_);
  if (closed_.load()) return;
  scratch_[{device, tag}].swap(scratch);
}

// ---- what the daemon says -----------------------------------------------------------------------

void ClientImpl::OnContextInfo(const v1::ContextInfo& info) {
  if (contexts_.contains(info.context().context_id())) return;
  const DeviceId device{info.context().device().framework(), info.context().device().index()};
  absl::StatusOr<std::shared_ptr<DeviceSlot>> slot = Slot(device);
  if (!slot.ok()) return Problem(Annotate(slot.status(), "the daemon named a context's device"));
  ExecutionStream::Target target;
  target.address = info.execution_target();
  target.device = (*slot)->id().ToString();
  target.attach.set_instance(session_->credentials().instance);
  target.attach.set_session_id(session_->credentials().session_id);
  *target.attach.mutable_context() = info.context();
  target.attach.set_token(info.execution_token());
  auto stream = std::make_shared<ExecutionStream>(std::move(target), runtime_);
  auto context = std::make_shared<ContextState>(info.context(), *slot, std::move(stream));
  context->stream->set_on_broken(
      [weak = weak_from_this(), held = std::weak_ptr(context)](const absl::Status& lost) {
        auto broken = held.lock();
        if (broken == nullptr) return;
        const absl::Status why =
            broken->destroying
                ? MakeError(v1::DEVICE_DESTROYED,
                            absl::StrCat(broken->slot->id().ToString(), " was destroyed"))
                : lost;
        broken->stream->End(why);
        auto self = weak.lock();
        if (self == nullptr) return;
        self->runtime_->executor->Run([self, broken, why] { self->OnStreamBroken(broken, why); });
      });
  contexts_[context->id()] = context;
  (*slot)->set_context(context);
}

// The host is gone; the daemon will say so, too. Until then nothing of it is handed out any more.
void ClientImpl::OnStreamBroken(const std::shared_ptr<ContextState>& context,
                                const absl::Status& why) {
  if (closed_.load() || context->destroying) return;
  memo_->cache()
      .EvictDevice(context->slot->id().framework, context->slot->id().index)
      .IgnoreError();
  Problem(why);
}

void ClientImpl::OnInvalidate(const v1::Invalidate& event) { invalidator_->OnInvalidate(event); }

void ClientImpl::OnNeedSource(uint64_t request_id, const std::string&) {
  if (auto program = acquirer_->ProgramOf(request_id)) {
    uploader_->Upload(std::move(program), session_->credentials());
  }
}

// Asked for by somebody who has given up since.
void ClientImpl::OnUnclaimedGrant(const v1::Grant& grant) {
  if (grant.context_id() != 0) {
    if (!grant.has_lease() || grant.lease().slot() == 0) return;  // a context alone
    const auto context = contexts_.find(grant.context_id());
    if (context != contexts_.end()) ReleaseLease(context->second, grant.lease());
  } else if (absl::StatusOr<Digest> key = Digest::FromBytes(grant.artifact_key()); key.ok()) {
    ReleasePin(*key);
  }
}

void ClientImpl::OnResumed() {
  resumes_.fetch_add(1, std::memory_order_relaxed);
  UpdateInfo();
}

void ClientImpl::OnSessionLost(const absl::Status& why) {
  sessions_lost_.fetch_add(1, std::memory_order_relaxed);
  released_.clear();
  released_pins_.clear();
  for (auto& [key, weak] : artifacts_) {
    if (auto artifact = weak.lock()) artifact->revoked = true;
  }
  artifacts_.clear();
  invalidator_->OnSessionLost(why);
}

void ClientImpl::OnProblem(const absl::Status& problem) { Problem(problem); }

void ClientImpl::Problem(const absl::Status& problem) const {
  // A release that crossed a teardown: nothing is wrong.
  if (ReasonOf(problem) == v1::LEASE_UNKNOWN) return;
  if (!options_.on_problem) return;
  CallbackScope scope;
  options_.on_problem(problem);
}

void ClientImpl::UpdateInfo() {
  MutexLock lock(&mutex_);
  info_.instance = ToHex(session_->credentials().instance);
  info_.session_id = session_->credentials().session_id;
  info_.daemon_version = session_->welcome().daemon_version();
  info_.socket = runtime_->transport->socket();
  info_.connected = session_->ready();
}

SessionInfo ClientImpl::session_info() const {
  MutexLock lock(&mutex_);
  return info_;
}

ClientStatistics ClientImpl::statistics() const {
  ClientStatistics statistics;
  statistics.memo_hits = memo_hits_.load();
  statistics.acquires_sent = acquirer_->sent();
  statistics.grants = acquirer_->grants();
  statistics.releases_sent = releases_.load();
  statistics.uploads = uploader_->uploads();
  statistics.invalidations = counters_->steps.load();
  statistics.acks_sent = counters_->acks.load();
  statistics.duplicates_dropped = counters_->duplicates.load();
  statistics.resumes = resumes_.load();
  statistics.sessions_lost = sessions_lost_.load();
  MutexLock lock(&mutex_);
  statistics.launches = 0;
  for (const auto& [key, slot] : slots_) {
    if (auto stream = slot->stream()) statistics.launches += stream->launches();
  }
  return statistics;
}

// ---- the states ---------------------------------------------------------------------------------

void DeviceSlot::set_context(const std::shared_ptr<ContextState>& context) {
  std::shared_ptr<ExecutionStream> stream = context->stream;  // the former one goes without the lock
  MutexLock lock(&mutex_);
  context_ = context;
  stream_.swap(stream);
}

KernelState::KernelState(std::shared_ptr<ContextState> context, std::weak_ptr<ClientImpl> client,
                         const v1::Grant& grant)
    : context(std::move(context)),
      client(std::move(client)),
      info(FromWire(grant.kernel())),
      origin(FromWire(grant.origin())) {
  gate.lease = grant.lease();
}

KernelState::~KernelState() {
  if (context->fork_guard.forked()) return;
  auto owner = client.lock();
  if (owner == nullptr) return;
  // A revoked lease is not released: the daemon knows.
  if (release_when_closed || context->stream->Admits(gate)) {
    owner->ReleaseLease(context, gate.lease);
  }
}

ArtifactState::~ArtifactState() {
  if (mapped != nullptr) munmap(const_cast<std::byte*>(mapped), mapped_bytes);
  if (fork_guard.forked()) return;
  if (auto owner = client.lock()) owner->ReleasePin(key);
}

}  // namespace kcache::internal
