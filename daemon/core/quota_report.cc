// What every trust domain and session uses of its bounds.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/service_impl.h"

namespace kcache::core {
namespace {

// "No limit" is 0, like everywhere.
uint64_t Milliseconds(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return 0;
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(duration));
}

struct Lines {
  google::protobuf::RepeatedPtrField<v1::Quota>* quotas;

  void Add(const std::string& what, uint64_t used, uint64_t limit, const char* option,
           const char* unit = "") const {
    v1::Quota* quota = quotas->Add();
    quota->set_what(what);
    quota->set_used(used);
    quota->set_limit(limit);
    quota->set_option(absl::StrCat("limits.", option));
    quota->set_unit(unit);
  }
};

struct SessionMemory {
  uint64_t device = 0, pinned = 0, buffers = 0;
};

}  // namespace

v1::QuotaList ServiceImpl::Quotas() {
  const Limits& limits = core_.options.limits;
  std::map<std::string, std::vector<Session*>> domains;
  core_.sessions.ForEach(
      [&](Session& session) { domains[session.domain.name].push_back(&session); });
  // Of memory: what the hosts last told.
  absl::flat_hash_map<SessionId, SessionMemory> memory;
  // By domain and device; with what a LOST context still holds until its process is gone.
  std::map<std::string, std::map<std::string, uint64_t>> device_bytes;
  contexts_.ForEach([&](Context& context) {
    domains[context.domain().name];
    device_bytes[context.domain().name][context.device().ToString()] +=
        context.usage().device_bytes();
    for (const v1::SessionUsage& usage : context.usage().per_session()) {
      SessionMemory& all = memory[usage.session_id()];
      all.device += usage.device_bytes();
      all.pinned += usage.pinned_bytes();
      all.buffers += usage.buffers();
    }
  });

  v1::QuotaList list;
  list.set_compile_time_window_ms(Milliseconds(CompileTimes::kWindow));
  for (const auto& [domain, sessions] : domains) {
    v1::DomainQuotas* entry = list.add_domains();
    entry->set_domain(domain);
    const Lines lines{entry->mutable_quotas()};
    lines.Add("sessions", sessions.size(), limits.max_sessions_per_domain,
              "max_sessions_per_domain");
    lines.Add("leases", contexts_.LeasesOf(domain), limits.max_leases_per_domain,
              "max_leases_per_domain");
    for (const auto& [device, bytes] : device_bytes[domain]) {
      lines.Add(absl::StrCat("device memory of ", device), bytes,
                limits.max_device_bytes_per_domain, "max_device_bytes_per_domain", "bytes");
    }
    const BuildQueue::DomainUse use = core_.builds.UseOf(domain);
    lines.Add("compiles queued", use.queued, limits.max_compiles_queued_per_domain,
              "max_compiles_queued_per_domain");
    lines.Add("compile time", Milliseconds(use.compile_time),
              Milliseconds(limits.max_compile_time_per_domain), "max_compile_time_per_domain",
              "ms");
    lines.Add("artifacts", use.artifact_bytes, limits.max_artifact_bytes_per_domain,
              "max_artifact_bytes_per_domain", "bytes");
    for (const Session* session : sessions) {
      v1::SessionQuotas* one = entry->add_sessions();
      one->set_session_id(session->id);
      one->set_pid(session->peer.pid);
      one->set_client_name(session->name);
      const Lines own{one->mutable_quotas()};
      const SessionMemory& held = memory[session->id];
      own.Add("leases", session->leases.size(), limits.max_leases_per_session,
              "max_leases_per_session");
      own.Add("pins", session->pins.size(), limits.max_pins_per_session, "max_pins_per_session");
      own.Add("requests", session->requests.size(), limits.max_requests_per_session,
              "max_requests_per_session");
      own.Add("device memory", held.device, limits.max_device_bytes_per_session,
              "max_device_bytes_per_session", "bytes");
      own.Add("pinned memory", held.pinned, limits.max_pinned_bytes_per_session,
              "max_pinned_bytes_per_session", "bytes");
      own.Add("buffers", held.buffers, limits.max_buffers_per_session, "max_buffers_per_session");
    }
  }
  return list;
}

}  // namespace kcache::core
