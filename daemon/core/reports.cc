// What operators see: status, devices, kernels, artifacts, leases, sessions, refusals, explanations.

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"
#include "daemon/core/service_impl.h"

namespace kcache::core {
namespace {

uint64_t Milliseconds(absl::Duration duration) {
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(duration));
}

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

bool InScope(const Context& context, const v1::ListRequest& request) {
  std::optional<uint32_t> index;
  if (request.has_index()) index = request.index();
  return context.device().InScope(request.family(), index);
}

void Summarize(const Context& context, v1::ContextSummary* summary) {
  *summary->mutable_context() = context.ref();
  summary->set_domain(context.domain().name);
  summary->set_state(std::string(Name(context.state())));
  if (context.host() != nullptr) summary->set_host_pid(context.host()->pid());
  if (context.stuck()) {
    summary->set_reason("STUCK: its process has not gone since it was killed");
  } else if (context.state() == ContextState::kLost) {
    summary->set_reason(absl::StrCat("its process is ending; ",
                                     AbslView(StdView(context.loss().message()))));
  }
  // Of a LOST context nobody holds anything.
  if (context.state() != ContextState::kLost) summary->set_leases(context.leases());
  summary->set_handles(context.handles().live());
  summary->set_device_bytes(context.usage().device_bytes());
  summary->set_buffers(context.usage().buffers());
  summary->set_launches(context.usage().launches());
}

std::string Value(const v1::Define& define) {
  return define.has_value() ? absl::StrCat("\"", define.value(), "\"") : "(no value)";
}

// Every field in which `cached` differs from `asked`, for people.
void Differences(const v1::ProgramManifest& asked, const v1::ProgramManifest& cached,
                 v1::ExplainReply* reply) {
  if (asked.source_digest() != cached.source_digest()) {
    reply->add_differences(absl::StrCat("source: ", ToHex(asked.source_digest()).substr(0, 12),
                                        ", cached ", ToHex(cached.source_digest()).substr(0, 12)));
  }
  auto header_of = [](const v1::ProgramManifest& manifest, const std::string& name) {
    for (const v1::HeaderRef& header : manifest.headers()) {
      if (header.name() == name) return &header;
    }
    return static_cast<const v1::HeaderRef*>(nullptr);
  };
  for (const v1::HeaderRef& header : asked.headers()) {
    const v1::HeaderRef* other = header_of(cached, header.name());
    if (other == nullptr) {
      reply->add_differences(absl::StrCat("header ", header.name(), ": not in the cached one"));
    } else if (other->digest() != header.digest()) {
      reply->add_differences(absl::StrCat("header ", header.name(), ": another content"));
    }
  }
  for (const v1::HeaderRef& header : cached.headers()) {
    if (header_of(asked, header.name()) == nullptr) {
      reply->add_differences(absl::StrCat("header ", header.name(), ": only in the cached one"));
    }
  }
  auto define_of = [](const v1::ProgramManifest& manifest, const std::string& name) {
    for (const v1::Define& define : manifest.defines()) {
      if (define.name() == name) return &define;
    }
    return static_cast<const v1::Define*>(nullptr);
  };
  for (const v1::Define& define : asked.defines()) {
    const v1::Define* other = define_of(cached, define.name());
    if (other == nullptr) {
      reply->add_differences(absl::StrCat("define ", define.name(), ": not in the cached one"));
    } else if (Value(*other) != Value(define)) {
      reply->add_differences(absl::StrCat("define ", define.name(), ": ", Value(define),
                                          ", cached ", Value(*other)));
    }
  }
  for (const v1::Define& define : cached.defines()) {
    if (define_of(asked, define.name()) == nullptr) {
      reply->add_differences(absl::StrCat("define ", define.name(), ": only in the cached one"));
    }
  }
  auto list = [reply](std::string_view what, const auto& mine, const auto& theirs) {
    for (int i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
      const std::string a = i < mine.size() ? mine.Get(i) : "(none)";
      const std::string b = i < theirs.size() ? theirs.Get(i) : "(none)";
      if (a != b) {
        reply->add_differences(absl::StrCat(AbslView(what), "[", i, "]: ", a, ", cached ", b));
      }
    }
  };
  list("flags", asked.flags(), cached.flags());
  list("name_expressions", asked.name_expressions(), cached.name_expressions());
}

}  // namespace

