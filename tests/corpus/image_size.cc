#include <algorithm>

#include "tests/corpus/executor.h"

namespace kcache::corpus {

uint64_t PixelBytes(const v1::ImageDescription& description) {
  uint64_t channels = 0;
  switch (description.order()) {
    case v1::CHANNEL_R:
    case v1::CHANNEL_A:
      channels = 1;
      break;
    case v1::CHANNEL_RG:
      channels = 2;
      break;
    default:
      channels = 4;
  }
  switch (description.type()) {
    case v1::CHANNEL_UNORM8:
    case v1::CHANNEL_SNORM8:
    case v1::CHANNEL_UINT8:
    case v1::CHANNEL_SINT8:
      return channels;
    case v1::CHANNEL_UINT32:
    case v1::CHANNEL_SINT32:
    case v1::CHANNEL_FLOAT32:
      return channels * 4;
    default:
      return channels * 2;
  }
}

uint64_t ImageBytes(const v1::ImageDescription& description) {
  uint64_t pixels = 1;
  for (const uint32_t size :
       {description.width(), description.height(), description.depth(), description.layers()}) {
    pixels *= std::max<uint32_t>(size, 1);
  }
  return pixels * PixelBytes(description);
}

}  // namespace kcache::corpus
