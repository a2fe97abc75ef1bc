// Those of llama.cpp's shaders whose result can be computed here as well: what they are launched
// with, and what must come out.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_VULKAN_CASES_H_
#define KCACHE_TESTS_CORPUS_VULKAN_CASES_H_

#include <map>
#include <string>
#include <vector>

#include "kcache/client.h"
#include "tests/corpus/vulkan/elements.h"

namespace kcache::corpus {

struct Case {
  Specialization specialization = {};
  std::vector<std::string> inputs;  // buffers in the order of their bindings
  std::string push_constants;
  Dim3 groups;
  Dim3 local;
  Element output = Element::kF32;  // bound behind the inputs
  std::vector<float> expected;     // every element of the output
  float tolerance = 0;             // relative to max(1, |expected|)
};

// By the variant's name. Built on the first call.
const std::map<std::string, Case>& Cases();

// In [-3, 3), exact as a binary16, the same in every run, no two neighbours alike.
std::vector<float> Values(size_t count);

// The three parts of Cases().
void AddElementwiseCases(std::map<std::string, Case>* cases);
void AddRowCases(std::map<std::string, Case>* cases);
void AddQuantizedCases(std::map<std::string, Case>* cases);

// Shapes: rows of contiguous columns, the common layout of the cases.
struct Shape {
  uint32_t columns = 1;
  uint32_t rows = 1;

  uint32_t elements() const { return columns * rows; }
};

// The push constants of generic_unary_head.comp. `source_row` is the stride between the source's
// rows where they are not elements (quantized blocks); 0: `source.columns`.
std::string UnaryPush(Shape source, Shape target, float param1 = 0, float param2 = 0,
                      uint32_t source_row = 0);
// Those of generic_binary_head.comp; `b` with one row is repeated over those of `a`.
std::string BinaryPush(Shape a, Shape b, Shape target, int32_t param3 = 0,
                       uint32_t source_row = 0);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VULKAN_CASES_H_
