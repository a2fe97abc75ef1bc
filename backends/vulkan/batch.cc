#include "backends/vulkan/batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/vulkan/vulkan_status.h"

namespace kcache::backend::vulkan {
namespace {

constexpr uint64_t kStagingChunk = 1 << 20;
constexpr uint64_t kStagingAlign = 16;
constexpr uint32_t kSetsPerPool = 128;
constexpr uint32_t kDescriptorsPerPool = 1024;
// A longer list costs more to search than the barrier it saves.
constexpr size_t kMaxTouched = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<Batch>> Batch::Create(Device* device, Allocator* allocator) {
  auto batch = std::unique_ptr<Batch>(new Batch(device, allocator));
  auto pool = Structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool.queueFamilyIndex = device->queue_family();
  VkResult result = device->vk().CreateCommandPool(device->handle(), &pool, nullptr, &batch->pool_);
  if (result != VK_SUCCESS) {
    batch->pool_ = VK_NULL_HANDLE;
    return ResultStatus(result, "making a command pool");
  }
  auto allocate =
      Structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  allocate.commandPool = batch->pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  result = device->vk().AllocateCommandBuffers(device->handle(), &allocate, &batch->commands_);
  if (result != VK_SUCCESS) return ResultStatus(result, "allocating a command buffer");
  return batch;
}

Batch::~Batch() {
  for (VkDescriptorPool pool : descriptor_pools_) {
    device_->vk().DestroyDescriptorPool(device_->handle(), pool, nullptr);
  }
  if (pool_ != VK_NULL_HANDLE) {
    device_->vk().DestroyCommandPool(device_->handle(), pool_, nullptr);
  }
}

absl::Status Batch::Begin() {
  auto begin = Structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  absl::Status begun =
      ResultStatus(device_->vk().BeginCommandBuffer(commands_, &begin), "beginning commands");
  // In order after what this queue was given before.
  if (begun.ok()) Barrier();
  return begun;
}

absl::Status Batch::End() {
  if (!readbacks_.empty()) {
    auto barrier = Structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    device_->vk().CmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                     VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, nullptr, 0,
                                     nullptr);
  }
  return ResultStatus(device_->vk().EndCommandBuffer(commands_), "ending commands");
}

absl::Status Batch::Reset() {
  for (const Readback& readback : readbacks_) {
    std::memcpy(readback.to, readback.from, readback.bytes);
  }
  readbacks_.clear();
  retained_.clear();
  retained_set_.clear();
  for (Arena* arena : {&upload_, &readback_}) {
    // What one large transfer needed is not kept for the small ones that follow.
    std::erase_if(arena->chunks, [](const auto& chunk) { return chunk->bytes() > kStagingChunk; });
    if (arena->chunks.size() > 1) arena->chunks.resize(1);
    arena->current = 0;
    arena->used = 0;
  }
  staging_used_ = 0;
  command_count_ = 0;
  touched_.clear();
  touched_everything_ = false;
  bound_pipeline_ = nullptr;
  bound_buffers_.clear();
  current_pool_ = 0;
  for (VkDescriptorPool pool : descriptor_pools_) {
    // Cannot fail, by the specification.
    device_->vk().ResetDescriptorPool(device_->handle(), pool, 0);
  }
  return ResultStatus(device_->vk().ResetCommandPool(device_->handle(), pool_, 0),
                      "resetting a command pool");
}

void Batch::Retain(std::shared_ptr<const void> object) {
  if (retained_set_.insert(object.get()).second) retained_.push_back(std::move(object));
}

absl::StatusOr<Staging> Batch::Stage(uint64_t bytes, MemoryUse use) {
  Arena& arena = use == MemoryUse::kReadback ? readback_ : upload_;
  const uint64_t need = (bytes + kStagingAlign - 1) / kStagingAlign * kStagingAlign;
  while (arena.current < arena.chunks.size() &&
         arena.used + need > arena.chunks[arena.current]->bytes()) {
    ++arena.current;
    arena.used = 0;
  }
  if (arena.current == arena.chunks.size()) {
    auto chunk = allocator_->Allocate(std::max(need, kStagingChunk), use);
    if (!chunk.ok()) return chunk.status();
    arena.chunks.push_back(*std::move(chunk));
    arena.used = 0;
  }
  Allocation* const chunk = arena.chunks[arena.current].get();
  const Staging staging = {chunk, arena.used, chunk->mapped() + arena.used};
  arena.used += need;
  staging_used_ += need;
  return staging;
}

void Batch::Barrier() {
  auto barrier = Structure<VkMemoryBarrier>(VK_STRUCTURE_TYPE_MEMORY_BARRIER);
  barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  device_->vk().CmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                                   VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &barrier, 0, nullptr,
                                   0, nullptr);
  touched_.clear();
  touched_everything_ = false;
}

