// OpenCL images. Other families answer BAD_REQUEST.
//
// Threads, ownership, errors: as Buffer. Pixels travel through a buffer, in which they lie row by
// row without gaps. Units: pixels, but bytes for buffer offsets.

#ifndef KCACHE_IMAGE_H_
#define KCACHE_IMAGE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kcache/buffer.h"
#include "kcache/device.h"
#include "kcache/launch.h"
#include "kcache/queue.h"

namespace kcache {

enum class ImageDimensions {
  k1D = 1,
  k2D = 2,
  k3D = 3,
  k1DArray = 4,  // `layers` images of width
  k2DArray = 5,  // `layers` images of width × height
};

enum class ChannelOrder { kR = 1, kRg = 2, kRgba = 3, kBgra = 4, kA = 5 };

enum class ChannelType {
  kUnorm8 = 1,
  kUnorm16 = 2,
  kSnorm8 = 3,
  kSnorm16 = 4,
  kUint8 = 5,
  kUint16 = 6,
  kUint32 = 7,
  kSint8 = 8,
  kSint16 = 9,
  kSint32 = 10,
  kFloat16 = 11,
  kFloat32 = 12,
};

// What the dimensions do not use stays 0.
struct ImageDescription {
  ImageDimensions dimensions = ImageDimensions::k2D;
  ChannelOrder order = ChannelOrder::kRgba;
  ChannelType type = ChannelType::kUnorm8;
  uint32_t width = 0;
  uint32_t height = 0;
  uint32_t depth = 0;
  uint32_t layers = 0;
};

class Image {
 public:
  Image() = default;
  Image(Image&&) noexcept = default;
  Image& operator=(Image&&) noexcept = default;
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  bool empty() const { return state_ == nullptr; }
  DeviceId device() const;
  const ImageDescription& description() const { return description_; }

  // A layer counts as the dimension after those that its images have. Every extent of `region` > 0.
  absl::Status CopyFrom(const Queue& queue, Dim3 origin, Dim3 region, const Buffer& source,
                        uint64_t source_offset = 0);
  absl::Status CopyTo(const Queue& queue, Dim3 origin, Dim3 region, const Buffer& destination,
                      uint64_t destination_offset = 0) const;

  const internal::BufferState* state() const { return state_.get(); }

 private:
  friend class Client;
  Image(std::shared_ptr<internal::BufferState> state, const ImageDescription& description)
      : state_(std::move(state)), description_(description) {}

  absl::Status Copy(const Queue& queue, Dim3 origin, Dim3 region, const Buffer& buffer,
                    uint64_t buffer_offset, bool to_buffer) const;

  std::shared_ptr<internal::BufferState> state_;
  ImageDescription description_;
};

}  // namespace kcache

#endif  // KCACHE_IMAGE_H_
