#include "daemon/ops/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kcache::ops {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;

class Families {
 public:
  void Counter(const char* name, const char* help, uint64_t value, Labels labels = {}) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = static_cast<double>(value);
    Family(name, help, prometheus::MetricType::Counter).metric.push_back(std::move(metric));
  }

  void Gauge(const char* name, const char* help, uint64_t value, Labels labels = {}) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    metric.gauge.value = static_cast<double>(value);
    Family(name, help, prometheus::MetricType::Gauge).metric.push_back(std::move(metric));
  }

  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  prometheus::MetricFamily& Family(const char* name, const char* help,
                                   prometheus::MetricType type) {
    if (families_.empty() || families_.back().name != name) {
      families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
    }
    return families_.back();
  }

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace

std::string MetricsText(const MetricsInput& input) {
  const v1::StatusReply& s = input.status;
  Families f;
  f.Gauge("kcached_info", "The daemon's version.", 1, {{"version", s.version()}});
  f.Gauge("kcached_uptime_seconds", "Time since the daemon started.", s.uptime_ms() / 1000);
  f.Gauge("kcached_resident_bytes", "The daemon's own resident memory.", s.resident_bytes());
  f.Gauge("kcached_connections", "Open connections.", input.connections);
  f.Gauge("kcached_sessions", "Sessions.", s.sessions());
  f.Gauge("kcached_leases", "Leases.", s.leases());
  f.Gauge("kcached_handles", "Kernel handles that are loaded.", s.handles());
  f.Counter("kcached_handles_built_total", "Kernel handles ever loaded.", s.handles_built());
  f.Counter("kcached_handles_destroyed_total", "Kernel handles ever unloaded.",
            s.handles_destroyed());
  f.Gauge("kcached_contexts", "Device contexts.", s.contexts());
  f.Gauge("kcached_artifacts", "Artifacts in memory.", s.artifacts());
  f.Gauge("kcached_artifact_bytes", "Bytes of artifacts in memory.", s.artifact_bytes());
  f.Counter("kcached_compiles_total", "Successful compiles.", s.compiles());
  f.Counter("kcached_compile_failures_total", "Compiles that failed.", s.compile_failures());
  f.Gauge("kcached_compiles_running", "Compiles running.", s.compiles_running());
  f.Gauge("kcached_compiles_queued", "Compiles waiting for a worker.", s.compiles_queued());
  f.Counter("kcached_warm_grants_total", "Leases on handles that were loaded already.",
            s.warm_grants());
  f.Counter("kcached_loads_total", "Loads of artifacts into contexts.", s.loads());
  f.Counter("kcached_jit_in_host_total", "Loads for which the driver compiled in the host.",
            s.jit_in_host());
  f.Counter("kcached_worker_crashes_total", "Compile workers that died.", s.worker_crashes());
  f.Counter("kcached_host_crashes_total", "Device hosts that died.", s.host_crashes());
  f.Counter("kcached_revision", "The counter that orders invalidations.", s.revision());
  for (const v1::AdminDevice& device : input.devices.devices()) {
    f.Gauge("kcached_device_up", "Whether the device is UP.",
            device.info().state() == v1::DEVICE_UP ? 1 : 0,
            {{"device", absl::StrCat(device.info().device().framework(), ":",
                                     device.info().device().index())}});
  }
  for (const v1::AdminDevice& device : input.devices.devices()) {
    // A domain may have more than one on a device: its LOST context's process may still be ending.
    std::map<std::string, uint64_t> bytes;
    for (const v1::ContextSummary& context : device.contexts()) {
      bytes[context.domain()] += context.device_bytes();
    }
    for (const auto& [domain, used] : bytes) {
      f.Gauge("kcached_context_device_bytes", "Device memory of a trust domain's buffers.", used,
              {{"device", absl::StrCat(device.info().device().framework(), ":",
                                       device.info().device().index())},
               {"domain", domain}});
    }
  }
  for (const auto& [kind, count] : input.events) {
    f.Counter("kcached_events_total", "Events by kind.", count, {{"kind", kind}});
  }
  return f.Text();
}

uint64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long size = 0;
  unsigned long long resident = 0;
  const int read = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace kcache::ops
