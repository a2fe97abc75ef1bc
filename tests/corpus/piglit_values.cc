#include "tests/corpus/piglit_values.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::corpus {
namespace {

constexpr std::array<std::pair<std::string_view, ElementType>, 11> kElements{{
    {"char", ElementType::kChar},
    {"uchar", ElementType::kUchar},
    {"short", ElementType::kShort},
    {"ushort", ElementType::kUshort},
    {"int", ElementType::kInt},
    {"uint", ElementType::kUint},
    {"long", ElementType::kLong},
    {"ulong", ElementType::kUlong},
    {"half", ElementType::kHalf},
    {"float", ElementType::kFloat},
    {"double", ElementType::kDouble},
}};

bool IsFloating(ElementType type) {
  return type == ElementType::kHalf || type == ElementType::kFloat || type == ElementType::kDouble;
}

bool IsSigned(ElementType type) {
  return type == ElementType::kChar || type == ElementType::kShort || type == ElementType::kInt ||
         type == ElementType::kLong;
}

// IEEE 754 binary16, round to nearest even.
uint16_t ToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520.0) return sign | 0x7c00;
  constexpr int kFractionBits = 10;
  constexpr int kSmallestExponent = -14;  // of a normal number
  int exponent = kSmallestExponent;
  if (magnitude >= std::ldexp(1.0, kSmallestExponent)) exponent = std::ilogb(magnitude);
  // In units of the last place; rounding may carry into the next exponent, which the addition below
  // turns into just that.
  const auto units =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, kFractionBits - exponent)));
  if (units < (1U << kFractionBits))
    return static_cast<uint16_t>(sign | units);  // subnormal or zero
  const uint32_t biased = static_cast<uint32_t>(exponent + 15) << kFractionBits;
  return static_cast<uint16_t>(sign | (biased + units - (1U << kFractionBits)));
}

