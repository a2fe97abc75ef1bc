#include "daemon/ops/device_census.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace kcache::ops {
namespace {

struct ProcessInfo {
  std::string name;
  pid_t parent = 0;
  uid_t uid = 0;
};

bool ParsePid(std::string_view text, pid_t* pid) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *pid);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadProcess(const std::string& directory, ProcessInfo* info) {
  std::ifstream status(directory + "/status");
  if (!status) return false;
  for (std::string line; std::getline(status, line);) {
    const auto value = [&line] {
      const size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
      return start == std::string::npos ? std::string() : line.substr(start);
    };
    if (line.starts_with("Name:")) info->name = value();
    if (line.starts_with("PPid:")) info->parent = static_cast<pid_t>(std::atoi(value().c_str()));
    if (line.starts_with("Uid:")) {
      info->uid = static_cast<uid_t>(std::strtoul(value().c_str(), nullptr, 10));
      break;  // the last of the three
    }
  }
  return true;
}

// The nodes among `wanted` that the process has open. By device number where the node exists, so
// that a node under another path (a sandbox's own /dev) counts, else by path.
std::set<std::string> OpenNodes(const std::string& directory,
                                const std::map<dev_t, std::string>& numbers,
                                const std::set<std::string>& paths) {
  std::set<std::string> open;
  const std::string fds = directory + "/fd";
  DIR* listing = opendir(fds.c_str());
  if (listing == nullptr) return open;
  while (const dirent* entry = readdir(listing)) {
    if (entry->d_name[0] == '.') continue;
    const std::string link = fds + "/" + entry->d_name;
    struct stat info {};
    if (stat(link.c_str(), &info) == 0 && S_ISCHR(info.st_mode)) {
      const auto found = numbers.find(info.st_rdev);
      if (found != numbers.end()) open.insert(found->second);
      continue;
    }
    char target[512];
    const ssize_t length = readlink(link.c_str(), target, sizeof target);
    if (length > 0) {
      const std::string path(target, static_cast<size_t>(length));
      if (paths.contains(path)) open.insert(path);
    }
  }
  closedir(listing);
  return open;
}

}  // namespace

std::vector<core::OpenHolder> FindHolders(const std::string& proc, pid_t self,
                                          const std::vector<std::string>& nodes) {
  std::map<dev_t, std::string> numbers;
  for (const std::string& node : nodes) {
    struct stat info {};
    if (stat(node.c_str(), &info) == 0 && S_ISCHR(info.st_mode)) numbers[info.st_rdev] = node;
  }
  const std::set<std::string> paths(nodes.begin(), nodes.end());

  std::map<pid_t, ProcessInfo> processes;
  std::vector<core::OpenHolder> holders;
  DIR* listing = opendir(proc.c_str());
  if (listing == nullptr) return holders;
  while (const dirent* entry = readdir(listing)) {
    pid_t pid = 0;
    if (!ParsePid(entry->d_name, &pid)) continue;
    const std::string directory = proc + "/" + entry->d_name;
    ProcessInfo info;
    if (!ReadProcess(directory, &info)) continue;  // it has exited meanwhile
    for (const std::string& node : OpenNodes(directory, numbers, paths)) {
      holders.push_back({.pid = pid, .name = info.name, .uid = info.uid, .node = node});
    }
    processes.emplace(pid, std::move(info));
  }
  closedir(listing);

  for (core::OpenHolder& holder : holders) {
    pid_t pid = holder.pid;
    // A chain of parents may change while it is read; it is never longer than the table.
    for (size_t steps = 0; steps <= processes.size() && pid != 0; ++steps) {
      if (pid == self) {
        holder.ours = true;
        break;
      }
      const auto found = processes.find(pid);
      pid = found == processes.end() ? 0 : found->second.parent;
    }
  }
  return holders;
}

ProcCensus::ProcCensus(core::Executor* executor)
    : executor_(executor), thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "census");
}

ProcCensus::~ProcCensus() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    wake_.NotifyOne();
  }
  thread_.join();
}

void ProcCensus::Holders(std::vector<std::string> nodes,
                         core::Function<void(std::vector<core::OpenHolder>)> done) {
  MutexLock lock(&mutex_);
  requests_.emplace_back(std::move(nodes), std::move(done));
  wake_.NotifyOne();
}

void ProcCensus::Loop() {
  for (;;) {
    std::vector<Request> requests;
    {
      MutexLock lock(&mutex_);
      while (requests_.empty() && !stopped_) wake_.Wait(&mutex_);
      if (stopped_) return;
      requests.swap(requests_);
    }
    for (Request& request : requests) {
      executor_->Run([holders = FindHolders("/proc", getpid(), request.first),
                      done = std::move(request.second)]() mutable { done(std::move(holders)); });
    }
  }
}

}  // namespace kcache::ops