void Batch::Access(std::span<const Touch> touches, bool everything) {
  bool conflict = touched_everything_ || (everything && !touched_.empty()) ||
                  touched_.size() + touches.size() > kMaxTouched;
  for (const Touch& touch : touches) {
    if (conflict) break;
    conflict = std::any_of(touched_.begin(), touched_.end(), [&](const Touch& earlier) {
      return earlier.allocation == touch.allocation && (earlier.write || touch.write);
    });
  }
  if (conflict) Barrier();
  touched_.insert(touched_.end(), touches.begin(), touches.end());
  touched_everything_ = touched_everything_ || everything;
  ++command_count_;
}

absl::StatusOr<std::vector<VkDescriptorSet>> Batch::AllocateSets(const Pipeline& pipeline) {
  std::vector<VkDescriptorSet> sets(pipeline.set_layouts().size());
  auto allocate =
      Structure<VkDescriptorSetAllocateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO);
  allocate.descriptorSetCount = static_cast<uint32_t>(sets.size());
  allocate.pSetLayouts = pipeline.set_layouts().data();
  for (;;) {
    const bool fresh = current_pool_ == descriptor_pools_.size();
    if (fresh) {
      // Large enough for any one pipeline, whatever its kinds of buffers.
      const auto needed = static_cast<uint32_t>(pipeline.slots().size());
      const VkDescriptorPoolSize sizes[] = {
          {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, std::max(kDescriptorsPerPool, needed)},
          {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, std::max(kDescriptorsPerPool / 4, needed)}};
      auto create =
          Structure<VkDescriptorPoolCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO);
      create.maxSets = std::max(kSetsPerPool, allocate.descriptorSetCount);
      create.poolSizeCount = 2;
      create.pPoolSizes = sizes;
      VkDescriptorPool pool = VK_NULL_HANDLE;
      const VkResult result =
          device_->vk().CreateDescriptorPool(device_->handle(), &create, nullptr, &pool);
      if (result != VK_SUCCESS) return ResultStatus(result, "making a descriptor pool");
      descriptor_pools_.push_back(pool);
    }
    allocate.descriptorPool = descriptor_pools_[current_pool_];
    const VkResult result =
        device_->vk().AllocateDescriptorSets(device_->handle(), &allocate, sets.data());
    if (result == VK_SUCCESS) return sets;
    const bool full = result == VK_ERROR_OUT_OF_POOL_MEMORY || result == VK_ERROR_FRAGMENTED_POOL;
    if (!full || fresh) return ResultStatus(result, "allocating descriptor sets");
    ++current_pool_;
  }
}

absl::Status Batch::Bind(const Pipeline& pipeline, std::span<const BoundBuffer> buffers) {
  const DeviceTable& vk = device_->vk();
  const bool same_pipeline = bound_pipeline_ == &pipeline;
  if (!same_pipeline) {
    vk.CmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.handle());
    bound_pipeline_ = &pipeline;
  } else if (std::equal(buffers.begin(), buffers.end(), bound_buffers_.begin(),
                        bound_buffers_.end())) {
    return absl::OkStatus();
  }
  bound_buffers_.assign(buffers.begin(), buffers.end());
  if (pipeline.set_layouts().empty()) return absl::OkStatus();
  auto sets = AllocateSets(pipeline);
  if (!sets.ok()) {
    bound_pipeline_ = nullptr;
    return sets.status();
  }
  std::vector<VkDescriptorBufferInfo> infos(buffers.size());
  std::vector<VkWriteDescriptorSet> writes(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const DescriptorSlot& slot = pipeline.slots()[i];
    infos[i] = {buffers[i].allocation->buffer(), buffers[i].offset, buffers[i].bytes};
    writes[i] = Structure<VkWriteDescriptorSet>(VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET);
    writes[i].dstSet = (*sets)[slot.set];
    writes[i].dstBinding = slot.binding;
    writes[i].dstArrayElement = slot.element;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = slot.type;
    writes[i].pBufferInfo = &infos[i];
  }
  vk.UpdateDescriptorSets(device_->handle(), static_cast<uint32_t>(writes.size()), writes.data(), 0,
                          nullptr);
  vk.CmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout(), 0,
                           static_cast<uint32_t>(sets->size()), sets->data(), 0, nullptr);
  return absl::OkStatus();
}

}  // namespace kcache::backend::vulkan
