// Values as piglit's OpenCL tests write them: typed arrays, and comparing results with a tolerance.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_PIGLIT_VALUES_H_
#define KCACHE_TESTS_CORPUS_PIGLIT_VALUES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kcache::corpus {

enum class ElementType {
  kChar,
  kUchar,
  kShort,
  kUshort,
  kInt,
  kUint,
  kLong,
  kUlong,
  kHalf,
  kFloat,
  kDouble
};

// "int", "float4", … of OpenCL C.
struct ValueType {
  ElementType element = ElementType::kInt;
  uint32_t lanes = 1;

  uint32_t ElementBytes() const;
  uint32_t Bytes() const;  // a vector of three takes the space of four
};
std::optional<ValueType> ParseValueType(std::string_view name);

// The bytes of `count` values of `type` out of their elements' words, in order. With `repeat` the
// words are repeated until there are enough; else there must be just enough.
absl::StatusOr<std::string> EncodeValues(const ValueType& type, uint64_t count,
                                         std::span<const std::string> words, bool repeat);

struct Tolerance {
  uint64_t integer = 0;   // integers: the largest difference
  double absolute = 0.0;  // floating point: either of these
  uint64_t ulps = 0;
};

// OK, or which element differs and how. The unused fourth lane of three is not compared.
absl::Status CompareValues(const ValueType& type, std::string_view expected,
                           std::string_view actual, const Tolerance& tolerance);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_PIGLIT_VALUES_H_
