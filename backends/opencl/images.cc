// Images: creating them, and moving pixels to and from buffers.

#include <array>
#include <string>

#include "backends/opencl/cl_status.h"
#include "backends/opencl/context.h"

namespace kcache::backend::opencl {
namespace {

// 0 for what OpenCL has no word for.
cl_channel_order OrderOf(v1::ChannelOrder order) {
  switch (order) {
    case v1::CHANNEL_R:
      return CL_R;
    case v1::CHANNEL_RG:
      return CL_RG;
    case v1::CHANNEL_RGBA:
      return CL_RGBA;
    case v1::CHANNEL_BGRA:
      return CL_BGRA;
    case v1::CHANNEL_A:
      return CL_A;
    default:
      return 0;
  }
}

cl_channel_type TypeOf(v1::ChannelType type) {
  switch (type) {
    case v1::CHANNEL_UNORM8:
      return CL_UNORM_INT8;
    case v1::CHANNEL_UNORM16:
      return CL_UNORM_INT16;
    case v1::CHANNEL_SNORM8:
      return CL_SNORM_INT8;
    case v1::CHANNEL_SNORM16:
      return CL_SNORM_INT16;
    case v1::CHANNEL_UINT8:
      return CL_UNSIGNED_INT8;
    case v1::CHANNEL_UINT16:
      return CL_UNSIGNED_INT16;
    case v1::CHANNEL_UINT32:
      return CL_UNSIGNED_INT32;
    case v1::CHANNEL_SINT8:
      return CL_SIGNED_INT8;
    case v1::CHANNEL_SINT16:
      return CL_SIGNED_INT16;
    case v1::CHANNEL_SINT32:
      return CL_SIGNED_INT32;
    case v1::CHANNEL_FLOAT16:
      return CL_HALF_FLOAT;
    case v1::CHANNEL_FLOAT32:
      return CL_FLOAT;
    default:
      return 0;
  }
}

cl_mem_object_type ObjectTypeOf(v1::ImageDimensions dimensions) {
  switch (dimensions) {
    case v1::IMAGE_1D:
      return CL_MEM_OBJECT_IMAGE1D;
    case v1::IMAGE_2D:
      return CL_MEM_OBJECT_IMAGE2D;
    case v1::IMAGE_3D:
      return CL_MEM_OBJECT_IMAGE3D;
    case v1::IMAGE_1D_ARRAY:
      return CL_MEM_OBJECT_IMAGE1D_ARRAY;
    case v1::IMAGE_2D_ARRAY:
      return CL_MEM_OBJECT_IMAGE2D_ARRAY;
    default:
      return 0;
  }
}

std::string Describe(const v1::ImageDescription& description) {
  return "an image " + v1::ImageDimensions_Name(description.dimensions()) + " of " +
         std::to_string(description.width()) + "x" + std::to_string(description.height()) + "x" +
         std::to_string(description.depth()) + ", " + std::to_string(description.layers()) +
         " layers, " + v1::ChannelOrder_Name(description.order()) + " " +
         v1::ChannelType_Name(description.type());
}

}  // namespace

absl::StatusOr<MemoryHandle> OpenClContext::CreateImage(const v1::ImageDescription& description) {
  const cl_image_format format{OrderOf(description.order()), TypeOf(description.type())};
  cl_image_desc shape{};
  shape.image_type = ObjectTypeOf(description.dimensions());
  shape.image_width = description.width();
  shape.image_height = description.height();
  shape.image_depth = description.depth();
  shape.image_array_size = description.layers();
  if (format.image_channel_order == 0 || format.image_channel_data_type == 0 ||
      shape.image_type == 0) {
    return MakeError(v1::BAD_REQUEST, "OpenCL has no " + Describe(description));
  }
  cl_int error = CL_SUCCESS;
  ClMemory image(
      clCreateImage(context_.get(), CL_MEM_READ_WRITE, &format, &shape, nullptr, &error));
  if (error != CL_SUCCESS) return FromCl(error, "creating " + Describe(description));
  size_t element = 0;
  clGetImageInfo(image.get(), CL_IMAGE_ELEMENT_SIZE, sizeof(element), &element, nullptr);
  const auto at_least_one = [](uint64_t size) { return size == 0 ? 1 : size; };
  const uint64_t bytes = element * at_least_one(description.width()) *
                         at_least_one(description.height()) * at_least_one(description.depth()) *
                         at_least_one(description.layers());
  return Register(std::move(image), bytes, /*is_image=*/true);
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> OpenClContext::ImageOf(MemoryHandle memory) const {
  absl::StatusOr<std::shared_ptr<DeviceMemory>> found = memory_.Get(memory);
  if (found.ok() && !(*found)->is_image()) {
    return MakeError(v1::INVALID_ARGUMENTS, "a buffer where an image is needed");
  }
  return found;
}

absl::Status OpenClContext::CopyBufferToImage(QueueHandle queue, MemoryHandle buffer,
                                              uint64_t offset, MemoryHandle image,
                                              const ImageRegion& region) {
  absl::StatusOr<std::shared_ptr<ClQueue>> cl_queue = queues_.Get(queue);
  if (!cl_queue.ok()) return cl_queue.status();
  absl::StatusOr<std::shared_ptr<DeviceMemory>> from = BufferOf(buffer);
  if (!from.ok()) return from.status();
  absl::StatusOr<std::shared_ptr<DeviceMemory>> to = ImageOf(image);
  if (!to.ok()) return to.status();
  const size_t origin[3] = {region.origin.x, region.origin.y, region.origin.z};
  const size_t size[3] = {region.size.x, region.size.y, region.size.z};
  return FromCl(clEnqueueCopyBufferToImage((*cl_queue)->get(), (*from)->get(), (*to)->get(), offset,
                                           origin, size, 0, nullptr, nullptr),
                "clEnqueueCopyBufferToImage");
}

absl::Status OpenClContext::CopyImageToBuffer(QueueHandle queue, MemoryHandle image,
                                              const ImageRegion& region, MemoryHandle buffer,
                                              uint64_t offset) {
  absl::StatusOr<std::shared_ptr<ClQueue>> cl_queue = queues_.Get(queue);
  if (!cl_queue.ok()) return cl_queue.status();
  absl::StatusOr<std::shared_ptr<DeviceMemory>> from = ImageOf(image);
  if (!from.ok()) return from.status();
  absl::StatusOr<std::shared_ptr<DeviceMemory>> to = BufferOf(buffer);
  if (!to.ok()) return to.status();
  const size_t origin[3] = {region.origin.x, region.origin.y, region.origin.z};
  const size_t size[3] = {region.size.x, region.size.y, region.size.z};
  return FromCl(clEnqueueCopyImageToBuffer((*cl_queue)->get(), (*from)->get(), (*to)->get(), origin,
                                           size, offset, 0, nullptr, nullptr),
                "clEnqueueCopyImageToBuffer");
}

}  // namespace kcache::backend::opencl
