// The commands that only look.

#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "client/ctl/commands.h"
#include "client/ctl/device_text.h"
#include "client/ctl/json.h"
#include "client/ctl/table.h"
#include "client/src/state.h"
#include "contract/device_name.h"
#include "contract/strings.h"
#include "kcache/program.h"

#ifndef KCACHE_VERSION
#error "the build says which version this is"
#endif

namespace kcache::ctl {
namespace {

constexpr size_t kShortKey = 12;

std::string Short(const std::string& bytes) { return ToHex(bytes).substr(0, kShortKey); }

std::string DeviceText(const v1::DeviceRef& device) {
  return absl::StrCat(device.framework(), ":", device.index());
}

std::string ContextText(const v1::ContextRef& context) {
  return absl::StrCat(DeviceText(context.device()), " #", context.generation());
}

std::string Pid(int32_t pid) { return pid == 0 ? "?" : std::to_string(pid); }

std::string StateText(v1::DeviceState state) {
  switch (state) {
    case v1::DEVICE_UP:
      return "up";
    case v1::DEVICE_DRAINING_STATE:
      return "draining";
    case v1::DEVICE_DOWN_STATE:
      return "down";
    case v1::DEVICE_UNAVAILABLE:
      return "unavailable";
    default:
      return "unknown";
  }
}

// Asks, then prints JSON or lets `print` do it.
template <class Request, class Reply, class Print>
ExitCode Show(const Session& session,
              grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
              const Request& request, Print print) {
  const absl::StatusOr<Reply> reply = session.client->Call(method, request);
  if (!reply.ok()) return Report(session, reply.status());
  if (session.json) {
    std::cout << Json(*reply, /*pretty=*/true) << "\n";
  } else {
    print(*reply);
  }
  return kDone;
}

absl::StatusOr<v1::ListRequest> ListOf(const std::string& device) {
  v1::ListRequest request;
  if (device.empty()) return request;
  std::string family;
  std::optional<uint32_t> index;
  if (absl::Status bad = ParseScope(device, /*family_alone=*/true, &family, &index); !bad.ok()) {
    return bad;
  }
  request.set_family(family);
  if (index.has_value()) request.set_index(*index);
  return request;
}

void PrintUnavailable(
    const google::protobuf::RepeatedPtrField<v1::UnavailableBackend>& unavailable) {
  for (const v1::UnavailableBackend& backend : unavailable) {
    std::cout << backend.family() << " is not available: " << backend.reason() << "\n";
  }
}

void PrintContexts(const v1::AdminDeviceList& list) {
  Table table({"DEVICE", "DOMAIN", "STATE", "HOST", ">LEASES", ">KERNELS", ">BUFFERS", ">MEMORY",
               ">LAUNCHES", "REASON"});
  for (const v1::AdminDevice& device : list.devices()) {
    for (const v1::ContextSummary& context : device.contexts()) {
      table.Add({ContextText(context.context()), context.domain(), context.state(),
                 Pid(context.host_pid()), std::to_string(context.leases()),
                 std::to_string(context.handles()), std::to_string(context.buffers()),
                 Bytes(context.device_bytes()), std::to_string(context.launches()),
                 context.reason()});
    }
  }
  table.Print(std::cout, "no contexts");
}

}  // namespace

absl::Status ParseScope(const std::string& text, bool family_alone, std::string* family,
                        std::optional<uint32_t>* index) {
  if (family_alone && text.find(':') == std::string::npos) {
    if (absl::Status bad = DeviceName::ValidateFamily(text); !bad.ok()) return bad;
    *family = text;
    return absl::OkStatus();
  }
  absl::StatusOr<DeviceName> device = DeviceName::Parse(text);
  if (!device.ok()) return device.status();
  *family = std::string(device->family());
  *index = device->index;
  return absl::OkStatus();
}

ExitCode Report(const Session& session, const absl::Status& failure) {
  std::cerr << "kcachectl: " << std::string(failure.message()) << " ["
            << ReasonName(ReasonOf(failure)) << "]\n";
  if (session.json) std::cout << Json(ToProto(failure), /*pretty=*/true) << "\n";
  return ExitCodeOf(failure);
}

ExitCode ShowStatus(const Session& session) {
  return Show(
      session, &v1::Admin::Stub::Status, v1::StatusRequest(), [](const v1::StatusReply& status) {
        const auto line = [](const std::string& name, const std::string& value) {
          std::cout << name << std::string(name.size() < 18 ? 18 - name.size() : 1, ' ') << value
                    << "\n";
        };
        line("state", absl::StrCat(status.state(), " for ", Milliseconds(status.uptime_ms())));
        line("version", status.version());
        line("instance", Short(status.instance()));
        line("sockets",
             absl::StrCat(status.socket(), " (clients), ", status.admin_socket(), " (admin)"));
        line("sessions", std::to_string(status.sessions()));
        line("leases", absl::StrCat(status.leases(), " on ", status.handles(), " kernels in ",
                                    status.contexts(), " contexts"));
        line("artifacts",
             absl::StrCat(status.artifacts(), " (", Bytes(status.artifact_bytes()), ")"));
        line("compiles", absl::StrCat(status.compiles(), " done, ", status.compile_failures(),
                                      " failed, ", status.compiles_running(), " running, ",
                                      status.compiles_queued(), " queued"));
        line("loads",
             absl::StrCat(status.loads(), " (", status.jit_in_host(), " still compiled at load), ",
                          status.warm_grants(), " warm grants"));
        line("crashes", absl::StrCat(status.worker_crashes(), " compile workers, ",
                                     status.host_crashes(), " device hosts"));
        line("memory", Bytes(status.resident_bytes()));
        line("revision", std::to_string(status.revision()));
        const v1::IsolationState& isolation = status.isolation();
        line("isolation",
             absl::StrCat(isolation.own_users()
                              ? absl::StrCat("hosts as the user they serve, compiles as uid ",
                                             isolation.compile_uid())
                              : "one user",
                          isolation.namespaces() ? ", namespaces" : "",
                          isolation.system_call_filter() ? ", system call filter" : "",
                          isolation.control_group_limits() ? ", control groups with limits"
                          : isolation.control_groups()     ? ", control groups"
                                                           : "",
                          " (isolation.sandbox = ", isolation.sandbox(), ")"));
        for (const std::string& missing : isolation.missing()) line("  missing", missing);
        PrintUnavailable(status.unavailable());
      });
}

ExitCode ShowVersion(const Session& session) {
  const absl::StatusOr<v1::StatusReply> reply =
      session.client->Call(&v1::Admin::Stub::Status, v1::StatusRequest());
  if (session.json) {
    std::cout << "{\n  \"kcachectl\": \"" << KCACHE_VERSION << "\"";
    if (reply.ok()) std::cout << ",\n  \"kcached\": \"" << reply->version() << "\"";
    std::cout << "\n}\n";
  } else {
    std::cout << "kcachectl " << KCACHE_VERSION << "\n";
    if (reply.ok()) std::cout << "kcached   " << reply->version() << "\n";
  }
  if (reply.ok()) return kDone;
  std::cerr << "kcachectl: " << std::string(reply.status().message()) << "\n";
  return ExitCodeOf(reply.status());
}

ExitCode ShowDevices(const Session& session, const std::string& device) {
  const absl::StatusOr<v1::ListRequest> request = ListOf(device);
  if (!request.ok()) return Report(session, request.status()), kUsage;
  return Show(
      session, &v1::Admin::Stub::ListDevices, *request, [](const v1::AdminDeviceList& list) {
        Table table({"DEVICE", "STATE", "NAME", "ARCHITECTURE", "DRIVER", ">MEMORY", ">CONTEXTS",
                     "PHYSICAL", "REASON"});
        for (const v1::AdminDevice& device : list.devices()) {
          const v1::DeviceInfo& info = device.info();
          table.Add({DeviceText(info.device()), StateText(info.state()), info.name(),
                     info.architecture(), info.driver_version(),
                     Bytes(info.limits().memory_bytes()), std::to_string(device.contexts_size()),
                     device.physical_id(), info.reason()});
        }
        table.Print(std::cout, "no devices");
        for (const v1::AdminDevice& device : list.devices()) {
          std::cout << DeviceText(device.info().device()) << "\n"
                    << DeviceDetails(device.info());
        }
        PrintUnavailable(list.unavailable());
      });
}

ExitCode ShowContexts(const Session& session, const std::string& device) {
  const absl::StatusOr<v1::ListRequest> request = ListOf(device);
  if (!request.ok()) return Report(session, request.status()), kUsage;
  return Show(session, &v1::Admin::Stub::ListDevices, *request, PrintContexts);
}

ExitCode ShowKernels(const Session& session, const std::string& device) {
  const absl::StatusOr<v1::ListRequest> request = ListOf(device);
  if (!request.ok()) return Report(session, request.status()), kUsage;
  return Show(session, &v1::Admin::Stub::ListKernels, *request, [](const v1::KernelList& list) {
    Table table({"KERNEL", "DEVICE", "DOMAIN", ">LEASES", "ARTIFACT", "PROGRAM", ">SLOT"});
    for (const v1::KernelSummary& kernel : list.kernels()) {
      table.Add({kernel.entry(), ContextText(kernel.context()), kernel.domain(),
                 std::to_string(kernel.leases()), Short(kernel.artifact_key()),
                 Short(kernel.program_digest()), std::to_string(kernel.slot())});
    }
    table.Print(std::cout, "no kernels are loaded");
  });
}

ExitCode ShowArtifacts(const Session& session) {
  return Show(session, &v1::Admin::Stub::ListArtifacts, v1::ListRequest(),
              [](const v1::ArtifactList& list) {
                Table table({"ARTIFACT", "PROGRAM", "FRAMEWORK", "ARCHITECTURE", "COMPILER",
                             ">SIZE", ">COMPILED IN", ">HITS", ">KERNELS", ">PINS"});
                for (const v1::ArtifactInfo& artifact : list.artifacts()) {
                  table.Add({Short(artifact.artifact_key()), Short(artifact.program_digest()),
                             artifact.framework(), artifact.architecture(),
                             artifact.compiler_version(), Bytes(artifact.bytes()),
                             Milliseconds(artifact.compile_ms()), std::to_string(artifact.hits()),
                             std::to_string(artifact.kernels()), std::to_string(artifact.pins())});
                }
                table.Print(std::cout, "no artifacts");
              });
}

ExitCode ShowLeases(const Session& session, const std::string& device) {
  const absl::StatusOr<v1::ListRequest> request = ListOf(device);
  if (!request.ok()) return Report(session, request.status()), kUsage;
  return Show(session, &v1::Admin::Stub::ListLeases, *request, [](const v1::LeaseList& list) {
    Table table({"KERNEL", "DEVICE", ">PID", "CLIENT", ">AGE", ">SLOT"});
    for (const v1::LeaseSummary& lease : list.leases()) {
      table.Add({lease.entry(), ContextText(lease.context()), Pid(lease.pid()), lease.client_name(),
                 Milliseconds(lease.age_ms()),
                 absl::StrCat(lease.slot(), ".", lease.incarnation())});
    }
    table.Print(std::cout, "no leases");
  });
}

ExitCode ShowSessions(const Session& session) {
  return Show(session, &v1::Admin::Stub::ListSessions, v1::ListRequest(),
              [](const v1::SessionList& list) {
                Table table({">PID", "CLIENT", ">UID", "DOMAIN", ">LEASES", ">PINS", ">MEMORY",
                             ">AGE", ">SILENT", "STREAM", ">OUTBOX"});
                for (const v1::SessionSummary& one : list.sessions()) {
                  table.Add({Pid(one.pid()), one.client_name(), std::to_string(one.uid()),
                             one.domain(), std::to_string(one.leases()), std::to_string(one.pins()),
                             Bytes(one.device_bytes()), Milliseconds(one.age_ms()),
                             Milliseconds(one.silent_ms()), one.connected() ? "connected" : "away",
                             std::to_string(one.outbox())});
                }
                table.Print(std::cout, "no sessions");
              });
}

ExitCode ShowOperations(const Session& session) {
  return Show(session, &v1::Admin::Stub::ListOperations, v1::ListRequest(),
              [](const v1::OperationList& list) {
                Table table({"OPERATION", "KIND", "SCOPE", "STATE", ">AGE", "ASKED BY"});
                for (const v1::OperationSummary& one : list.operations()) {
                  table.Add({ToHex(one.operation_id()), one.kind(), one.scope(), one.state(),
                             Milliseconds(one.age_ms()), one.requested_by()});
                }
                table.Print(std::cout, "no operations");
              });
}

ExitCode ShowRefusals(const Session& session) {
  return Show(session, &v1::Admin::Stub::ListRefusals, v1::ListRequest(),
              [](const v1::RefusalList& list) {
                Table table({"ARTIFACT", ">CRASHES", ">REFUSED FOR", "REASON"});
                for (const v1::RefusalSummary& one : list.refusals()) {
                  table.Add({ToHex(one.artifact_key()), std::to_string(one.crashes()),
                             Milliseconds(one.remaining_ms()), one.reason()});
                }
                table.Print(std::cout, "nothing is refused");
              });
}

namespace {

std::string Amount(uint64_t value, const std::string& unit) {
  if (unit == "bytes") return Bytes(value);
  if (unit == "ms") return Milliseconds(value);
  return std::to_string(value);
}

void AddQuotas(const std::string& who,
               const google::protobuf::RepeatedPtrField<v1::Quota>& quotas, Table* table) {
  for (const v1::Quota& quota : quotas) {
    table->Add({who, quota.what(), Amount(quota.used(), quota.unit()),
                quota.limit() == 0 ? "-" : Amount(quota.limit(), quota.unit()), quota.option()});
  }
}

}  // namespace

ExitCode ShowQuotas(const Session& session) {
  return Show(session, &v1::Admin::Stub::ListQuotas, v1::ListRequest(),
              [](const v1::QuotaList& list) {
                Table table({"WHO", "WHAT", ">USED", ">LIMIT", "OPTION"});
                for (const v1::DomainQuotas& domain : list.domains()) {
                  AddQuotas(domain.domain(), domain.quotas(), &table);
                  for (const v1::SessionQuotas& one : domain.sessions()) {
                    AddQuotas(absl::StrCat("  ", one.client_name(), " (pid ", Pid(one.pid()), ")"),
                              one.quotas(), &table);
                  }
                }
                table.Print(std::cout, "nobody is here");
                std::cout << "compile time: of the last "
                          << Milliseconds(list.compile_time_window_ms()) << "\n";
              });
}

ExitCode ClearRefusals(const Session& session, const std::string& artifact_key) {
  v1::ClearRefusalsRequest request;
  if (!artifact_key.empty()) {
    absl::StatusOr<std::string> key = FromHex(artifact_key);
    if (!key.ok()) return Report(session, key.status()), kUsage;
    request.set_artifact_key(*key);
  }
  return Show(session, &v1::Admin::Stub::ClearRefusals, request,
              [](const v1::ClearRefusalsReply& reply) {
                std::cout << reply.cleared() << " refusals cleared\n";
              });
}

ExitCode ShowMetrics(const Session& session) {
  return Show(session, &v1::Admin::Stub::Metrics, v1::MetricsRequest(),
              [](const v1::MetricsReply& reply) { std::cout << reply.text(); });
}

ExitCode ShowEvents(const Session& session, bool follow, uint64_t since) {
  v1::EventsRequest request;
  request.set_follow(follow);
  request.set_since(since);
  const absl::Status ended = session.client->Stream<v1::EventsRequest, v1::Event>(
      &v1::Admin::Stub::Events, request, [&session](const v1::Event& event) {
        if (session.json) {
          std::cout << Json(event, /*pretty=*/false) << std::endl;
        } else {
          const std::time_t seconds = static_cast<std::time_t>(event.unix_ms() / 1000);
          std::tm local{};
          localtime_r(&seconds, &local);
          char time[32];
          std::strftime(time, sizeof(time), "%F %T", &local);
          char milliseconds[8];
          std::snprintf(milliseconds, sizeof(milliseconds), ".%03u",
                        static_cast<unsigned>(event.unix_ms() % 1000));
          std::cout << time << milliseconds << "  " << event.kind() << "  " << event.message()
                    << std::endl;
        }
        return std::cout.good();
      });
  return ended.ok() ? kDone : Report(session, ended);
}

ExitCode Explain(const Session& session, const ExplainArguments& arguments) {
  const absl::StatusOr<DeviceName> device = DeviceName::Parse(arguments.device);
  if (!device.ok()) return Report(session, device.status()), kUsage;
  std::ifstream in(arguments.source, std::ios::binary);
  std::string source(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) {
    std::cerr << "kcachectl: cannot read " << Quoted(arguments.source) << "\n";
    return kUsage;
  }
  ProgramBuilder builder(arguments.language, std::move(source));
  for (const std::string& directory : arguments.include_directories) {
    builder.AddIncludeDirectory(directory);
  }
  for (const std::string& define : arguments.defines) {
    const size_t equals = define.find('=');
    if (equals == std::string::npos) {
      builder.Define(define);
    } else {
      builder.Define(define.substr(0, equals), define.substr(equals + 1));
    }
  }
  for (const std::string& flag : arguments.flags) builder.Flag(flag);
  for (const std::string& name : arguments.name_expressions) builder.NameExpression(name);
  const absl::StatusOr<Program> program = builder.Build();
  if (!program.ok()) return Report(session, program.status()), kUsage;
  v1::ExplainRequest request;
  *request.mutable_manifest() = program->state()->manifest;
  *request.mutable_device() = device->ToProto();
  return Show(session, &v1::Admin::Stub::Explain, request, [&](const v1::ExplainReply& reply) {
    std::cout << "program   " << program->digest() << "\n";
    std::cout << "artifact  " << ToHex(reply.artifact_key()) << "\n";
    std::cout << (reply.hit() ? "a hit: nothing would be compiled\n"
                              : "a miss: it would be compiled\n");
    for (const std::string& difference : reply.differences()) {
      std::cout << "  " << difference << "\n";
    }
  });
}

}  // namespace kcache::ctl
