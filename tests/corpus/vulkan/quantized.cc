// Quantized blocks of 32 weights: unpacking, gathering and converting them. The layouts are those of
// ggml's block_q4_0 … block_q8_0, as types.comp declares them.

#include <utility>

#include "tests/corpus/vulkan/cases.h"

namespace kcache::corpus {
namespace {

constexpr uint32_t kWeights = 32;  // a block

struct Format {
  const char* name;
  uint32_t bits;    // a weight
  bool has_minimum;  // x = d * q + m; else x = d * (q - 2^(bits-1)), and q8_0 is signed
};

constexpr Format kFormats[] = {
    {"q4_0", 4, false}, {"q4_1", 4, true}, {"q5_0", 5, false}, {"q5_1", 5, true}, {"q8_0", 8, false}};

struct Blocks {
  std::string bytes;
  std::vector<float> weights;
};

// Random digits, the same in every run.
class Digits {
 public:
  uint32_t Next(uint32_t bits) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 40) & ((1u << bits) - 1);
  }

 private:
  uint64_t state_ = 1;
};

void AppendBlock(const Format& format, Digits* digits, Blocks* blocks) {
  // Exact as binary16.
  const float scale = static_cast<float>(digits->Next(5) + 1) / 64;
  const float minimum = format.has_minimum ? static_cast<float>(digits->Next(6)) / 16 - 2 : 0;
  uint32_t q[kWeights];
  for (uint32_t& one : q) one = digits->Next(format.bits);

  AppendElement(Element::kF16, scale, &blocks->bytes);
  if (format.has_minimum) AppendElement(Element::kF16, minimum, &blocks->bytes);
  if (format.bits == 5) {
    uint32_t high = 0;
    for (uint32_t i = 0; i < kWeights; ++i) high |= (q[i] >> 4) << i;
    blocks->bytes.append(reinterpret_cast<const char*>(&high), sizeof high);
  }
  if (format.bits == 8) {
    for (uint32_t one : q) blocks->bytes.push_back(static_cast<char>(one));
  } else {
    for (uint32_t i = 0; i < kWeights / 2; ++i) {
      blocks->bytes.push_back(static_cast<char>((q[i] & 0xf) | ((q[i + kWeights / 2] & 0xf) << 4)));
    }
  }
  for (uint32_t one : q) {
    const float centred = format.bits == 8 ? static_cast<float>(static_cast<int8_t>(one))
                          : format.has_minimum
                              ? static_cast<float>(one)
                              : static_cast<float>(one) - static_cast<float>(1 << (format.bits - 1));
    blocks->weights.push_back(scale * centred + minimum);
  }
}

Blocks MakeBlocks(const Format& format, uint32_t count) {
  Digits digits;
  Blocks blocks;
  for (uint32_t i = 0; i < count; ++i) AppendBlock(format, &digits, &blocks);
  return blocks;
}

Case UnpackCase(const Format& format) {
  constexpr uint32_t kBlocks = 200, kBlocksAGroup = 128;
  Blocks blocks = MakeBlocks(format, kBlocks);
  Case made;
  made.inputs = {std::move(blocks.bytes)};
  const uint32_t count = kBlocks * kWeights;
  made.push_constants = PushConstants().Words({1, count, count, count, count}).bytes();
  made.groups = {(kBlocks + kBlocksAGroup - 1) / kBlocksAGroup};
  made.local = {256};
  made.output = Element::kF16;
  made.expected = std::move(blocks.weights);
  made.tolerance = ToleranceOf(Element::kF16);
  return made;
}

Case GatherCase(const Format& format, Element to) {
  constexpr uint32_t kBlocksARow = 20, kTaken = 9;
  const Shape source = {.columns = kBlocksARow * kWeights, .rows = 12};
  Blocks blocks = MakeBlocks(format, kBlocksARow * source.rows);
  std::vector<float> rows;
  for (uint32_t i = 0; i < kTaken; ++i) rows.push_back(static_cast<float>(i * 5 % source.rows));
  Case made;
  made.inputs = {std::move(blocks.bytes), Encode(Element::kI32, rows)};
  made.push_constants =
      BinaryPush(source, {.columns = kTaken}, {.columns = source.columns, .rows = kTaken}, 0,
                 kBlocksARow);
  made.groups = {(source.columns / 2 + 511) / 512, kTaken};
  made.local = {512};
  made.output = to;
  for (float row : rows) {
    const auto begin = blocks.weights.begin() + static_cast<uint32_t>(row) * source.columns;
    made.expected.insert(made.expected.end(), begin, begin + source.columns);
  }
  made.tolerance = ToleranceOf(to);
  return made;
}

Case CopyCase(const Format& format) {
  constexpr uint32_t kBlocksARow = 8;
  const Shape shape = {.columns = kBlocksARow * kWeights, .rows = 10};
  Blocks blocks = MakeBlocks(format, kBlocksARow * shape.rows);
  Case made;
  made.inputs = {std::move(blocks.bytes)};
  made.push_constants = UnaryPush(shape, shape, 0, 0, kBlocksARow);
  // A group a block; 512 elements along x, the rest along y.
  made.groups = {512 / kWeights, (shape.elements() + 511) / 512};
  made.local = {1};
  made.expected = std::move(blocks.weights);
  made.tolerance = ToleranceOf(Element::kF32);
  return made;
}

// Not quantized, but of the same family.
Case PlainUnpackCase() {
  constexpr uint32_t kCount = 5120, kElementsAnItem = 16;
  Case made;
  made.expected = Values(kCount);
  made.inputs = {Encode(Element::kF32, made.expected)};
  made.push_constants = PushConstants().Words({1, kCount, kCount, kCount, kCount}).bytes();
  made.groups = {(kCount / kElementsAnItem + 255) / 256};
  made.local = {256};
  made.output = Element::kF16;
  made.tolerance = ToleranceOf(Element::kF16);
  return made;
}

}  // namespace

void AddQuantizedCases(std::map<std::string, Case>* cases) {
  for (const Format& format : kFormats) {
    const std::string name = format.name;
    cases->emplace("dequant_" + name, UnpackCase(format));
    cases->emplace("get_rows_" + name, GatherCase(format, Element::kF16));
    cases->emplace("get_rows_" + name + "_f32", GatherCase(format, Element::kF32));
    cases->emplace("cpy_" + name + "_f32", CopyCase(format));
  }
  cases->emplace("dequant_f32", PlainUnpackCase());
}

}  // namespace kcache::corpus
