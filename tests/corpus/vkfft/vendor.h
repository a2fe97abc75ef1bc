// The vendor of a device as its PCI id, by which VkFFT chooses how it generates programs.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_VENDOR_H_
#define KCACHE_TESTS_CORPUS_VKFFT_VENDOR_H_

#include <cstdint>
#include <string>

#include "kcache/device.h"

namespace kcache::corpus {

// 0: one that VkFFT has nothing of its own for, as a processor, whoever made it.
inline uint32_t PciVendor(const DeviceInfo& device) {
  if (device.is_cpu) return 0;
  const auto says = [&](const char* name) { return device.vendor.find(name) != std::string::npos; };
  if (says("NVIDIA")) return 0x10DE;
  if (says("AMD") || says("Advanced Micro Devices")) return 0x1002;
  if (says("Intel")) return 0x8086;
  return 0;
}

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_VENDOR_H_
