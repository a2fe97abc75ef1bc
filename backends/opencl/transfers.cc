// Buffers: allocating, and moving bytes.

#include <algorithm>
#include <memory>
#include <string>

#include "backends/opencl/cl_status.h"
#include "backends/opencl/context.h"

namespace kcache::backend::opencl {

absl::StatusOr<MemoryHandle> OpenClContext::Register(ClMemory memory, uint64_t bytes,
                                                     bool is_image) {
  if (absl::Status status = Commit(memory.get()); !status.ok()) return status;
  const MemoryHandle handle = NextHandle();
  memory_.Insert(handle, std::make_shared<DeviceMemory>(std::move(memory), bytes, is_image,
                                                        sub_buffer_alignment_));
  return handle;
}

absl::Status OpenClContext::Commit(cl_mem memory) {
  if (info_.is_cpu()) return absl::OkStatus();  // those allocate in clCreateBuffer
  cl_int error = clEnqueueMigrateMemObjects(
      setup_queue_.get(), 1, &memory, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, nullptr, nullptr);
  if (error == CL_SUCCESS) error = clFinish(setup_queue_.get());
  return FromCl(error, "committing device memory");
}

absl::StatusOr<MemoryHandle> OpenClContext::Allocate(uint64_t bytes, MemoryKind kind) {
  cl_int error = CL_SUCCESS;
  const cl_mem_flags flags =
      CL_MEM_READ_WRITE | (kind == MemoryKind::kHostVisible ? CL_MEM_ALLOC_HOST_PTR : 0);
  ClMemory memory(clCreateBuffer(context_.get(), flags, bytes, nullptr, &error));
  if (error != CL_SUCCESS) return FromCl(error, "allocating " + std::to_string(bytes) + " bytes");
  return Register(std::move(memory), bytes, /*is_image=*/false);
}

absl::Status OpenClContext::Free(MemoryHandle memory) {
  absl::StatusOr<std::shared_ptr<DeviceMemory>> taken = memory_.Take(memory);
  if (!taken.ok()) return taken.status();
  return (*taken)->Release();
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> OpenClContext::BufferOf(MemoryHandle memory) const {
  absl::StatusOr<std::shared_ptr<DeviceMemory>> found = memory_.Get(memory);
  if (found.ok() && (*found)->is_image()) {
    return MakeError(v1::INVALID_ARGUMENTS, "an image where a buffer is needed");
  }
  return found;
}

absl::Status OpenClContext::Write(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                                  std::string_view data) {
  absl::StatusOr<std::shared_ptr<ClQueue>> cl_queue = queues_.Get(queue);
  if (!cl_queue.ok()) return cl_queue.status();
  absl::StatusOr<std::shared_ptr<DeviceMemory>> memory = BufferOf(destination);
  if (!memory.ok()) return memory.status();
  return FromCl(clEnqueueWriteBuffer((*cl_queue)->get(), (*memory)->get(), CL_FALSE, offset,
                                     data.size(), data.data(), 0, nullptr, nullptr),
                "clEnqueueWriteBuffer");
}

absl::Status OpenClContext::Read(QueueHandle queue, MemoryHandle source, uint64_t offset,
                                 std::span<char> destination) {
  absl::StatusOr<std::shared_ptr<ClQueue>> cl_queue = queues_.Get(queue);
  if (!cl_queue.ok()) return cl_queue.status();
  absl::StatusOr<std::shared_ptr<DeviceMemory>> memory = BufferOf(source);
  if (!memory.ok()) return memory.status();
  return FromCl(clEnqueueReadBuffer((*cl_queue)->get(), (*memory)->get(), CL_FALSE, offset,
                                    destination.size(), destination.data(), 0, nullptr, nullptr),
                "clEnqueueReadBuffer");
}

absl::Status OpenClContext::Copy(QueueHandle queue, MemoryHandle source, uint64_t source_offset,
                                 MemoryHandle destination, uint64_t destination_offset,
                                 uint64_t bytes) {
  absl::StatusOr<std::shared_ptr<ClQueue>> cl_queue = queues_.Get(queue);
  if (!cl_queue.ok()) return cl_queue.status();
  absl::StatusOr<std::shared_ptr<DeviceMemory>> from = BufferOf(source);
  if (!from.ok()) return from.status();
  absl::StatusOr<std::shared_ptr<DeviceMemory>> to = BufferOf(destination);
  if (!to.ok()) return to.status();
  return FromCl(clEnqueueCopyBuffer((*cl_queue)->get(), (*from)->get(), (*to)->get(), source_offset,
                                    destination_offset, bytes, 0, nullptr, nullptr),
                "clEnqueueCopyBuffer");
}

absl::Status OpenClContext::Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                                 uint64_t bytes, std::string_view pattern) {
  absl::StatusOr<std::shared_ptr<ClQueue>> cl_queue = queues_.Get(queue);
  if (!cl_queue.ok()) return cl_queue.status();
  absl::StatusOr<std::shared_ptr<DeviceMemory>> memory = BufferOf(destination);
  if (!memory.ok()) return memory.status();
  if (bytes == 0) return absl::OkStatus();
  // OpenCL wants the offset to be a multiple of the pattern; else the filled bytes are written.
  if (offset % pattern.size() == 0) {
    return FromCl(clEnqueueFillBuffer((*cl_queue)->get(), (*memory)->get(), pattern.data(),
                                      pattern.size(), offset, bytes, 0, nullptr, nullptr),
                  "clEnqueueFillBuffer");
  }
  auto filled = std::make_unique<std::string>();
  filled->reserve(bytes);
  while (filled->size() < bytes) filled->append(pattern);
  filled->resize(bytes);
  cl_event written = nullptr;
  cl_int error = clEnqueueWriteBuffer((*cl_queue)->get(), (*memory)->get(), CL_FALSE, offset, bytes,
                                      filled->data(), 0, nullptr, &written);
  if (error != CL_SUCCESS) return FromCl(error, "clEnqueueWriteBuffer");
  const ClEvent event(written);
  error = clSetEventCallback(
      written, CL_COMPLETE,
      [](cl_event, cl_int, void* data) { delete static_cast<std::string*>(data); }, filled.get());
  if (error != CL_SUCCESS) {
    clWaitForEvents(1, &written);  // the bytes are needed until then
    return FromCl(error, "clSetEventCallback");
  }
  filled.release();  // the callback's now
  return absl::OkStatus();
}

}  // namespace kcache::backend::opencl
