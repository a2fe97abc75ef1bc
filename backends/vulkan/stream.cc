#include "backends/vulkan/stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/vulkan/vulkan_status.h"

namespace kcache::backend::vulkan {
namespace {

// Submitting costs a few microseconds, so it is shared by many commands; the device should still
// start early on long sequences.
constexpr uint32_t kMaxCommandsPerBatch = 128;
constexpr uint64_t kMaxStagingPerBatch = 16 << 20;
constexpr uint64_t kMaxPendingStaging = 128 << 20;
// Of one piece of a larger transfer.
constexpr uint64_t kMaxTransfer = 16 << 20;
// vkCmdUpdateBuffer carries its data inside the command buffer: for the very small only.
constexpr uint64_t kMaxInline = 1024;
// What a fill by copies repeats: at most this much staging memory.
constexpr uint64_t kFillTile = 64 << 10;
constexpr size_t kMaxRegions = 1024;
// Of waiting, in nanoseconds.
constexpr uint64_t kFirstSlice = 50'000'000, kLongestSlice = 1'000'000'000;
constexpr size_t kMaxFree = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> Stream::Create(Device* device, Allocator* allocator,
                                                       uint32_t hardware_queue) {
  auto stream = std::unique_ptr<Stream>(new Stream(device, allocator, hardware_queue));
  auto type = Structure<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  auto create = Structure<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
  create.pNext = &type;
  const VkResult result =
      device->vk().CreateSemaphore(device->handle(), &create, nullptr, &stream->timeline_);
  if (result != VK_SUCCESS) {
    stream->timeline_ = VK_NULL_HANDLE;
    return ResultStatus(result, "making a timeline semaphore");
  }
  return stream;
}

Stream::~Stream() {
  if (timeline_ != VK_NULL_HANDLE) {
    device_->vk().DestroySemaphore(device_->handle(), timeline_, nullptr);
  }
}

absl::StatusOr<Batch*> Stream::Open() {
  if (open_ != nullptr) return open_.get();
  absl::Status reclaimed = Reclaim();
  if (!reclaimed.ok()) return reclaimed;
  std::unique_ptr<Batch> batch;
  {
    MutexLock lock(&mutex_);
    if (!free_.empty()) {
      batch = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (batch == nullptr) {
    auto made = Batch::Create(device_, allocator_);
    if (!made.ok()) return made.status();
    batch = *std::move(made);
  }
  absl::Status begun = batch->Begin();
  if (!begun.ok()) return begun;
  open_ = std::move(batch);
  return open_.get();
}

absl::Status Stream::Submit() {
  if (open_ == nullptr) return absl::OkStatus();
  absl::Status ended = open_->End();
  if (!ended.ok()) return ended;
  const uint64_t value = submitted_ + 1;
  open_->set_value(value);
  auto timeline =
      Structure<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &value;
  const VkCommandBuffer commands = open_->commands();
  auto submit = Structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
  submit.pNext = &timeline;
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  submit.signalSemaphoreCount = 1;
  submit.pSignalSemaphores = &timeline_;
  absl::Status sent = device_->Submit(hardware_queue_, submit);
  if (!sent.ok()) return sent;
  submitted_ = value;
  MutexLock lock(&mutex_);
  pending_.push_back(std::move(open_));
  return absl::OkStatus();
}

absl::Status Stream::SubmitIfLong() {
  if (open_->command_count() < kMaxCommandsPerBatch &&
      open_->staging_bytes() < kMaxStagingPerBatch) {
    return absl::OkStatus();
  }
  return Submit();
}

absl::Status Stream::Reclaim() {
  uint64_t done = 0;
  const VkResult result =
      device_->vk().GetSemaphoreCounterValue(device_->handle(), timeline_, &done);
  if (result != VK_SUCCESS) return ResultStatus(result, "asking how far a queue has got");
  absl::Status completed = Complete(done);
  if (!completed.ok()) return completed;
  for (;;) {
    uint64_t staging = 0, oldest = 0;
    {
      MutexLock lock(&mutex_);
      for (const auto& batch : pending_) staging += batch->staging_bytes();
      if (!pending_.empty()) oldest = pending_.front()->value();
    }
    if (staging <= kMaxPendingStaging || oldest == 0) return absl::OkStatus();
    absl::Status waited = Wait(oldest);
    if (!waited.ok()) return waited;
  }
}

// One thread at a time completes, and whoever needs what another one is completing waits for it:
// a marker is done only when the data that was read before it has arrived.
absl::Status Stream::Complete(uint64_t value) {
  std::vector<std::unique_ptr<Batch>> done;
  {
    MutexLock lock(&mutex_);
    while (completing_) completed_.Wait(&mutex_);
    while (!pending_.empty() && pending_.front()->value() <= value) {
      done.push_back(std::move(pending_.front()));
      pending_.pop_front();
    }
    if (done.empty()) return absl::OkStatus();
    completing_ = true;
  }
  absl::Status failure;
  for (const auto& batch : done) failure.Update(batch->Reset());
  std::vector<std::unique_ptr<Batch>> surplus;
  {
    MutexLock lock(&mutex_);
    for (auto& batch : done) {
      (free_.size() < kMaxFree && failure.ok() ? free_ : surplus).push_back(std::move(batch));
    }
    completing_ = false;
    completed_.NotifyAll();
  }
  return failure;
}

absl::Status Stream::Wait(uint64_t value) {
  auto wait = Structure<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  wait.semaphoreCount = 1;
  wait.pSemaphores = &timeline_;
  wait.pValues = &value;
  // In slices: a driver has been seen (NVIDIA 580, after an MMU fault) to wait for ever on a device that
  // it had lost, and to say so to who asks otherwise. A submission of nothing is such a question, but
  // it queues up behind a long kernel, so it is put each time that the wait has doubled.
  uint64_t waited = 0, slice = kFirstSlice, next_probe = kFirstSlice;
  for (;;) {
    VkResult result = device_->vk().WaitSemaphores(device_->handle(), &wait, slice);
    if (result == VK_TIMEOUT) {
      waited += slice;
      slice = std::min(2 * slice, kLongestSlice);
      uint64_t done = 0;
      result = device_->vk().GetSemaphoreCounterValue(device_->handle(), timeline_, &done);
      if (result == VK_SUCCESS && waited >= next_probe) {
        next_probe = 2 * waited;
        const absl::Status asked =
            device_->Submit(hardware_queue_, Structure<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO));
        if (!asked.ok()) return asked;
      }
      if (result == VK_SUCCESS) continue;
    }
    if (result != VK_SUCCESS) return ResultStatus(result, "waiting for a queue");
    return Complete(value);
  }
}

absl::Status Stream::Flush() { return Submit(); }

absl::StatusOr<uint64_t> Stream::Mark() {
  absl::Status sent = Submit();
  if (!sent.ok()) return sent;
  return submitted_;
}

absl::Status Stream::Launch(const Dispatch& dispatch) {
  auto batch = Open();
  if (!batch.ok()) return batch.status();
  const Pipeline& pipeline = *dispatch.pipeline;
  std::vector<BoundBuffer> bound;
  std::vector<Batch::Touch> touches;
  bound.reserve(dispatch.buffers.size());
  touches.reserve(dispatch.buffers.size());
  for (size_t i = 0; i < dispatch.buffers.size(); ++i) {
    const BufferArgument& argument = dispatch.buffers[i];
    bound.push_back({argument.allocation.get(), argument.offset, argument.bytes});
    touches.push_back({argument.allocation.get(), !pipeline.slots()[i].read_only});
    (*batch)->Retain(argument.allocation);
  }
  (*batch)->Retain(dispatch.pipeline);
  const DeviceTable& vk = device_->vk();
  for (uint32_t i = 0; i < dispatch.repeat; ++i) {
    (*batch)->Access(touches, pipeline.entry().uses_addresses);
    absl::Status ready = (*batch)->Bind(pipeline, bound);
    if (!ready.ok()) return ready;
    if (!dispatch.push_constants.empty()) {
      vk.CmdPushConstants((*batch)->commands(), pipeline.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          static_cast<uint32_t>(dispatch.push_constants.size()),
                          dispatch.push_constants.data());
    }
    vk.CmdDispatch((*batch)->commands(), dispatch.grid[0], dispatch.grid[1], dispatch.grid[2]);
    if ((*batch)->command_count() < kMaxCommandsPerBatch || i + 1 == dispatch.repeat) continue;
    absl::Status sent = Submit();
    if (!sent.ok()) return sent;
    batch = Open();
    if (!batch.ok()) return batch.status();
    for (const BufferArgument& argument : dispatch.buffers) (*batch)->Retain(argument.allocation);
    (*batch)->Retain(dispatch.pipeline);
  }
  return SubmitIfLong();
}

absl::Status Stream::Write(const std::shared_ptr<Allocation>& destination, uint64_t offset,
                           std::string_view data) {
  while (!data.empty()) {
    const std::string_view piece = data.substr(0, kMaxTransfer);
    auto batch = Open();
    if (!batch.ok()) return batch.status();
    (*batch)->Retain(destination);
    const Batch::Touch touch = {destination.get(), true};
    if (piece.size() <= kMaxInline && piece.size() % 4 == 0 && offset % 4 == 0) {
      (*batch)->Access({&touch, 1});
      device_->vk().CmdUpdateBuffer((*batch)->commands(), destination->buffer(), offset,
                                    piece.size(), piece.data());
    } else {
      auto staging = (*batch)->Stage(piece.size(), MemoryUse::kUpload);
      if (!staging.ok()) return staging.status();
      std::memcpy(staging->host, piece.data(), piece.size());
      (*batch)->Access({&touch, 1});
      const VkBufferCopy region = {staging->offset, offset, piece.size()};
      device_->vk().CmdCopyBuffer((*batch)->commands(), staging->allocation->buffer(),
                                  destination->buffer(), 1, &region);
    }
    offset += piece.size();
    data.remove_prefix(piece.size());
    absl::Status sent = SubmitIfLong();
    if (!sent.ok()) return sent;
  }
  return absl::OkStatus();
}

absl::Status Stream::Read(const std::shared_ptr<Allocation>& source, uint64_t offset,
                          std::span<char> destination) {
  while (!destination.empty()) {
    const std::span<char> piece =
        destination.first(std::min<uint64_t>(destination.size(), kMaxTransfer));
    auto batch = Open();
    if (!batch.ok()) return batch.status();
    auto staging = (*batch)->Stage(piece.size(), MemoryUse::kReadback);
    if (!staging.ok()) return staging.status();
    (*batch)->Retain(source);
    const Batch::Touch touch = {source.get(), false};
    (*batch)->Access({&touch, 1});
    const VkBufferCopy region = {offset, staging->offset, piece.size()};
    device_->vk().CmdCopyBuffer((*batch)->commands(), source->buffer(),
                                staging->allocation->buffer(), 1, &region);
    (*batch)->CopyToHostWhenDone(staging->host, piece.data(), piece.size());
    offset += piece.size();
    destination = destination.subspan(piece.size());
    absl::Status sent = SubmitIfLong();
    if (!sent.ok()) return sent;
  }
  return absl::OkStatus();
}

absl::Status Stream::Copy(const std::shared_ptr<Allocation>& source, uint64_t source_offset,
                          const std::shared_ptr<Allocation>& destination,
                          uint64_t destination_offset, uint64_t bytes) {
  auto batch = Open();
  if (!batch.ok()) return batch.status();
  (*batch)->Retain(source);
  (*batch)->Retain(destination);
  const std::array<Batch::Touch, 2> touches = {{{source.get(), false}, {destination.get(), true}}};
  (*batch)->Access(touches);
  const VkBufferCopy region = {source_offset, destination_offset, bytes};
  device_->vk().CmdCopyBuffer((*batch)->commands(), source->buffer(), destination->buffer(), 1,
                              &region);
  return SubmitIfLong();
}

absl::Status Stream::Fill(const std::shared_ptr<Allocation>& destination, uint64_t offset,
                          uint64_t bytes, std::string_view pattern) {
  if (bytes == 0) return absl::OkStatus();
  auto batch = Open();
  if (!batch.ok()) return batch.status();
  (*batch)->Retain(destination);
  const Batch::Touch touch = {destination.get(), true};
  (*batch)->Access({&touch, 1});
  absl::Status filled = pattern.size() <= 4
                            ? FillWords(*batch, *destination, offset, bytes, pattern)
                            : FillByCopies(*batch, *destination, offset, bytes, pattern);
  if (!filled.ok()) return filled;
  return SubmitIfLong();
}

// vkCmdFillBuffer writes whole words: the ends that are none are copied, and the word is the
// pattern as it falls at the first whole word. The pieces do not overlap, so they need no order.
absl::Status Stream::FillWords(Batch* batch, const Allocation& destination, uint64_t offset,
                               uint64_t bytes, std::string_view pattern) {
  const uint64_t end = offset + bytes;
  const uint64_t first = std::min((offset + 3) / 4 * 4, end);
  const uint64_t last = std::max(end / 4 * 4, first);
  if (last > first) {
    uint32_t word = 0;
    std::array<char, 4> repeated;
    for (size_t i = 0; i < 4; ++i) repeated[i] = pattern[(first - offset + i) % pattern.size()];
    std::memcpy(&word, repeated.data(), 4);
    device_->vk().CmdFillBuffer(batch->commands(), destination.buffer(), first, last - first, word);
  }
  for (const auto& [from, to] : {std::pair(offset, first), std::pair(last, end)}) {
    if (from == to) continue;
    auto staging = batch->Stage(to - from, MemoryUse::kUpload);
    if (!staging.ok()) return staging.status();
    for (uint64_t i = 0; i < to - from; ++i) {
      staging->host[i] = pattern[(from - offset + i) % pattern.size()];
    }
    const VkBufferCopy region = {staging->offset, from, to - from};
    device_->vk().CmdCopyBuffer(batch->commands(), staging->allocation->buffer(),
                                destination.buffer(), 1, &region);
  }
  return absl::OkStatus();
}

absl::Status Stream::FillByCopies(Batch* batch, const Allocation& destination, uint64_t offset,
                                  uint64_t bytes, std::string_view pattern) {
  const uint64_t tile = std::min(bytes, kFillTile);  // a multiple of the pattern: both are
  auto staging = batch->Stage(tile, MemoryUse::kUpload);
  if (!staging.ok()) return staging.status();
  for (uint64_t i = 0; i < tile; i += pattern.size()) {
    std::memcpy(staging->host + i, pattern.data(), pattern.size());
  }
  std::vector<VkBufferCopy> regions;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t piece = std::min(tile, bytes - done);
    regions.push_back({staging->offset, offset + done, piece});
    done += piece;
    if (regions.size() < kMaxRegions && done < bytes) continue;
    device_->vk().CmdCopyBuffer(batch->commands(), staging->allocation->buffer(),
                                destination.buffer(), static_cast<uint32_t>(regions.size()),
                                regions.data());
    regions.clear();
  }
  return absl::OkStatus();
}

}  // namespace kcache::backend::vulkan