v1::StatusReply ServiceImpl::Status() {
  v1::StatusReply status;
  status.set_version(core_.options.version);
  status.set_instance(core_.instance);
  status.set_uptime_ms(Milliseconds(core_.deps.clock->Now() - started_));
  status.set_revision(core_.revision);
  status.set_sessions(core_.sessions.size());
  status.set_leases(core_.sessions.leases());
  uint64_t handles = 0;
  uint64_t late = 0;
  contexts_.ForEach([&](Context& context) {
    handles += context.handles().live();
    late += context.usage().jit_in_host();
  });
  status.set_handles(handles);
  status.set_artifacts(core_.deps.artifacts->count());
  status.set_artifact_bytes(core_.deps.artifacts->bytes());
  status.set_contexts(contexts_.size());
  const BuildCounters& builds = core_.builds.counters();
  status.set_compiles(builds.compiles);
  status.set_compile_failures(builds.failures);
  status.set_compiles_running(core_.builds.running());
  status.set_compiles_queued(core_.builds.queued());
  status.set_warm_grants(core_.counters.warm_grants);
  status.set_loads(core_.handle_counters.loads);
  status.set_jit_in_host(core_.handle_counters.jit_in_host + late);
  status.set_worker_crashes(builds.crashes);
  status.set_host_crashes(core_.counters.host_crashes);
  status.set_handles_built(core_.handle_counters.built);
  status.set_handles_destroyed(core_.handle_counters.destroyed);
  status.set_resident_bytes(ResidentBytes());
  status.set_state(core_.shutting_down ? "draining" : core_.serving ? "serving" : "starting");
  for (const auto& [family, reason] : core_.devices.unavailable()) {
    v1::UnavailableBackend* away = status.add_unavailable();
    away->set_family(family);
    away->set_reason(reason);
  }
  return status;
}

v1::AdminDeviceList ServiceImpl::Devices(const v1::ListRequest& request) {
  v1::AdminDeviceList list;
  std::optional<uint32_t> index;
  if (request.has_index()) index = request.index();
  for (DeviceRecord* device : core_.devices.InScope(request.family(), index)) {
    v1::AdminDevice* entry = list.add_devices();
    *entry->mutable_info() = device->info;
    entry->set_physical_id(device->physical());
    for (const auto& context : device->exiting) Summarize(*context, entry->add_contexts());
    for (const auto& [domain, context] : device->contexts) {
      Summarize(*context, entry->add_contexts());
    }
    for (const auto& [domain, history] : device->history) {
      if (!history.on_hold) continue;
      v1::ContextSummary* summary = entry->add_contexts();
      *summary->mutable_context()->mutable_device() = device->name.ToProto();
      summary->set_domain(domain);
      summary->set_state("ON_HOLD");
      summary->set_reason(history.hold_reason);
    }
  }
  for (const auto& [family, reason] : core_.devices.unavailable()) {
    if (!request.family().empty() && request.family() != family) continue;
    v1::UnavailableBackend* away = list.add_unavailable();
    away->set_family(family);
    away->set_reason(reason);
  }
  return list;
}

v1::KernelList ServiceImpl::Kernels(const v1::ListRequest& request) {
  v1::KernelList list;
  contexts_.ForEach([&](Context& context) {
    if (!InScope(context, request)) return;
    context.handles().ForEach([&](const Handle& handle) {
      v1::KernelSummary* summary = list.add_kernels();
      summary->set_entry(handle.kernel.entry());
      summary->set_artifact_key(handle.artifact.str());
      summary->set_program_digest(handle.program.str());
      *summary->mutable_context() = context.ref();
      summary->set_domain(context.domain().name);
      summary->set_slot(handle.slot);
      summary->set_leases(handle.holders.size());
      summary->set_architecture(handle.architecture);
    });
  });
  return list;
}

v1::ArtifactList ServiceImpl::Artifacts(const v1::ListRequest& request) {
  v1::ArtifactList list;
  absl::flat_hash_map<Digest, uint32_t> pins;
  core_.sessions.ForEach([&](Session& session) {
    for (const Digest& pin : session.pins) ++pins[pin];
  });
  for (const ArtifactPtr& artifact : core_.deps.artifacts->List()) {
    const std::string family = artifact->framework.substr(0, artifact->framework.find('/'));
    if (!request.family().empty() && request.family() != family) continue;
    v1::ArtifactInfo* info = list.add_artifacts();
    info->set_artifact_key(artifact->key.str());
    info->set_program_digest(artifact->program.str());
    info->set_framework(artifact->framework);
    info->set_architecture(artifact->artifact.architecture());
    info->set_compiler_version(artifact->compiler_version);
    info->set_bytes(artifact->bytes);
    info->set_compile_ms(artifact->artifact.compile_ms());
    info->set_kernels(static_cast<uint32_t>(artifact->artifact.kernels_size()));
    info->set_pins(pins[artifact->key]);
  }
  return list;
}

