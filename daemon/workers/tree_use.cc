#include "daemon/workers/tree_use.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kcache::workers {
namespace {

uint64_t ReadNumber(const std::string& path, int field) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return 0;
  unsigned long long value = 0;
  for (int i = 0; i <= field; ++i) {
    if (std::fscanf(file, "%llu", &value) != 1) value = 0;
  }
  std::fclose(file);
  return value;
}

// Calls `visit(directory, resident bytes)` for each process of the tree that runs, but no more than `most` of
// them, `directory` being its own in /proc.
template <class Visit>
void ForEachInTree(pid_t pid, uint32_t most, const Visit& visit) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<pid_t> pending{pid};
  uint32_t visited = 0;
  for (uint32_t seen = 0; !pending.empty() && visited < most && seen < kMostOfTree; ++seen) {
    const pid_t next = pending.back();
    pending.pop_back();
    const std::string directory = absl::StrCat("/proc/", next);
    const uint64_t pages = ReadNumber(directory + "/statm", 1);
    if (pages == 0) continue;  // exited, or a zombie
    ++visited;
    visit(directory, pages * page);
    // Children are listed with the thread that forked them.
    const std::string tasks = directory + "/task";
    DIR* listing = opendir(tasks.c_str());
    if (listing == nullptr) continue;
    while (const dirent* task = readdir(listing)) {
      if (task->d_name[0] == '.') continue;
      const std::string children = absl::StrCat(tasks, "/", task->d_name, "/children");
      std::FILE* file = std::fopen(children.c_str(), "re");
      if (file == nullptr) continue;
      for (int child = 0; std::fscanf(file, "%d", &child) == 1;) pending.push_back(child);
      std::fclose(file);
    }
    closedir(listing);
  }
}

// "Pss:   1234 kB"; nothing when it may not be read.
std::optional<uint64_t> ProportionalBytes(const std::string& directory) {
  std::FILE* file = std::fopen((directory + "/smaps_rollup").c_str(), "re");
  if (file == nullptr) return std::nullopt;
  std::optional<uint64_t> bytes;
  char line[256];
  unsigned long long kilobytes = 0;
  while (!bytes && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "Pss: %llu kB", &kilobytes) == 1) bytes = kilobytes << 10;
  }
  std::fclose(file);
  return bytes;
}

}  // namespace

TreeUse UseOfTree(pid_t pid, uint32_t most_processes) {
  TreeUse use;
  ForEachInTree(pid, std::min(most_processes, kMostOfTree), [&use](const std::string&, uint64_t resident) {
    use.resident_bytes += resident;
    ++use.processes;
  });
  return use;
}

uint64_t ProportionalBytesOfTree(pid_t pid) {
  uint64_t bytes = 0;
  ForEachInTree(pid, kMostOfTree, [&bytes](const std::string& directory, uint64_t resident) {
    bytes += ProportionalBytes(directory).value_or(resident);
  });
  return bytes;
}

}  // namespace kcache::workers
