#include "tests/corpus/vulkan/cases.h"

namespace kcache::corpus {
namespace {

// ggml-vulkan.cpp's init_fastdiv_values: a division by `divisor` as a multiplication and a shift.
void AppendDivision(uint32_t divisor, PushConstants* push) {
  uint32_t shift = 0;
  while (shift < 32 && (uint64_t{1} << shift) < divisor) ++shift;
  const uint64_t multiplier =
      (uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor) / divisor + 1;
  push->Words({static_cast<uint32_t>(multiplier), shift});
}

void AppendShape(Shape shape, uint32_t row, PushConstants* push) {
  const uint32_t all = row * shape.rows;
  push->Words({shape.columns, shape.rows, 1, 1, /*strides:*/ 1, row, all, all});
}

void AppendDivisions(Shape shape, PushConstants* push) {
  AppendDivision(shape.elements(), push);
  AppendDivision(shape.elements(), push);
  AppendDivision(shape.columns, push);
}

}  // namespace

const std::map<std::string, Case>& Cases() {
  static const auto* const cases = [] {
    auto* made = new std::map<std::string, Case>;
    AddElementwiseCases(made);
    AddRowCases(made);
    AddQuantizedCases(made);
    return made;
  }();
  return *cases;
}

std::vector<float> Values(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(i * 2654435761u % 384) / 64 - 3;
  }
  return values;
}

std::string UnaryPush(Shape source, Shape target, float param1, float param2,
                      uint32_t source_row) {
  PushConstants push;
  push.Words({target.elements()});
  AppendShape(source, source_row == 0 ? source.columns : source_row, &push);
  AppendShape(target, target.columns, &push);
  push.Words({/*misalign_offsets=*/0}).Floats({param1, param2});
  AppendDivisions(source, &push);
  AppendDivisions(target, &push);
  return push.bytes();
}

std::string BinaryPush(Shape a, Shape b, Shape target, int32_t param3, uint32_t source_row) {
  PushConstants push;
  push.Words({target.elements()});
  AppendShape(a, source_row == 0 ? a.columns : source_row, &push);
  AppendShape(b, b.columns, &push);
  AppendShape(target, target.columns, &push);
  push.Words({/*misalign_offsets=*/0}).Floats({0, 0}).Words({static_cast<uint32_t>(param3)});
  return push.bytes();
}

}  // namespace kcache::corpus
