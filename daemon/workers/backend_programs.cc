#include "daemon/workers/backend_programs.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kcache::workers {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "kcache-backend-";
constexpr std::string_view kLauncher = "kcache-launch";

// Which devices and drivers a process sees. What is not here does not reach a backend.
constexpr std::string_view kVisible[] = {
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "OCL_ICD_VENDORS",        "OCL_ICD_FILENAMES",
    "OPENCL_VENDOR_PATH",   "POCL_DEVICES",           "POCL_MAX_PTHREAD_COUNT",
    "VK_ICD_FILENAMES",     "VK_DRIVER_FILES",        "LD_LIBRARY_PATH",
    "KCACHE_CUDA_TOOLKIT",  "KCACHE_FAKE",
};
// A backend's own settings, which only whoever runs kcached can have set.
constexpr std::string_view kVisiblePrefix = "KCACHE_BACKEND_";

bool IsExecutable(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::string NameOfVariable(const std::string& variable) {
  return variable.substr(0, variable.find('='));
}

}  // namespace

std::string OwnDirectory() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

std::vector<std::string> SearchedDirectories(const std::vector<std::string>& configured,
                                             const std::string& own_directory) {
  std::vector<std::string> directories = configured;
  directories.push_back(own_directory);
  directories.push_back(own_directory + "/../libexec/kcache");
  std::error_code ignored;
  std::vector<std::string> build_tree;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(own_directory + "/../backends", ignored)) {
    if (entry.is_directory(ignored)) build_tree.push_back(entry.path().string());
  }
  std::sort(build_tree.begin(), build_tree.end());
  directories.insert(directories.end(), build_tree.begin(), build_tree.end());
  return directories;
}

std::vector<BackendProgram> FindBackendPrograms(const std::vector<std::string>& directories) {
  std::vector<BackendProgram> programs;
  std::set<std::string> seen;
  for (const std::string& directory : directories) {
    std::error_code ignored;
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
      const std::string file = entry.path().filename().string();
      if (file.starts_with(kPrefix) && file.find('.') == std::string::npos &&
          IsExecutable(entry.path())) {
        found.push_back(entry.path());
      }
    }
    std::sort(found.begin(), found.end());
    for (const fs::path& path : found) {
      const std::string name = path.filename().string().substr(kPrefix.size());
      if (name.empty() || !seen.insert(name).second) continue;
      programs.push_back({.name = name,
                          .path = fs::absolute(path, ignored).lexically_normal().string(),
                          .family = FamilyOfName(name),
                          .compile_profile = {}});
    }
  }
  return programs;
}

absl::StatusOr<std::string> LocateLauncher(const std::string& configured,
                                           const std::string& own_directory) {
  std::vector<std::string> candidates;
  if (!configured.empty()) {
    candidates.push_back(configured);
  } else {
    for (const char* directory : {"", "/../libexec/kcache"}) {
      candidates.push_back(absl::StrCat(own_directory, directory, "/",
                                        std::string(kLauncher)));
    }
  }
  for (const std::string& candidate : candidates) {
    if (IsExecutable(candidate)) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("there is no kcache-launch program: looked for ",
                                          absl::StrJoin(candidates, ", ")));
}

std::string FamilyOfName(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kFamilies[] = {
      {"cuda", "CUDA"}, {"hip", "HIP"}, {"opencl", "OpenCL"}, {"vulkan", "Vulkan"},
      {"fake", "Fake"}};
  for (const auto& [known, family] : kFamilies) {
    if (known == name) return std::string(family);
  }
  return std::string(name);
}

BackendPrograms::BackendPrograms(std::vector<std::string> directories)
    : directories_(std::move(directories)), programs_(FindBackendPrograms(directories_)) {}

void BackendPrograms::Rescan() {
  std::vector<BackendProgram> found = FindBackendPrograms(directories_);
  for (BackendProgram& program : found) {
    for (const BackendProgram& old : programs_) {
      if (old.path == program.path) program = old;
    }
  }
  programs_ = std::move(found);
}

BackendProgram* BackendPrograms::Find(std::string_view family) {
  for (BackendProgram& program : programs_) {
    if (program.family == family) return &program;
  }
  return nullptr;
}

std::vector<std::string> BackendEnvironment(const std::string& directory,
                                            const std::vector<std::string>& let_through,
                                            const std::vector<std::string>& extra) {
  std::map<std::string, std::string> variables;
  const auto set = [&variables](const std::string& text) {
    variables[NameOfVariable(text)] = text;
  };
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = NameOfVariable(text);
    if (name.starts_with(kVisiblePrefix) ||
        std::find(std::begin(kVisible), std::end(kVisible), name) != std::end(kVisible) ||
        std::find(let_through.begin(), let_through.end(), name) != let_through.end()) {
      set(text);
    }
  }
  set("PATH=/usr/bin:/bin");
  set("LANG=C.UTF-8");
  set("LC_ALL=C.UTF-8");
  set("TZ=UTC");
  for (const char* name : {"HOME", "TMPDIR", "XDG_CACHE_HOME"}) {
    set(absl::StrCat(name, "=", directory));
  }
  for (const std::string& text : extra) set(text);
  std::vector<std::string> environment;
  environment.reserve(variables.size());
  for (auto& [name, text] : variables) environment.push_back(std::move(text));
  return environment;
}

}  // namespace kcache::workers
