// The element types of shader buffers, as numbers and as bytes.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_VULKAN_ELEMENTS_H_
#define KCACHE_TESTS_CORPUS_VULKAN_ELEMENTS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace kcache::corpus {

enum class Element { kF32, kF16, kBf16, kI32 };

size_t BytesOf(Element element);

// Rounded to the nearest, ties to even. Numbers beyond the type's range do not occur here.
void AppendElement(Element element, float value, std::string* bytes);
std::string Encode(Element element, const std::vector<float>& values);
std::vector<float> Decode(Element element, const std::string& bytes);

// What `value` becomes when it is stored as an `element`.
float Rounded(Element element, float value);

// How far a result may lie from the exact one, relative to max(1, |exact|): the type's last digits,
// under whichever rounding the device has.
float ToleranceOf(Element element);

// A push-constant block, word by word.
class PushConstants {
 public:
  PushConstants& Words(std::initializer_list<uint32_t> words) {
    for (uint32_t word : words) Append(word);
    return *this;
  }
  PushConstants& Floats(std::initializer_list<float> values) {
    for (float value : values) Append(std::bit_cast<uint32_t>(value));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Append(uint32_t word) { bytes_.append(reinterpret_cast<const char*>(&word), sizeof word); }

  std::string bytes_;
};

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VULKAN_ELEMENTS_H_
