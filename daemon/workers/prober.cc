#include "daemon/workers/prober.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/device_name.h"
#include "contract/strings.h"
#include "daemon/workers/private_directory.h"

namespace kcache::workers {
namespace {

constexpr uint64_t kMaxReportBytes = 4 << 20;

v1::ProbeReport Unavailable(const std::string& family, std::string reason) {
  v1::ProbeReport report;
  report.set_family(family);
  report.set_available(false);
  report.set_reason(ToValidUtf8(reason));
  return report;
}

}  // namespace

v1::ProbeReport ReportOf(const std::string& family, const ExitStatus& status, bool timed_out,
                         absl::Duration limit) {
  if (timed_out) {
    return Unavailable(family, absl::StrCat("its probe took longer than ",
                                            absl::FormatDuration(limit),
                                            LastWords(status.last_words)));
  }
  if (status.ended_for != ExitStatus::EndedFor::kNothing) {
    return Unavailable(family,
                       absl::StrCat("its probe ", status.why, LastWords(status.last_words)));
  }
  if (!status.clean()) {
    return Unavailable(family, absl::StrCat("its probe was ", status.Describe(),
                                            LastWords(status.last_words)));
  }
  v1::ProbeReport report;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a newer backend
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(status.output, &report, options);
  if (!parsed.ok()) {
    return Unavailable(family, absl::StrCat("its probe printed no report (", parsed.ToString(),
                                            ")", LastWords(status.last_words)));
  }
  if (absl::Status name = DeviceName::ValidateFamily(report.family()); !name.ok()) {
    return Unavailable(family, absl::StrCat("its probe reports the family ",
                                            Quoted(report.family()), ": ", name.message()));
  }
  return report;
}

struct BackendProber::Round {
  size_t waiting = 1;  // one for the round itself, until all are started
  std::vector<v1::ProbeReport> reports;
  core::Function<void(std::vector<v1::ProbeReport>)> done;
};

void BackendProber::Probe(std::vector<std::string> skip,
                          core::Function<void(std::vector<v1::ProbeReport>)> done) {
  auto round = std::make_shared<Round>();
  round->done = std::move(done);
  parts_.programs->Rescan();
  for (const BackendProgram& program : parts_.programs->all()) {
    if (std::find(skip.begin(), skip.end(), program.family) != skip.end()) continue;
    ++round->waiting;
    Run(round, program);
  }
  parts_.executor->Post([this, round] { Finish(round, "", {}); });
}

void BackendProber::Run(const std::shared_ptr<Round>& round, const BackendProgram& program) {
  struct State {
    ChildPtr child;
    core::TimerId timer = 0;
    bool timed_out = false;
    std::string directory;
  };
  auto state = std::make_shared<State>();
  const std::string family = program.family;
  const std::string path = program.path;
  parts_.supervisor->RunDetached([this, round, state, program, family, path] {
    auto directory = MakePrivateDirectory(parts_.work_directory, "probe-" + program.name,
                                          parts_.isolation->compile_user());
    if (!directory.ok()) {
      parts_.executor->Run([this, round, path,
                            report = Unavailable(
                                family, std::string(StdView(directory.status().message())))] {
        Finish(round, path, report);
      });
      return;
    }
    state->directory = *directory;
    LaunchSpec spec;
    spec.label = "probe of " + family;
    spec.arguments = {"--role=probe"};
    spec.capture_output = kMaxReportBytes;
    parts_.isolation->ForProbe(program, *directory, &spec);
    parts_.supervisor->Start(
        std::move(spec),
        [this, round, state, family, path](absl::StatusOr<ChildPtr> child) {
          if (!child.ok()) {
            Finish(round, path,
                   Unavailable(family, std::string(StdView(child.status().message()))));
            return;
          }
          state->child = *child;
          state->timer = parts_.executor->RunAfter(parts_.config->probe_timeout, [state] {
            state->timed_out = true;
            state->child->Kill("took too long");
          });
        },
        [this, round, state, family, path](const ExitStatus& status) {
          parts_.executor->Cancel(state->timer);
          parts_.supervisor->RunInBackground(
              [directory = state->directory] { RemoveTree(directory); });
          Finish(round, path,
                 ReportOf(family, status, state->timed_out, parts_.config->probe_timeout));
        });
  });
}

void BackendProber::Finish(const std::shared_ptr<Round>& round, const std::string& path,
                           v1::ProbeReport report) {
  if (!path.empty()) {
    for (BackendProgram& program : parts_.programs->all()) {
      // A family without a device still compiles, and needs what its profile says for that.
      if (program.path != path || (!report.available() && report.compilers().empty())) continue;
      program.family = report.family();
      program.compile_profile = report.compile_profile();
    }
    // One that died says nothing: what it depended on before still counts.
    if (report.depends_on_size() != 0) {
      std::vector<std::string>& files = depends_on_[path];
      files.assign(report.depends_on().begin(), report.depends_on().end());
      for (const v1::DeviceInfo& device : report.devices()) {
        files.insert(files.end(), device.device_nodes().begin(), device.device_nodes().end());
      }
    }
    if (!report.available()) {
      parts_.events->Emit("backend-unavailable",
                          absl::StrCat(report.family(), ": ", report.reason()),
                          {{"family", report.family()}});
    }
    round->reports.push_back(std::move(report));
  }
  if (--round->waiting > 0) return;
  WatchFiles();
  // In a fixed order, whoever was quickest.
  std::sort(round->reports.begin(), round->reports.end(),
            [](const auto& a, const auto& b) { return a.family() < b.family(); });
  round->done(std::move(round->reports));
}

void BackendProber::WatchFiles() {
  if (parts_.files == nullptr) return;
  std::vector<std::string> files{"/etc/ld.so.cache"};
  for (const BackendProgram& program : parts_.programs->all()) {
    files.push_back(program.path);
    const std::vector<std::string>& its = depends_on_[program.path];
    files.insert(files.end(), its.begin(), its.end());
  }
  parts_.files->Watch(files);
}

}  // namespace kcache::workers
