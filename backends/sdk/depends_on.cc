#include "backends/sdk/depends_on.h"

#include <link.h>

#include <cstdlib>
#include <set>
#include <string_view>

namespace kcache::backend {
namespace {

// A variable that says where, and where it is without it; both separated by ":".
constexpr std::pair<const char*, const char*> kPlaces[] = {
    {"OCL_ICD_VENDORS", "/etc/OpenCL/vendors"},
    {"OPENCL_VENDOR_PATH", ""},
    {"OCL_ICD_FILENAMES", ""},
    {"VK_DRIVER_FILES", "/usr/share/vulkan/icd.d:/etc/vulkan/icd.d"},
    {"VK_ICD_FILENAMES", ""},
    {"KCACHE_CUDA_TOOLKIT", ""},
};

constexpr const char* kAlways[] = {
    // Rewritten whenever a library is installed or removed: how one that is missing comes.
    "/etc/ld.so.cache",
    // Nodes that come and go with a kernel module.
    "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/kfd", "/dev/dri"};

void AddEach(std::string_view list, std::set<std::string>* paths) {
  while (!list.empty()) {
    const size_t colon = std::min(list.find(':'), list.size());
    const std::string_view path = list.substr(0, colon);
    if (path.starts_with('/')) paths->emplace(path);
    list.remove_prefix(std::min(colon + 1, list.size()));
  }
}

}  // namespace

std::vector<std::string> ProbeDependencies() {
  std::set<std::string> paths(std::begin(kAlways), std::end(kAlways));
  for (const auto& [variable, otherwise] : kPlaces) {
    const char* value = std::getenv(variable);
    AddEach(value != nullptr ? value : otherwise, &paths);
  }
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        const std::string_view path = info->dlpi_name;
        if (path.starts_with('/')) static_cast<std::set<std::string>*>(data)->emplace(path);
        return 0;
      },
      &paths);
  return {paths.begin(), paths.end()};
}

}  // namespace kcache::backend