v1::LeaseList ServiceImpl::Leases(const v1::ListRequest& request) {
  v1::LeaseList list;
  const absl::Duration now = core_.deps.clock->Now();
  core_.sessions.ForEach([&](Session& session) {
    for (const auto& [key, lease] : session.leases) {
      Context* context = contexts_.Find(key.context);
      if (context == nullptr || !InScope(*context, request)) continue;
      v1::LeaseSummary* summary = list.add_leases();
      summary->set_session_id(session.id);
      summary->set_pid(session.peer.pid);
      summary->set_client_name(session.name);
      *summary->mutable_context() = context->ref();
      summary->set_slot(key.slot);
      summary->set_incarnation(lease.incarnation);
      summary->set_age_ms(Milliseconds(now - absl::Seconds(lease.granted_s)));
      const Handle* handle = context->AtSlot(key.slot);
      if (handle != nullptr) summary->set_entry(handle->kernel.entry());
    }
  });
  return list;
}

v1::SessionList ServiceImpl::Sessions(const v1::ListRequest&) {
  v1::SessionList list;
  absl::flat_hash_map<SessionId, uint64_t> device_bytes;  // as the hosts last told
  contexts_.ForEach([&](Context& context) {
    for (const v1::SessionUsage& usage : context.usage().per_session()) {
      device_bytes[usage.session_id()] += usage.device_bytes();
    }
  });
  const absl::Duration now = core_.deps.clock->Now();
  core_.sessions.ForEach([&](Session& session) {
    v1::SessionSummary* summary = list.add_sessions();
    summary->set_session_id(session.id);
    summary->set_client_name(session.name);
    summary->set_pid(session.peer.pid);
    summary->set_uid(session.peer.uid);
    summary->set_gid(session.peer.gid);
    summary->set_domain(session.domain.name);
    summary->set_leases(session.leases.size());
    summary->set_pins(session.pins.size());
    summary->set_age_ms(Milliseconds(now - session.opened));
    summary->set_silent_ms(Milliseconds(now - session.last_heard));
    summary->set_device_bytes(device_bytes[session.id]);
    summary->set_connected(session.endpoint != nullptr);
    summary->set_outbox(session.outbox.events());
  });
  return list;
}

v1::OperationList ServiceImpl::Operations() { return operations_.List(); }

v1::RefusalList ServiceImpl::Refusals() { return core_.builds.Refusals(); }

v1::ClearRefusalsReply ServiceImpl::ClearRefusals(const Peer& who,
                                                  const v1::ClearRefusalsRequest& request) {
  v1::ClearRefusalsReply reply;
  reply.set_cleared(core_.builds.ClearRefusals(request.artifact_key()));
  core_.deps.events->Audit(
      AskedBy(who),
      absl::StrCat("clear-refusals ", request.artifact_key().empty()
                                          ? "all"
                                          : ToHex(request.artifact_key())),
      absl::StrCat(reply.cleared(), " cleared"));
  return reply;
}

v1::ExplainReply ServiceImpl::Explain(const v1::ExplainRequest& request) {
  v1::ExplainReply reply;
  auto digest = ProgramDigest(request.manifest());
  if (!digest.ok()) {
    reply.add_differences(std::string(StdView(digest.status().message())));
    return reply;
  }
  auto name = DeviceName::FromProto(request.device());
  auto device = name.ok() ? core_.devices.Find(*name) : absl::StatusOr<DeviceRecord*>(name.status());
  if (!device.ok()) {
    reply.add_differences(absl::StrCat("device: ", std::string(device.status().message())));
    return reply;
  }
  v1::Acquire acquire;
  *acquire.mutable_device() = request.device();
  TrustDomain nobody;
  auto spec = acquirer_.SpecFor(acquire, nobody, *digest, request.manifest().language(), *device);
  if (spec.ok()) {
    reply.set_artifact_key(spec->key.str());
    reply.set_hit(core_.deps.artifacts->Peek(spec->key) != nullptr);
  }
  if (reply.hit()) return reply;
  // The same program for something else is the nearest there can be.
  for (const ArtifactPtr& artifact : core_.deps.artifacts->List()) {
    if (artifact->program != *digest || !spec.ok()) continue;
    if (artifact->framework != spec->framework) {
      reply.add_differences(
          absl::StrCat("framework: ", spec->framework, ", cached ", artifact->framework));
    } else if (artifact->artifact.architecture() != spec->architecture) {
      reply.add_differences(absl::StrCat("architecture: ", spec->architecture, ", cached ",
                                         artifact->artifact.architecture()));
    } else if (artifact->compiler_version != spec->compiler_version) {
      reply.add_differences(absl::StrCat("compiler: ", spec->compiler_version, ", cached ",
                                         artifact->compiler_version));
    } else {
      reply.add_differences("driver, compiler build or trust domain: another one than the cached");
    }
  }
  if (!reply.differences().empty()) return reply;
  ProgramPtr nearest = core_.sources.Nearest(request.manifest());
  if (nearest == nullptr) {
    reply.add_differences("no cached program is like this one");
  } else {
    Differences(request.manifest(), nearest->manifest, &reply);
  }
  return reply;
}

}  // namespace kcache::core
