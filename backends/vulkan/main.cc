// kcache-backend-vulkan: Vulkan devices and SPIR-V for kcached.

#include <memory>

#include "backends/sdk/driver.h"
#include "backends/vulkan/family.h"

int main(int argc, char** argv) {
  kcache::backend::vulkan::IsolateFromEnvironment();
  return kcache::backend::BackendMain(argc, argv,
                                      std::make_unique<kcache::backend::vulkan::VulkanFamily>());
}
