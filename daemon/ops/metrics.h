// The daemon's counters and gauges in Prometheus' text format, for Admin.Metrics and a node
// exporter's textfile collector.
//
// Threads: pure functions over their arguments.

#ifndef KCACHE_DAEMON_OPS_METRICS_H_
#define KCACHE_DAEMON_OPS_METRICS_H_

#include <cstdint>
#include <map>
#include <string>

#include "kcache/v1/admin.pb.h"

namespace kcache::ops {

struct MetricsInput {
  v1::StatusReply status;
  v1::AdminDeviceList devices;
  std::map<std::string, uint64_t> events;  // by kind
  uint64_t connections = 0;
};

std::string MetricsText(const MetricsInput& input);

// Resident memory of this process, from /proc/self/statm; 0 when it cannot be read.
uint64_t ResidentBytes();

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_METRICS_H_
