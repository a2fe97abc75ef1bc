#include "backends/vulkan/memory.h"

#include "absl/strings/str_cat.h"
#include "backends/vulkan/vulkan_status.h"
#include "contract/error_reason.h"

namespace kcache::backend::vulkan {
namespace {

constexpr uint64_t kWord = 4;  // vkCmdFillBuffer and vkCmdUpdateBuffer count in words

struct Wanted {
  VkMemoryPropertyFlags required, preferred;
};

Wanted PropertiesFor(MemoryUse use) {
  constexpr VkMemoryPropertyFlags kMapped =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  switch (use) {
    case MemoryUse::kDevice:
      return {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    case MemoryUse::kReadback:
      return {kMapped, VK_MEMORY_PROPERTY_HOST_CACHED_BIT};
    case MemoryUse::kHost:
    case MemoryUse::kUpload:
      break;
  }
  return {kMapped, 0};
}

}  // namespace

Allocation::~Allocation() {
  Device* const device = allocator_->device_;
  if (buffer_ != VK_NULL_HANDLE) device->vk().DestroyBuffer(device->handle(), buffer_, nullptr);
  // Freeing unmaps.
  if (memory_ != VK_NULL_HANDLE) device->vk().FreeMemory(device->handle(), memory_, nullptr);
  if (charged_ != 0) allocator_->Refund(heap_, charged_);
}

absl::Status Allocator::Charge(uint32_t heap, uint64_t bytes) {
  const uint64_t size = device_->physical().memory.memoryHeaps[heap].size;
  MutexLock lock(&mutex_);
  if (bytes > size - used_[heap]) {
    return MakeError(v1::OUT_OF_DEVICE_MEMORY,
                     absl::StrCat(bytes, " bytes do not fit: memory heap ", heap, " has ", size,
                                  " bytes, ", used_[heap], " are in use here"),
                     {{"limit", "memory_heap_bytes"}, {"value", absl::StrCat(size)}});
  }
  used_[heap] += bytes;
  return absl::OkStatus();
}

void Allocator::Refund(uint32_t heap, uint64_t bytes) {
  MutexLock lock(&mutex_);
  used_[heap] -= bytes;
}

absl::StatusOr<std::shared_ptr<Allocation>> Allocator::Allocate(uint64_t bytes, MemoryUse use) {
  const PhysicalDevice& physical = device_->physical();
  uint64_t limit = physical.maintenance3.maxMemoryAllocationSize;
  if (limit > UINT64_MAX - kWord) limit = UINT64_MAX - kWord;
  if (bytes == 0 || bytes > limit) {
    return MakeError(
        bytes == 0 ? v1::BAD_REQUEST : v1::OUT_OF_DEVICE_MEMORY,
        absl::StrCat("an allocation of ", bytes, " bytes; 1 to ", limit, " are possible"),
        {{"limit", "maxMemoryAllocationSize"}, {"value", absl::StrCat(limit)}});
  }
  auto allocation = std::shared_ptr<Allocation>(new Allocation(this));
  allocation->bytes_ = bytes;
  allocation->padded_ = (bytes + kWord - 1) / kWord * kWord;
  const DeviceTable& vk = device_->vk();

  auto create = Structure<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  create.size = allocation->padded_;
  create.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT;
  VkResult result = vk.CreateBuffer(device_->handle(), &create, nullptr, &allocation->buffer_);
  if (result != VK_SUCCESS) {
    allocation->buffer_ = VK_NULL_HANDLE;
    return ResultStatus(result, absl::StrCat("making a buffer of ", bytes, " bytes"));
  }
  VkMemoryRequirements requirements;
  vk.GetBufferMemoryRequirements(device_->handle(), allocation->buffer_, &requirements);
  const Wanted wanted = PropertiesFor(use);
  auto type = device_->MemoryType(requirements.memoryTypeBits, wanted.required, wanted.preferred);
  if (!type.ok()) return type.status();
  const uint32_t heap = physical.memory.memoryTypes[*type].heapIndex;
  absl::Status charged = Charge(heap, requirements.size);
  if (!charged.ok()) return charged;
  allocation->heap_ = heap;
  allocation->charged_ = requirements.size;

  auto allocate = Structure<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  allocate.allocationSize = requirements.size;
  allocate.memoryTypeIndex = *type;
  result = vk.AllocateMemory(device_->handle(), &allocate, nullptr, &allocation->memory_);
  if (result != VK_SUCCESS) {
    allocation->memory_ = VK_NULL_HANDLE;
    return ResultStatus(result, absl::StrCat("allocating ", bytes, " bytes"));
  }
  result = vk.BindBufferMemory(device_->handle(), allocation->buffer_, allocation->memory_, 0);
  if (result != VK_SUCCESS) return ResultStatus(result, "binding memory to a buffer");
  if (use == MemoryUse::kUpload || use == MemoryUse::kReadback) {
    void* mapped = nullptr;
    result = vk.MapMemory(device_->handle(), allocation->memory_, 0, VK_WHOLE_SIZE, 0, &mapped);
    if (result != VK_SUCCESS)
      return ResultStatus(result, absl::StrCat("mapping ", bytes, " bytes"));
    allocation->mapped_ = static_cast<char*>(mapped);
  }
  return allocation;
}

}  // namespace kcache::backend::vulkan