double FromHalf(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  double magnitude;
  if (exponent == 0x1f) {
    magnitude = fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                              : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename T>
void Append(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// False when the word is no number of the type.
bool AppendElement(ElementType type, const std::string& word, std::string* bytes) {
  char* end = nullptr;
  if (IsFloating(type)) {
    const double value = std::strtod(word.c_str(), &end);  // takes nan, inf and hexadecimal, too
    if (*end != '\0' || end == word.c_str()) return false;
    if (type == ElementType::kHalf) {
      Append(ToHalf(value), bytes);
    } else if (type == ElementType::kFloat) {
      Append(static_cast<float>(value), bytes);
    } else {
      Append(value, bytes);
    }
    return true;
  }
  // Values beyond the type wrap, as they do in the C program that runs these tests.
  const bool negative = !word.empty() && word[0] == '-';
  const uint64_t value = negative ? static_cast<uint64_t>(std::strtoll(word.c_str(), &end, 0))
                                  : std::strtoull(word.c_str(), &end, 0);
  if (end == word.c_str() || *end != '\0') return false;
  const size_t width = ValueType{type, 1}.ElementBytes();
  bytes->append(reinterpret_cast<const char*>(&value), width);  // little-endian
  return true;
}

template <typename T>
T Load(const char* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

int64_t LoadSigned(ElementType type, const char* data) {
  switch (type) {
    case ElementType::kChar:
      return Load<int8_t>(data);
    case ElementType::kShort:
      return Load<int16_t>(data);
    case ElementType::kInt:
      return Load<int32_t>(data);
    default:
      return Load<int64_t>(data);
  }
}

uint64_t LoadUnsigned(ElementType type, const char* data) {
  switch (type) {
    case ElementType::kUchar:
      return Load<uint8_t>(data);
    case ElementType::kUshort:
      return Load<uint16_t>(data);
    case ElementType::kUint:
      return Load<uint32_t>(data);
    default:
      return Load<uint64_t>(data);
  }
}

double LoadFloating(ElementType type, const char* data) {
  switch (type) {
    case ElementType::kHalf:
      return FromHalf(Load<uint16_t>(data));
    case ElementType::kFloat:
      return Load<float>(data);
    default:
      return Load<double>(data);
  }
}

// The distance between neighbours at `value`.
double UlpAt(ElementType type, double value) {
  const double magnitude = std::fabs(value);
  switch (type) {
    case ElementType::kHalf:
      return magnitude < std::ldexp(1.0, -14) ? std::ldexp(1.0, -24)
                                              : std::ldexp(1.0, std::ilogb(magnitude) - 10);
    case ElementType::kFloat: {
      const auto narrow = static_cast<float>(magnitude);
      return static_cast<double>(std::nextafter(narrow, std::numeric_limits<float>::infinity())) -
             narrow;
    }
    default:
      return std::nextafter(magnitude, std::numeric_limits<double>::infinity()) - magnitude;
  }
}

bool FloatingMatches(ElementType type, double expected, double actual, const Tolerance& tolerance) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (expected == actual) return true;  // infinities, and both zeros
  const double difference = std::fabs(expected - actual);
  if (difference <= tolerance.absolute) return true;
  return std::isfinite(expected) &&
         difference <= static_cast<double>(tolerance.ulps) * UlpAt(type, expected);
}

}  // namespace

uint32_t ValueType::ElementBytes() const {
  switch (element) {
    case ElementType::kChar:
    case ElementType::kUchar:
      return 1;
    case ElementType::kShort:
    case ElementType::kUshort:
    case ElementType::kHalf:
      return 2;
    case ElementType::kInt:
    case ElementType::kUint:
    case ElementType::kFloat:
      return 4;
    default:
      return 8;
  }
}

uint32_t ValueType::Bytes() const { return ElementBytes() * (lanes == 3 ? 4 : lanes); }

std::optional<ValueType> ParseValueType(std::string_view name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  ValueType type;
  if (digits < name.size()) {
    type.lanes =
        static_cast<uint32_t>(std::strtoul(std::string(name.substr(digits)).c_str(), nullptr, 10));
  }
  for (const auto& [word, element] : kElements) {
    if (name.substr(0, digits) != word) continue;
    type.element = element;
    return type;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> EncodeValues(const ValueType& type, uint64_t count,
                                         std::span<const std::string> words, bool repeat) {
  const uint64_t elements = count * type.lanes;
  if (words.empty() || (!repeat && words.size() != elements)) {
    return MakeError(v1::BAD_REQUEST, std::to_string(words.size()) + " values where " +
                                          std::to_string(elements) + " are needed");
  }
  std::string bytes;
  for (uint64_t i = 0; i < elements; ++i) {
    const std::string& word = words[i % words.size()];
    if (!AppendElement(type.element, word, &bytes)) {
      return MakeError(v1::BAD_REQUEST, Quoted(word) + " is no number of its type");
    }
    if (type.lanes == 3 && i % 3 == 2) bytes.append(type.ElementBytes(), '\0');
  }
  return bytes;
}

absl::Status CompareValues(const ValueType& type, std::string_view expected,
                           std::string_view actual, const Tolerance& tolerance) {
  if (expected.size() != actual.size()) {
    return MakeError(v1::BAD_REQUEST, std::to_string(actual.size()) + " bytes where " +
                                          std::to_string(expected.size()) + " are expected");
  }
  const auto differs = [](uint64_t index, const std::string& want, const std::string& got) {
    return MakeError(v1::INTERNAL,
                     "element " + std::to_string(index) + " is " + got + ", expected " + want);
  };
  const uint32_t step = type.ElementBytes();
  const uint32_t stride = type.lanes == 3 ? 4 : type.lanes;
  for (uint64_t i = 0; (i + 1) * step <= expected.size(); ++i) {
    if (type.lanes == 3 && i % stride == 3) continue;
    const char* want = expected.data() + i * step;
    const char* got = actual.data() + i * step;
    if (IsFloating(type.element)) {
      const double a = LoadFloating(type.element, want);
      const double b = LoadFloating(type.element, got);
      if (!FloatingMatches(type.element, a, b, tolerance))
        return differs(i, std::to_string(a), std::to_string(b));
    } else if (IsSigned(type.element)) {
      const int64_t a = LoadSigned(type.element, want);
      const int64_t b = LoadSigned(type.element, got);
      const uint64_t difference = a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
                                        : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
      if (difference > tolerance.integer) return differs(i, std::to_string(a), std::to_string(b));
    } else {
      const uint64_t a = LoadUnsigned(type.element, want);
      const uint64_t b = LoadUnsigned(type.element, got);
      if ((a > b ? a - b : b - a) > tolerance.integer)
        return differs(i, std::to_string(a), std::to_string(b));
    }
  }
  return absl::OkStatus();
}

}  // namespace kcache::corpus
