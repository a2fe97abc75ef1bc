#include "tests/corpus/vulkan/elements.h"

#include <cmath>
#include <cstring>

namespace kcache::corpus {
namespace {

// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
uint16_t ToHalf(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::abs(value);
  if (magnitude < std::ldexp(1.0f, -14)) {  // zero and what has no leading one
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  }
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  // A fraction that rounds up to 2048 carries into the exponent, as it should.
  const auto digits = static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));
  return sign | static_cast<uint16_t>(((exponent + 13) << 10) + digits);
}

float FromHalf(uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int digits = half & 0x3ff;
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f) return digits != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(digits), -24);
  return sign * std::ldexp(static_cast<float>(digits + 1024), exponent - 25);
}

uint16_t ToBrainFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <class T>
void Append(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T At(const std::string& bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

}  // namespace

size_t BytesOf(Element element) {
  return element == Element::kF16 || element == Element::kBf16 ? 2 : 4;
}

void AppendElement(Element element, float value, std::string* bytes) {
  switch (element) {
    case Element::kF32:
      return Append(value, bytes);
    case Element::kF16:
      return Append(ToHalf(value), bytes);
    case Element::kBf16:
      return Append(ToBrainFloat(value), bytes);
    case Element::kI32:
      return Append(static_cast<int32_t>(value), bytes);
  }
}

std::string Encode(Element element, const std::vector<float>& values) {
  std::string bytes;
  bytes.reserve(values.size() * BytesOf(element));
  for (float value : values) AppendElement(element, value, &bytes);
  return bytes;
}

std::vector<float> Decode(Element element, const std::string& bytes) {
  std::vector<float> values(bytes.size() / BytesOf(element));
  for (size_t i = 0; i < values.size(); ++i) {
    switch (element) {
      case Element::kF32:
        values[i] = At<float>(bytes, i);
        break;
      case Element::kF16:
        values[i] = FromHalf(At<uint16_t>(bytes, i));
        break;
      case Element::kBf16:
        values[i] = std::bit_cast<float>(uint32_t{At<uint16_t>(bytes, i)} << 16);
        break;
      case Element::kI32:
        values[i] = static_cast<float>(At<int32_t>(bytes, i));
        break;
    }
  }
  return values;
}

float Rounded(Element element, float value) {
  std::string bytes;
  AppendElement(element, value, &bytes);
  return Decode(element, bytes)[0];
}

float ToleranceOf(Element element) {
  switch (element) {
    case Element::kF32:
      return 1e-4f;  // drivers' exp and tanh differ in the last digits
    case Element::kF16:
      return 2e-3f;
    case Element::kBf16:
      return 1e-2f;
    case Element::kI32:
      return 0;
  }
  return 0;
}

}  // namespace kcache::corpus
