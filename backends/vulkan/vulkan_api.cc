#include "backends/vulkan/vulkan_api.h"

#include <dlfcn.h>

#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/mutex.h"

namespace kcache::backend::vulkan {
namespace {

absl::Status Missing(const char* name) {
  return MakeError(v1::BACKEND_UNAVAILABLE, absl::StrCat("the Vulkan driver lacks vk", name));
}

absl::StatusOr<std::unique_ptr<GlobalTable>> OpenLoader(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return MakeError(v1::BACKEND_UNAVAILABLE,
                     absl::StrCat(library, " not found: ", why != nullptr ? why : "no reason"));
  }
  auto table = std::make_unique<GlobalTable>();
  table->GetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(handle, "vkGetInstanceProcAddr"));
  if (table->GetInstanceProcAddr == nullptr) return Missing("GetInstanceProcAddr");
#define KCACHE_VULKAN_LOAD(name)                                                              \
  table->name =                                                                               \
      reinterpret_cast<PFN_vk##name>(table->GetInstanceProcAddr(VK_NULL_HANDLE, "vk" #name)); \
  if (table->name == nullptr) return Missing(#name);
  KCACHE_VULKAN_GLOBAL_FUNCTIONS(KCACHE_VULKAN_LOAD)
#undef KCACHE_VULKAN_LOAD
  return table;
}

}  // namespace

absl::StatusOr<const GlobalTable*> LoadVulkan(const std::string& library) {
  static Mutex mutex;
  // Never destroyed: the table must be usable until the last instruction of the process.
  static auto* tables = new std::map<std::string, std::unique_ptr<GlobalTable>>();
  MutexLock lock(&mutex);
  std::unique_ptr<GlobalTable>& table = (*tables)[library];
  if (table == nullptr) {
    auto opened = OpenLoader(library);
    if (!opened.ok()) return opened.status();
    table = *std::move(opened);
  }
  return table.get();
}

absl::StatusOr<InstanceTable> LoadInstanceTable(const GlobalTable& global, VkInstance instance,
                                                bool debug_utils) {
  InstanceTable table;
#define KCACHE_VULKAN_LOAD(name)                                                                 \
  table.name = reinterpret_cast<PFN_vk##name>(global.GetInstanceProcAddr(instance, "vk" #name)); \
  if (table.name == nullptr) return Missing(#name);
  KCACHE_VULKAN_INSTANCE_FUNCTIONS(KCACHE_VULKAN_LOAD)
  if (debug_utils) {
    KCACHE_VULKAN_DEBUG_FUNCTIONS(KCACHE_VULKAN_LOAD)
  }
#undef KCACHE_VULKAN_LOAD
  return table;
}

absl::StatusOr<DeviceTable> LoadDeviceTable(const InstanceTable& instance, VkDevice device) {
  DeviceTable table;
#define KCACHE_VULKAN_LOAD(name)                                                               \
  table.name = reinterpret_cast<PFN_vk##name>(instance.GetDeviceProcAddr(device, "vk" #name)); \
  if (table.name == nullptr) return Missing(#name);
  KCACHE_VULKAN_DEVICE_FUNCTIONS(KCACHE_VULKAN_LOAD)
#undef KCACHE_VULKAN_LOAD
  return table;
}

}  // namespace kcache::backend::vulkan
