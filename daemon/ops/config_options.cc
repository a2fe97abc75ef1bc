#include "daemon/ops/config_options.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "contract/strings.h"

namespace kcache::ops {
namespace {

using absl::Status;

constexpr uint64_t kMax64 = std::numeric_limits<int64_t>::max();  // what TOML can carry
constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max();

Status Expected(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", AbslView(what)));
}

bool ParseNumber(std::string_view text, uint64_t* value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
    {"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30}, {"TiB", 1ull << 40}};

bool ParseSize(std::string_view text, uint64_t* value) {
  uint64_t unit = 1;
  for (const auto& [suffix, factor] : kUnits) {
    if (text.ends_with(suffix)) {
      unit = factor;
      text.remove_suffix(suffix.size());
      break;
    }
  }
  while (text.ends_with(' ')) text.remove_suffix(1);
  return ParseNumber(text, value) && !__builtin_mul_overflow(*value, unit, value);
}

std::string PrintSize(uint64_t value) {
  for (auto unit = std::rbegin(kUnits); unit != std::rend(kUnits); ++unit) {
    if (value >= unit->second && value % unit->second == 0) {
      return absl::StrCat(value / unit->second, AbslView(unit->first));
    }
  }
  return std::to_string(value);
}

std::string RangeText(const std::string& low, const std::string& high) {
  return absl::StrCat(low, " … ", high);
}

// ---- one maker a type: `field` is a function from Config& to a reference --------------------------

template <class Field>
Option Integer(std::string name, Field field, uint64_t low, uint64_t high, std::string help) {
  Option option{.name = std::move(name), .type = OptionType::kInteger, .help = std::move(help)};
  option.range = RangeText(std::to_string(low), std::to_string(high));
  option.set = [field, low, high, range = option.range](Config& config, std::string_view text) {
    uint64_t value = 0;
    if (!ParseNumber(text, &value) || value < low || value > high) {
      return Expected("a whole number, " + range);
    }
    field(config) = static_cast<std::decay_t<decltype(field(config))>>(value);
    return absl::OkStatus();
  };
  option.get = [field](const Config& config) {
    return std::to_string(field(const_cast<Config&>(config)));
  };
  return option;
}

template <class Field>
Option Size(std::string name, Field field, uint64_t low, uint64_t high, std::string help) {
  Option option{.name = std::move(name), .type = OptionType::kSize, .help = std::move(help)};
  option.range = RangeText(PrintSize(low), high >= kMax64 ? "no limit" : PrintSize(high));
  option.set = [field, low, high, range = option.range](Config& config, std::string_view text) {
    uint64_t value = 0;
    if (!ParseSize(text, &value) || value < low || value > high) {
      return Expected("a size such as 65536, \"64KiB\" or \"2GiB\", " + range);
    }
    field(config) = value;
    return absl::OkStatus();
  };
  option.get = [field](const Config& config) {
    return PrintSize(field(const_cast<Config&>(config)));
  };
  return option;
}

template <class Field>
Option Duration(std::string name, Field field, absl::Duration low, absl::Duration high,
                std::string help) {
  Option option{.name = std::move(name), .type = OptionType::kDuration, .help = std::move(help)};
  option.range = RangeText(absl::FormatDuration(low), absl::FormatDuration(high));
  option.set = [field, low, high, range = option.range](Config& config, std::string_view text) {
    absl::Duration value;
    if (!absl::ParseDuration(AbslView(text), &value) || value < low || value > high) {
      return Expected("a duration such as \"250ms\", \"2s\" or \"10m\", " + range);
    }
    field(config) = value;
    return absl::OkStatus();
  };
  option.get = [field](const Config& config) {
    return absl::FormatDuration(field(const_cast<Config&>(config)));
  };
  return option;
}

template <class Field>
Option Text(std::string name, Field field, std::string help, std::string environment_alias = "") {
  Option option{.name = std::move(name), .type = OptionType::kText, .help = std::move(help)};
  option.set = [field](Config& config, std::string_view text) {
    if (!IsValidUtf8(text)) return Expected("UTF-8");
    field(config) = std::string(text);
    return absl::OkStatus();
  };
  option.get = [field](const Config& config) { return field(const_cast<Config&>(config)); };
  option.environment_alias = std::move(environment_alias);
  return option;
}

template <class Field>
Option Boolean(std::string name, Field field, std::string help) {
  Option option{.name = std::move(name), .type = OptionType::kBoolean, .help = std::move(help)};
  option.set = [field](Config& config, std::string_view text) {
    if (text != "true" && text != "false") return Expected("true or false");
    field(config) = text == "true";
    return absl::OkStatus();
  };
  option.get = [field](const Config& config) {
    return std::string(field(const_cast<Config&>(config)) ? "true" : "false");
  };
  return option;
}

template <class Field>
Option Mode(std::string name, Field field, std::string help) {
  Option option{.name = std::move(name), .type = OptionType::kMode, .help = std::move(help)};
  option.range = "\"0000\" … \"0777\"";
  option.set = [field](Config& config, std::string_view text) {
    uint64_t value = 0;
    if (!ParseNumber(text, &value, 8) || value > 0777) {
      return Expected("permission bits in octal, \"0000\" … \"0777\"");
    }
    field(config) = static_cast<uint32_t>(value);
    return absl::OkStatus();
  };
  option.get = [field](const Config& config) {
    return absl::StrFormat("%04o", field(const_cast<Config&>(config)));
  };
  return option;
}

template <class Field>
Option List(std::string name, Field field, std::string help) {
  Option option{.name = std::move(name), .type = OptionType::kList, .help = std::move(help)};
  option.set = [field](Config& config, std::string_view text) {
    field(config).clear();
    for (absl::string_view item : absl::StrSplit(AbslView(text), ':', absl::SkipEmpty())) {
      field(config).emplace_back(item.data(), item.size());
    }
    return absl::OkStatus();
  };
  option.get = [field](const Config& config) {
    return absl::StrJoin(field(const_cast<Config&>(config)), ":");
  };
  return option;
}

// `values` pairs each choice with its value.
template <class Value, class Field>
Option Choice(std::string name, Field field, std::vector<std::pair<std::string, Value>> values,
              std::string help) {
  Option option{.name = std::move(name), .type = OptionType::kChoice, .help = std::move(help)};
  for (const auto& [choice, value] : values) option.choices.push_back(choice);
  option.range = absl::StrJoin(option.choices, ", ");
  option.set = [field, values, range = option.range](Config& config, std::string_view text) {
    for (const auto& [choice, value] : values) {
      if (choice == text) {
        field(config) = value;
        return absl::OkStatus();
      }
    }
    return Expected("one of " + range);
  };
  option.get = [field, values](const Config& config) {
    for (const auto& [choice, value] : values) {
      if (field(const_cast<Config&>(config)) == value) return choice;
    }
    return std::string();
  };
  return option;
}

#define KCACHE_FIELD(path) [](Config& config) -> auto& { return config.path; }

std::vector<Option> MakeOptions() {
  const absl::Duration never = absl::InfiniteDuration();
  const absl::Duration ms = absl::Milliseconds(1);
  const absl::Duration day = absl::Hours(24);
  std::vector<Option> o;

  // ---- where
  o.push_back(Text("runtime_dir", KCACHE_FIELD(runtime_dir),
                   "Directory of the sockets and of the device hosts' execution sockets. Empty: "
                   "/run/kcached for root, else $XDG_RUNTIME_DIR/kcached."));
  o.push_back(Text("socket", KCACHE_FIELD(socket),
                   "Clients' socket. Empty: kcached.sock in runtime_dir.", "KCACHE_SOCKET"));
  o.push_back(Mode("socket_mode", KCACHE_FIELD(socket_mode),
                   "Who may connect as a client. Every peer is known by its uid all the same."));
  o.push_back(Text("admin_socket", KCACHE_FIELD(admin_socket),
                   "Operators' socket. Empty: admin.sock in runtime_dir.", "KCACHE_ADMIN_SOCKET"));
  o.push_back(Mode("admin_socket_mode", KCACHE_FIELD(admin_socket_mode),
                   "Who may connect as an operator."));
  o.push_back(Text("admin_group", KCACHE_FIELD(admin_group),
                   "Group that owns the operators' socket, when it exists and kcached is root."));
  o.push_back(Text("state_dir", KCACHE_FIELD(state_dir),
                   "Directory of what survives a restart: which devices stay down. Empty: "
                   "/var/lib/kcached for root, else runtime_dir."));

  // ---- connections
  o.push_back(Integer("connections.max", KCACHE_FIELD(max_connections), 1, 1 << 20,
                      "Connections at once, to both sockets."));
  o.push_back(Integer("connections.max_per_uid", KCACHE_FIELD(max_connections_per_uid), 1, 1 << 20,
                      "Connections of one user at once."));
  o.push_back(Duration("connections.keepalive", KCACHE_FIELD(keepalive), absl::Seconds(1), never,
                       "The daemon pings a connection that was silent for this long, and cuts it "
                       "when the answer takes as long again."));

  // ---- log
  o.push_back(Choice<std::string>(
      "log.level", KCACHE_FIELD(log_level),
      {{"debug", "debug"}, {"info", "info"}, {"warning", "warning"}, {"error", "error"}},
      "Least severe lines that are written."));
  o.push_back(Integer("log.event_history", KCACHE_FIELD(event_history), 16, 1 << 20,
                      "Events kept for `kcachectl events`."));
  o.push_back(Text("log.history_dir", KCACHE_FIELD(history_directory),
                   "Directory for a complete record of leases, notifications, launches and "
                   "releases, which tests/chaos checks. Grows without bound. Empty: none."));

  // ---- backends
  o.push_back(List("backends.directories", KCACHE_FIELD(backend_directories),
                   "Directories searched for kcache-backend-* programs, before those beside "
                   "kcached and in its libexec directory."));
  o.push_back(Text("backends.launcher", KCACHE_FIELD(launcher),
                   "The kcache-launch program. Empty: beside kcached, or in its libexec "
                   "directory."));
  o.push_back(Duration("backends.probe_timeout", KCACHE_FIELD(probe_timeout), 100 * ms, day,
                       "A backend whose probe takes longer is unavailable."));
  o.push_back(List("backends.environment", KCACHE_FIELD(backend_environment),
                   "Environment variables of kcached that backend programs may see. Nothing else "
                   "of the environment reaches them but what makes devices visible."));

  // ---- compile workers
  o.push_back(Integer("compile.workers", KCACHE_FIELD(compile_workers), 0, 1024,
                      "Compiles at once. 0: one a processor."));
  o.push_back(Integer("compile.jobs_per_worker", KCACHE_FIELD(jobs_per_worker), 1, 1 << 20,
                      "Jobs of one worker process, one after the other. With more than 1, a source "
                      "that takes over a compiler can spoil the jobs after it."));
  o.push_back(Duration("compile.wall_time", KCACHE_FIELD(compile_wall), 100 * ms, day,
                       "A compile that takes longer is ended."));
  o.push_back(Duration("compile.cpu_time", KCACHE_FIELD(compile_cpu), absl::Seconds(1), day,
                       "The same in processor time."));
  o.push_back(Size("compile.memory", KCACHE_FIELD(compile_memory), 64ull << 20, kMax64,
                   "Memory of one compile."));
  o.push_back(Size("compile.disk", KCACHE_FIELD(compile_disk), 1 << 20, kMax64,
                   "Largest file a compile may write to its private temporary directory."));
  o.push_back(Integer("compile.processes", KCACHE_FIELD(compile_processes), 0, 1 << 16,
                      "Processes and threads of one compile; the kernel starts no more. 0: 256, and 4 "
                      "for each processor, because compilers and drivers start threads by their number."));
  o.push_back(Integer("compile.processes_per_compile", KCACHE_FIELD(processes_per_compile), 8,
                      1 << 16, "Processes of one compile; one that starts more is ended."));
  o.push_back(Integer("compile.nice", KCACHE_FIELD(compile_nice), 0, 19,
                      "Niceness of compile workers."));
  o.push_back(Text("compile.user", KCACHE_FIELD(compile_user),
                   "User that compiles run as when kcached is root; nobody if it does not exist."));
  o.push_back(Integer("compile.crashes_to_refuse", KCACHE_FIELD(core.limits.compile_crashes_to_refuse),
                      1, 100, "Abnormal ends after which a program is refused for a while."));
  o.push_back(Duration("compile.refusal", KCACHE_FIELD(core.limits.refusal), absl::ZeroDuration(),
                       30 * day, "How long it is refused."));

  // ---- device hosts
  o.push_back(Duration("hosts.start_timeout", KCACHE_FIELD(host_start_timeout), 100 * ms, day,
                       "Opening a context may take this long."));
  o.push_back(Duration("hosts.heartbeat", KCACHE_FIELD(host_heartbeat), 10 * ms, absl::Minutes(1),
                       "Interval of the hosts' heartbeats."));
  o.push_back(Duration("hosts.unresponsive", KCACHE_FIELD(host_unresponsive), 100 * ms, day,
                       "A host without a heartbeat for this long is ended."));
  o.push_back(Duration("hosts.load_timeout", KCACHE_FIELD(host_load_timeout), 100 * ms, day,
                       "A host whose driver takes longer to load kernels is ended."));
  o.push_back(Duration("hosts.idle", KCACHE_FIELD(core.limits.host_idle), 10 * ms, never,
                       "A host without leases, buffers and scratch for this long retires."));
  o.push_back(Duration("hosts.crash_window", KCACHE_FIELD(core.limits.host_crash_window), 10 * ms,
                       never, "Window in which crashes of one context are counted."));
  o.push_back(Integer("hosts.crashes_to_hold", KCACHE_FIELD(core.limits.host_crashes_to_hold), 1,
                      1000, "Crashes in the window after which the context is put on hold."));
  o.push_back(Duration("hosts.backoff", KCACHE_FIELD(core.limits.host_backoff),
                       absl::ZeroDuration(), absl::Minutes(10),
                       "Wait from a context's second crash to its next start; doubles with each "
                       "further one. After the first it starts at once."));
  o.push_back(Duration("hosts.stalled_kernel", KCACHE_FIELD(core.limits.stalled_kernel),
                       absl::ZeroDuration(), never,
                       "A host whose kernel makes no progress for this long is ended; 0: never."));

  // ---- isolation
  o.push_back(Choice<core::DomainPolicy>(
      "isolation.domain", KCACHE_FIELD(core.domain_policy),
      {{"uid", core::DomainPolicy::kUid},
       {"group", core::DomainPolicy::kGroup},
       {"session", core::DomainPolicy::kSession},
       {"node", core::DomainPolicy::kNode}},
      "Who shares a context, and with it an address space: users (refined by container), primary "
      "groups, nobody, everybody. Each domain costs one context's device memory."));
  o.push_back(Boolean("isolation.share_artifacts", KCACHE_FIELD(core.share_artifacts),
                      "Domains share what was compiled from source."));
  o.push_back(Boolean("isolation.trust_submitted_binaries",
                      KCACHE_FIELD(core.trust_submitted_binaries),
                      "Domains share device binaries that clients submitted."));
  o.push_back(Choice<std::string>(
      "isolation.sandbox", KCACHE_FIELD(sandbox),
      {{"auto", "auto"}, {"required", "required"}, {"off", "off"}},
      "Namespaces, file system and system calls of backend programs: the strongest that works "
      "here, or no start without it, or none."));

  // ---- store
  o.push_back(Size("store.max_bytes", KCACHE_FIELD(store_bytes), 1 << 20, kMax64,
                   "Artifacts kept, in bytes."));
  o.push_back(Integer("store.max_count", KCACHE_FIELD(store_count), 1, kMax64,
                      "Artifacts kept."));

  // ---- limits
  const auto limit32 = [&o](const char* name, auto field, uint64_t high, const char* help) {
    o.push_back(Integer(std::string("limits.") + name, field, 1, high, help));
  };
  const auto limit_size = [&o](const char* name, auto field, uint64_t low, uint64_t high,
                               const char* help) {
    o.push_back(Size(std::string("limits.") + name, field, low, high, help));
  };
  limit32("max_sessions", KCACHE_FIELD(core.limits.max_sessions), 1 << 20, "Sessions at once.");
  limit32("max_sessions_per_domain", KCACHE_FIELD(core.limits.max_sessions_per_domain), 1 << 20,
          "Sessions of one trust domain at once.");
  limit32("max_leases_per_session", KCACHE_FIELD(core.limits.max_leases_per_session), kMax32,
          "Leases of one session.");
  o.push_back(Integer("limits.max_leases_per_domain",
                      KCACHE_FIELD(core.limits.max_leases_per_domain), 0, kMax32,
                      "Leases of one trust domain; 0: only the sessions' bounds."));
  limit32("max_pins_per_session", KCACHE_FIELD(core.limits.max_pins_per_session), kMax32,
          "Artifacts that one session holds.");
  limit32("max_requests_per_session", KCACHE_FIELD(core.limits.max_requests_per_session), kMax32,
          "Unanswered requests of one session.");
  limit32("max_outbox_events", KCACHE_FIELD(core.limits.max_outbox_events), kMax32,
          "Events waiting for one client to read them.");
  limit_size("max_outbox_bytes", KCACHE_FIELD(core.limits.max_outbox_bytes), 64 << 10, kMax64,
             "The same in bytes.");
  limit_size("max_message_bytes", KCACHE_FIELD(core.limits.max_message_bytes), 2 << 20,
             1ull << 30, "One gRPC message from a client.");
  limit_size("max_source_bytes", KCACHE_FIELD(core.limits.max_source_bytes), 1024, 1ull << 30,
             "Source and headers of one program together.");
  limit32("max_headers", KCACHE_FIELD(core.limits.max_headers), kMax32, "Headers of one program.");
  limit_size("max_source_cache_bytes", KCACHE_FIELD(core.limits.max_source_cache_bytes), 1 << 20,
             kMax64, "Uploaded sources kept.");
  limit_size("max_artifact_bytes", KCACHE_FIELD(core.limits.max_artifact_bytes), 1024, 1ull << 31,
             "Output of one compile.");
  limit_size("max_log_bytes", KCACHE_FIELD(core.limits.max_log_bytes), 1024, 64ull << 20,
             "Log of one compile.");
  limit32("max_compiles_queued", KCACHE_FIELD(core.limits.max_compiles_queued), kMax32,
          "Compiles waiting for a worker.");
  limit32("max_compiles_queued_per_domain",
          KCACHE_FIELD(core.limits.max_compiles_queued_per_domain), kMax32,
          "The same for one trust domain.");
  limit32("max_queues_per_session", KCACHE_FIELD(core.limits.max_queues_per_session), 1024,
          "Execution queues of one session in one context.");
  o.push_back(Integer("limits.max_commands_in_flight",
                      KCACHE_FIELD(core.limits.max_commands_in_flight), 1, kMax64,
                      "Commands of one session submitted and not finished."));
  limit_size("max_device_bytes_per_session",
             KCACHE_FIELD(core.limits.max_device_bytes_per_session), 0, kMax64,
             "Device memory of one session; 0: the device's.");
  limit_size("max_device_bytes_per_domain",
             KCACHE_FIELD(core.limits.max_device_bytes_per_domain), 0, kMax64,
             "Device memory of one trust domain on one device; 0: the device's.");
  limit_size("max_artifact_bytes_per_domain",
             KCACHE_FIELD(core.limits.max_artifact_bytes_per_domain), 0, kMax64,
             "Bytes of the artifacts kept that were compiled for one trust domain; above, it compiles "
             "nothing new; 0: only the store's bound.");
  limit_size("max_pinned_bytes_per_session",
             KCACHE_FIELD(core.limits.max_pinned_bytes_per_session), 0, kMax64,
             "Pinned host memory of one session.");
  limit32("max_buffers_per_session", KCACHE_FIELD(core.limits.max_buffers_per_session), kMax32,
          "Buffers of one session.");
  const auto limit_time = [&](const char* name, auto field, absl::Duration low, absl::Duration high,
                              const char* help) {
    o.push_back(Duration(std::string("limits.") + name, field, low, high, help));
  };
  limit_time("session_ttl", KCACHE_FIELD(core.limits.session_ttl), 100 * ms, day,
             "A session that is silent for this long is reaped.");
  limit_time("grace", KCACHE_FIELD(core.limits.grace), absl::ZeroDuration(), day,
             "Holders of a lease have this long to let go of it.");
  limit_time("max_grace", KCACHE_FIELD(core.limits.max_grace), absl::ZeroDuration(), day,
             "Most that an operation may ask for.");
  limit_time("finish", KCACHE_FIELD(core.limits.finish), absl::ZeroDuration(), day,
             "Work in flight at a teardown has this long to finish.");
  limit_time("fence_wait", KCACHE_FIELD(core.limits.fence_wait), absl::ZeroDuration(), day,
             "Commands that were announced and have not arrived are waited for this long.");
  limit_time("kill_verify", KCACHE_FIELD(core.limits.kill_verify), 100 * ms, day,
             "A host that still exists this long after it was killed is STUCK.");
  limit_time("upload_stall", KCACHE_FIELD(core.limits.upload_stall), 10 * ms, day,
             "An upload without progress for this long is given to the next who can.");
  limit_time("max_compile_time_per_domain",
             KCACHE_FIELD(core.limits.max_compile_time_per_domain), 100 * ms, never,
             "Compile time of one trust domain in ten minutes: wall time of its compiles together.");
  limit_time("shutdown_grace", KCACHE_FIELD(core.limits.shutdown_grace), absl::ZeroDuration(), day,
             "The grace when the daemon stops.");
  return o;
}

#undef KCACHE_FIELD

std::string Toml(const Option& option, const std::string& value) {
  switch (option.type) {
    case OptionType::kBoolean:
    case OptionType::kInteger:
      return value;
    case OptionType::kSize: {
      uint64_t plain = 0;
      return ParseNumber(value, &plain) ? value : absl::StrCat("\"", value, "\"");
    }
    case OptionType::kList: {
      std::vector<std::string> items = absl::StrSplit(value, ':', absl::SkipEmpty());
      for (std::string& item : items) item = absl::StrCat("\"", item, "\"");
      return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
    }
    case OptionType::kMode:
    case OptionType::kDuration:
    case OptionType::kText:
    case OptionType::kChoice:
      return absl::StrCat(
          "\"", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
  }
  return value;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string_view Section(const Option& option) {
  const size_t dot = option.name.find('.');
  return dot == std::string::npos ? std::string_view() : std::string_view(option.name).substr(0, dot);
}

std::string_view Key(const Option& option) {
  const size_t dot = option.name.find('.');
  return dot == std::string::npos ? std::string_view(option.name)
                                  : std::string_view(option.name).substr(dot + 1);
}

// `text` in lines of at most 96 characters, each after `prefix`.
std::string Wrapped(std::string_view text, std::string_view prefix) {
  std::string result;
  std::string line(prefix);
  for (absl::string_view word : absl::StrSplit(AbslView(text), ' ')) {
    if (line.size() > prefix.size() && line.size() + 1 + word.size() > 96) {
      absl::StrAppend(&result, line, "\n");
      line = std::string(prefix);
    }
    absl::StrAppend(&line, line.size() > prefix.size() ? " " : "", word);
  }
  absl::StrAppend(&result, line, "\n");
  return result;
}

}  // namespace

const std::vector<Option>& Options() {
  static const auto* const options = new std::vector<Option>(MakeOptions());
  return *options;
}

const Option* FindOption(std::string_view name) {
  for (const Option& option : Options()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string NearestOption(std::string_view name) {
  std::string nearest;
  size_t least = std::max<size_t>(3, name.size() / 3);
  for (const Option& option : Options()) {
    // A key in the wrong section, or in none, is as near as a slip of the finger.
    const size_t dot = name.find('.');
    const std::string_view key = dot == std::string_view::npos ? name : name.substr(dot + 1);
    const size_t distance =
        key == Key(option) ? 1 : EditDistance(name, option.name);
    if (distance < least) {
      least = distance;
      nearest = option.name;
    }
  }
  return nearest;
}

std::string FlagName(const Option& option) {
  return absl::StrCat("--", absl::StrReplaceAll(option.name, {{"_", "-"}}));
}

std::string EnvironmentName(const Option& option) {
  return absl::StrCat("KCACHED_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(option.name, {{".", "_"}})));
}

std::string_view TypeName(OptionType type) {
  switch (type) {
    case OptionType::kBoolean:
      return "true or false";
    case OptionType::kInteger:
      return "whole number";
    case OptionType::kMode:
      return "octal mode";
    case OptionType::kSize:
      return "size";
    case OptionType::kDuration:
      return "duration";
    case OptionType::kText:
      return "text";
    case OptionType::kChoice:
      return "choice";
    case OptionType::kList:
      return "list of text";
  }
  return "";
}

std::string PrintConfig(const Config& config, bool defaults_only) {
  std::string result =
      "# Configuration of kcached. Every option is here; a flag (--section.key=value, with - for _)\n"
      "# or the environment (KCACHED_SECTION_KEY) overrides it.\n";
  std::string_view section;
  for (const Option& option : Options()) {
    if (Section(option) != section) {
      section = Section(option);
      absl::StrAppend(&result, "\n[", AbslView(section), "]\n");
    }
    absl::StrAppend(&result, "\n", Wrapped(option.help, "# "));
    absl::StrAppend(&result, "# ", AbslView(TypeName(option.type)),
                    option.range.empty() ? "" : ": ", option.range, "\n");
    absl::StrAppend(&result, defaults_only ? "#" : "", AbslView(Key(option)), " = ",
                    Toml(option, option.get(config)), "\n");
  }
  return result;
}

std::string OptionsHelp() {
  const Config defaults;
  std::string result;
  for (const Option& option : Options()) {
    absl::StrAppend(&result, "  ", FlagName(option), "=", AbslView(TypeName(option.type)),
                    "  (default ", Toml(option, option.get(defaults)),
                    option.range.empty() ? "" : "; ", option.range, ")\n",
                    Wrapped(option.help, "      "));
  }
  return result;
}

}  // namespace kcache::ops
