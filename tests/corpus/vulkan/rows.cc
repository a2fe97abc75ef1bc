// Rows as wholes: sums, extrema, norms, softmax, sorting, gathering, and changes of shape.

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "tests/corpus/vulkan/cases.h"

namespace kcache::corpus {
namespace {

constexpr Shape kShape = {.columns = 300, .rows = 37};
constexpr uint32_t kBlock = 32;  // of the shaders whose BLOCK_SIZE is their local size, too
constexpr float kEpsilon = 1e-3f;

using Row = std::vector<float>;

// Applies `function` to each row and joins the answers.
std::vector<float> ByRow(const std::vector<float>& all, const std::function<Row(const Row&)>& map) {
  std::vector<float> joined;
  for (auto row = all.begin(); row != all.end(); row += kShape.columns) {
    const Row answer = map(Row(row, row + kShape.columns));
    joined.insert(joined.end(), answer.begin(), answer.end());
  }
  return joined;
}

float Sum(const Row& row) { return std::accumulate(row.begin(), row.end(), 0.0f); }

float Dot(const Row& a, const Row& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0f);
}

Row Scaled(const Row& row, float offset, float factor) {
  Row scaled;
  for (float x : row) scaled.push_back((x + offset) * factor);
  return scaled;
}

Row SoftMax(const Row& row) {
  const float most = *std::max_element(row.begin(), row.end());
  Row powers;
  for (float x : row) powers.push_back(std::exp(x - most));
  return Scaled(powers, 0, 1 / Sum(powers));
}

Row Normalized(const Row& row) {
  const auto columns = static_cast<float>(row.size());
  const float mean = Sum(row) / columns;
  const Row centred = Scaled(row, -mean, 1);
  return Scaled(centred, 0, 1 / std::sqrt(Dot(centred, centred) / columns + kEpsilon));
}

Case RowCase(std::vector<std::string> inputs, uint32_t local, std::vector<float> expected,
             float param1 = 0) {
  Case made;
  made.inputs = std::move(inputs);
  made.push_constants =
      PushConstants().Words({kShape.columns, kShape.rows}).Floats({param1, 0}).bytes();
  made.groups = {kShape.rows};
  made.local = {local};
  made.expected = std::move(expected);
  made.tolerance = 1e-3f;  // sums in another order
  return made;
}

Case WithBlock(Case made) {
  made.specialization.constants = {{.id = 0, .value = kBlock}};
  return made;
}

void AddReductions(std::map<std::string, Case>* cases) {
  const std::vector<float> in = Values(kShape.elements());
  const std::string input = Encode(Element::kF32, in);
  cases->emplace("sum_rows_f32", WithBlock(RowCase({input}, kBlock, ByRow(in, [](const Row& row) {
                                                     return Row{Sum(row)};
                                                   }))));
  // One greatest element a row, so that there is one right answer.
  std::vector<float> peaked = in;
  std::vector<float> peaks;
  for (uint32_t row = 0; row < kShape.rows; ++row) {
    const uint32_t at = (row * 131 + 7) % kShape.columns;
    peaked[row * kShape.columns + at] = 5;
    peaks.push_back(static_cast<float>(at));
  }
  Case argmax = WithBlock(RowCase({Encode(Element::kF32, peaked)}, kBlock, peaks));
  argmax.output = Element::kI32;
  argmax.tolerance = 0;
  cases->emplace("argmax_f32", std::move(argmax));

  cases->emplace("norm_f32", RowCase({input}, 512, ByRow(in, Normalized), kEpsilon));
  Case group = RowCase({input}, 512, ByRow(in, Normalized), kEpsilon);
  cases->emplace("group_norm_f32", std::move(group));
  cases->emplace("l2_norm_f32", RowCase({input}, 512, ByRow(in, [](const Row& row) {
                                          return Scaled(row, 0, 1 / std::sqrt(Dot(row, row)));
                                        }),
                                        kEpsilon));
  Case rms = RowCase({input}, 512, ByRow(in, [](const Row& row) {
                       const float mean = Dot(row, row) / static_cast<float>(row.size());
                       return Scaled(row, 0, 1 / std::sqrt(mean + kEpsilon));
                     }));
  rms.push_constants = UnaryPush(kShape, kShape, kEpsilon);
  cases->emplace("rms_norm_f32", std::move(rms));
}

void AddSoftMax(std::map<std::string, Case>* cases) {
  const std::vector<float> in = Values(kShape.elements());
  const std::string input = Encode(Element::kF32, in);
  for (Element mask : {Element::kF32, Element::kF16}) {
    Case made = WithBlock(
        RowCase({input, Encode(mask, Row(kShape.columns, 0.0f))}, kBlock, ByRow(in, SoftMax)));
    // KX, KY (0: no mask), scale, max_bias, m0, m1, n_head_log2, nrows_x
    made.push_constants = PushConstants()
                              .Words({kShape.columns, 0})
                              .Floats({1, 0, 0, 0})
                              .Words({0, kShape.rows})
                              .bytes();
    cases->emplace(mask == Element::kF32 ? "soft_max_f32" : "soft_max_f32_f16", std::move(made));
  }
  // The gradient, from what softmax gave.
  const std::vector<float> given = ByRow(in, SoftMax);
  std::vector<float> expected;
  for (uint32_t row = 0; row < kShape.rows; ++row) {
    const auto at = row * kShape.columns;
    const Row g(in.begin() + at, in.begin() + at + kShape.columns);
    const Row y(given.begin() + at, given.begin() + at + kShape.columns);
    const float dot = Dot(y, g);
    for (uint32_t i = 0; i < kShape.columns; ++i) expected.push_back((g[i] - dot) * y[i]);
  }
  cases->emplace("soft_max_back_f32",
                 WithBlock(RowCase({input, Encode(Element::kF32, given)}, kBlock, expected, 1)));
}

void AddOrders(std::map<std::string, Case>* cases) {
  constexpr uint32_t kColumns = 300, kPadded = 512, kRows = 5;
  // All different, so that there is one right order: a permutation of 0 … 299.
  std::vector<float> in;
  std::vector<float> order;
  for (uint32_t row = 0; row < kRows; ++row) {
    std::vector<uint32_t> row_order(kColumns);
    for (uint32_t i = 0; i < kColumns; ++i) {
      const uint32_t value = (i * 7 + row * 13) % kColumns;
      in.push_back(static_cast<float>(value));
      row_order[value] = i;
    }
    order.insert(order.end(), row_order.begin(), row_order.end());
  }
  Case made;
  made.inputs = {Encode(Element::kF32, in)};
  made.push_constants = PushConstants().Words({kColumns, kPadded, /*ascending:*/ 0}).bytes();
  made.groups = {1, kRows};
  made.local = {1024};
  made.output = Element::kI32;
  made.expected = order;
  cases->emplace("argsort_f32", std::move(made));
}

void AddGathers(std::map<std::string, Case>* cases) {
  constexpr uint32_t kTaken = 11;
  const Shape source = {.columns = 600, .rows = 20};
  const Shape target = {.columns = source.columns, .rows = kTaken};
  const std::vector<float> in = Values(source.elements());
  std::vector<float> rows;
  for (uint32_t i = 0; i < kTaken; ++i) rows.push_back(static_cast<float>(i * 7 % source.rows));
  const std::tuple<const char*, Element, Element> variants[] = {
      {"get_rows_f32", Element::kF32, Element::kF16},
      {"get_rows_f32_f32", Element::kF32, Element::kF32},
      {"get_rows_f16", Element::kF16, Element::kF16},
      {"get_rows_f16_f32", Element::kF16, Element::kF32},
      {"get_rows_bf16", Element::kBf16, Element::kF16},
      {"get_rows_bf16_f32", Element::kBf16, Element::kF32},
  };
  for (const auto& [name, from, to] : variants) {
    Case made;
    made.inputs = {Encode(from, in), Encode(Element::kI32, rows)};
    made.push_constants = BinaryPush(source, {.columns = kTaken}, target);
    made.groups = {(source.columns + 511) / 512, kTaken};
    made.local = {512};
    made.output = to;
    for (float row : rows) {
      for (uint32_t i = 0; i < source.columns; ++i) {
        made.expected.push_back(
            Rounded(from, in[static_cast<uint32_t>(row) * source.columns + i]));
      }
    }
    made.tolerance = ToleranceOf(to);
    cases->emplace(name, std::move(made));
  }
}

void AddShapes(std::map<std::string, Case>* cases) {
  const Shape small = {.columns = 30, .rows = 20};
  const std::vector<float> in = Values(small.elements());
  const auto add = [&](const char* name, Element element, std::vector<std::string> inputs,
                       std::string push, Shape target,
                       const std::function<float(uint32_t row, uint32_t column)>& expected) {
    Case made;
    made.inputs = std::move(inputs);
    made.push_constants = std::move(push);
    made.groups = {1, (target.elements() + 511) / 512};
    made.local = {512};
    made.output = element;
    for (uint32_t row = 0; row < target.rows; ++row) {
      for (uint32_t column = 0; column < target.columns; ++column) {
        made.expected.push_back(expected(row, column));
      }
    }
    made.tolerance = ToleranceOf(element);
    cases->emplace(name, std::move(made));
  };
  const auto at = [&](uint32_t row, uint32_t column) { return in[row * small.columns + column]; };

  const Shape twice = {.columns = small.columns * 2, .rows = small.rows * 3};
  add("repeat_f32", Element::kF32, {Encode(Element::kF32, in)}, UnaryPush(small, twice), twice,
      [&](uint32_t row, uint32_t column) { return at(row % small.rows, column % small.columns); });
  const Shape padded = {.columns = small.columns + 5, .rows = small.rows + 3};
  add("pad_f32", Element::kF32, {Encode(Element::kF32, in)}, UnaryPush(small, padded), padded,
      [&](uint32_t row, uint32_t column) {
        return row < small.rows && column < small.columns ? at(row, column) : 0;
      });

  // Along the rows, b below a.
  const Shape stacked = {.columns = small.columns, .rows = small.rows * 2};
  std::vector<float> whole;
  for (float x : in) whole.push_back(std::floor(x));
  std::vector<float> negative;
  for (float x : whole) negative.push_back(-x);
  const std::pair<const char*, Element> concats[] = {
      {"concat_f32", Element::kF32}, {"concat_f16", Element::kF16}, {"concat_i32", Element::kI32}};
  for (const auto& [name, element] : concats) {
    add(name, element, {Encode(element, whole), Encode(element, negative)},
        BinaryPush(small, small, stacked, /*dimension:*/ 1), stacked,
        [&](uint32_t row, uint32_t column) {
          const float upper = whole[row % small.rows * small.columns + column];
          return row < small.rows ? upper : -upper;
        });
  }
}

}  // namespace

void AddRowCases(std::map<std::string, Case>* cases) {
  AddReductions(cases);
  AddSoftMax(cases);
  AddOrders(cases);
  AddGathers(cases);
  AddShapes(cases);
}

}  // namespace kcache::corpus
