#include "tests/chaos/leftovers.h"

#include <filesystem>

namespace kcache::chaos {
namespace {

namespace fs = std::filesystem;

// Of /dev/shm, where drivers and languages' runtimes put theirs.
std::set<std::string> MemoryFiles() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

bool IsSocket(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_socket(error);
}

}  // namespace

Leftovers::Leftovers() : memory_files_(MemoryFiles()) {}

void Leftovers::Record(const std::string& runtime_directory, const History* history) const {
  const auto left = [history](std::string_view what, const std::string& name) {
    history->Record("left", {{"what", what}, {"name", name}});
  };
  history->Record("looked-for", {{"what", "memory files"}});
  for (const std::string& name : MemoryFiles()) {
    if (!memory_files_.contains(name)) left("memory file", name);
  }
  std::error_code error;
  history->Record("looked-for", {{"what", "sockets"}});
  for (const auto& entry : fs::recursive_directory_iterator(runtime_directory, error)) {
    if (IsSocket(entry)) left("socket", entry.path().string());
  }
  history->Record("looked-for", {{"what", "directories of processes"}});
  for (const auto& entry : fs::recursive_directory_iterator(runtime_directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("host-") || name.starts_with("compile-") || name.starts_with("probe-")) {
      left("directory", entry.path().string());
    }
  }
}

}  // namespace kcache::chaos
