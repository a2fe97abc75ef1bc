#include "tests/chaos/validate/run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kcache::chaos {
namespace {

Daemon ReadDaemon(const HistoryFile& file) {
  Daemon daemon;
  daemon.file = &file;
  daemon.first = file.records.front().time;
  daemon.last = file.last_time();
  std::map<std::tuple<SessionId, ContextId, SlotId>, size_t> open;  // leases by index
  for (const Record& record : file.records) {
    const SessionId session = record.Number("session");
    const ContextId context = record.Number("context");
    const SlotId slot{record.Number("slot"), record.Number("incarnation")};
    const std::string operation = record.Text("operation");
    if (record.kind == "daemon") {
      daemon.instance = record.Text("instance");
    } else if (record.kind == "session-opened") {
      daemon.sessions[session] = {.pid = record.Number("pid"),
                                  .domain = record.Text("domain"),
                                  .opened = record.time};
    } else if (record.kind == "session-ended") {
      daemon.sessions[session].ended = record.time;
    } else if (record.kind == "subscribed") {
      SessionLife& life = daemon.sessions[session];
      life.subscribed = std::min(life.subscribed, record.time);
    } else if (record.kind == "granted") {
      // Granting what is held already is the same lease.
      if (open.try_emplace({session, context, slot}, daemon.leases.size()).second) {
        daemon.leases.push_back({session, context, slot, record.time});
      }
    } else if (record.kind == "lease-released") {
      auto found = open.find({session, context, slot});
      if (found == open.end()) continue;
      daemon.leases[found->second].released = record.time;
      open.erase(found);
    } else if (record.kind == "acked" || record.kind == "gone" || record.kind == "grace-over") {
      daemon.settled[{context, session}].push_back(
          {record.time, record.kind, operation, context, session});
    } else if (record.kind == "announced") {
      Announced announced{record.time, session, context, {}};
      for (const auto& [queue, sequence] : ParsePairs(record.Text("positions"))) {
        announced.positions[queue] = sequence;
      }
      daemon.announced[{context, session}].push_back(std::move(announced));
    } else if (record.kind == "drain") {
      daemon.drains.push_back({.operation = operation,
                               .context = context,
                               .destroy = record.Text("kind") == "destroy",
                               .grace_ms = record.Number("grace_ms"),
                               .slots = ParsePairs(record.Text("slots")),
                               .started = record.time});
    } else if (record.kind == "drain-stage" && record.Text("stage") == "done") {
      for (Drain& drain : daemon.drains) {
        if (drain.operation != operation || drain.context != context) continue;
        drain.done = record.time;
        drain.lost = record.Number("lost") != 0;
      }
    } else if (record.kind == "context") {
      ContextLife& life = daemon.contexts[context];
      const std::string state = record.Text("state");
      if (life.made == 0) {
        life = {.device = record.Text("device"), .domain = record.Text("domain"), .made = record.time};
      }
      if (state == "RELEASED" || state == "LOST") life.ended = record.time;
      if (state == "LOST") life.lost = record.time;
    } else if (record.kind == "operation-started") {
      daemon.operations[operation] = {.id = operation,
                                      .kind = record.Text("kind"),
                                      .scope = record.Text("scope"),
                                      .started = record.time};
    } else if (record.kind == "clear-running") {
      daemon.operations[operation].running = record.time;
    } else if (record.kind == "operation-ended") {
      daemon.operations[operation].ended = record.time;
    } else if (record.kind == "told") {
      daemon.told.push_back({.time = record.time,
                             .session = session,
                             .operation = operation,
                             .context = context,
                             .before = record.Number("phase") == 1,
                             .kind = record.Number("kind"),
                             .revision = record.Number("revision")});
    }
  }
  return daemon;
}

Host ReadHost(const HistoryFile& file) {
  Host host;
  host.file = &file;
  for (const Record& record : file.records) {
    if (record.kind == "host") {
      host.instance = record.Text("instance");
      host.context = record.Number("context");
    } else if (record.kind == "slot") {
      host.slot_of_kernel[record.Number("kernel")] = {record.Number("slot"),
                                                      record.Number("incarnation")};
    }
  }
  return host;
}

Client ReadClient(const HistoryFile& file) {
  Client client;
  client.file = &file;
  for (const Record& record : file.records) {
    if (record.kind == "client") {
      client.pid = record.Number("pid");
      client.domain = "uid:" + record.Text("uid");
    } else if (record.kind == "client-done") {
      client.done = true;
    }
  }
  return client;
}

}  // namespace

bool Drain::Covers(ContextId of, SlotId slot) const {
  if (of != context) return false;
  return destroy || std::find(slots.begin(), slots.end(), slot) != slots.end();
}

const Drain* Daemon::FindDrain(const std::string& operation, ContextId context) const {
  for (const Drain& drain : drains) {
    if (drain.operation == operation && drain.context == context) return &drain;
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<Run>> Run::Load(const std::string& directory) {
  std::vector<HistoryFile> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() != ".history") continue;
    std::ifstream stream(entry.path());
    std::ostringstream text;
    text << stream.rdbuf();
    auto parsed = ParseHistory(entry.path().stem().string(), text.str());
    if (!parsed.ok()) return parsed.status();
    files.push_back(*std::move(parsed));
  }
  if (error) return absl::NotFoundError("cannot read " + directory + ": " + error.message());
  std::sort(files.begin(), files.end(),
            [](const HistoryFile& a, const HistoryFile& b) { return a.name < b.name; });
  return FromFiles(std::move(files));
}

std::unique_ptr<Run> Run::FromFiles(std::vector<HistoryFile> files) {
  auto run = std::make_unique<Run>();
  run->files_ = std::move(files);
  for (const HistoryFile& file : run->files_) {
    if (file.records.empty()) continue;
    if (file.name.starts_with("daemon")) {
      run->daemons_.push_back(ReadDaemon(file));
    } else if (file.name.starts_with("host")) {
      run->hosts_.push_back(ReadHost(file));
    } else if (file.name.starts_with("client")) {
      run->clients_.push_back(ReadClient(file));
    } else if (file.name == "controller") {
      run->controller_ = file.records;
    }
  }
  for (Host& host : run->hosts_) host.daemon = run->FindDaemon(host.instance);
  return run;
}

const Daemon* Run::FindDaemon(const std::string& instance) const {
  for (const Daemon& daemon : daemons_) {
    if (daemon.instance == instance) return &daemon;
  }
  return nullptr;
}

uint64_t Run::Setting(const std::string& name) const {
  for (const Record& record : controller_) {
    if (record.kind == "config") return record.Number(name);
  }
  return 0;
}

}  // namespace kcache::chaos
