#include "tests/chaos/domains/process_tree.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace kcache::domains {
namespace {

// /proc/<pid>/stat: "pid (name) state ppid …"; the name may contain anything.
bool Read(pid_t pid, ProcessEntry* entry) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return false;
  const size_t open = line.find('('), close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return false;
  entry->pid = pid;
  entry->name = line.substr(open + 1, close - open - 1);
  std::istringstream rest(line.substr(close + 1));
  rest >> entry->state >> entry->parent;
  constexpr int kFieldsBetween = 17;  // from the fifth to the twenty-first
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) rest >> skipped;
  return static_cast<bool>(rest >> entry->born);
}

std::vector<ProcessEntry> All() {
  std::vector<ProcessEntry> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    ProcessEntry process;
    if (Read(static_cast<pid_t>(std::stol(name)), &process)) all.push_back(std::move(process));
  }
  return all;
}

}  // namespace

std::vector<ProcessEntry> Tree(pid_t root) {
  const std::vector<ProcessEntry> all = All();
  std::vector<ProcessEntry> tree;
  for (const ProcessEntry& process : all) {
    if (process.pid == root) tree.push_back(process);
  }
  for (size_t i = 0; i < tree.size(); ++i) {
    const pid_t parent = tree[i].pid;
    for (const ProcessEntry& process : all) {
      if (process.parent == parent) tree.push_back(process);
    }
  }
  return tree;
}

std::vector<ProcessEntry> Backends(pid_t root) {
  std::vector<ProcessEntry> backends = Tree(root);
  std::erase_if(backends, [](const ProcessEntry& process) {
    return !process.name.starts_with("kcache-backend") || process.state == 'Z';
  });
  return backends;
}

bool Runs(const ProcessEntry& process) {
  ProcessEntry now;
  return Read(process.pid, &now) && now.born == process.born && now.state != 'Z' &&
         now.state != 'X';
}

uint64_t ResidentBytes(pid_t pid) {
  std::ifstream statm(absl::StrCat("/proc/", pid, "/statm"));
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string DirectoryOf(pid_t launcher) {
  std::ifstream file(absl::StrCat("/proc/", launcher, "/cmdline"));
  const std::string line((std::istreambuf_iterator<char>(file)), {});
  constexpr char kDirectory[] = "--directory=";
  const size_t at = line.find(kDirectory);
  return at == std::string::npos ? "" : line.c_str() + at + sizeof kDirectory - 1;
}

}  // namespace kcache::domains
