// Element by element: activations, arithmetic, copies and conversions.

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "tests/corpus/vulkan/cases.h"

namespace kcache::corpus {
namespace {

using Function = std::function<float(float)>;
using Function2 = std::function<float(float, float)>;

constexpr Shape kShape = {.columns = 100, .rows = 47};
constexpr float kLeak = 0.1f, kScale = 1.5f, kLow = -1.0f, kHigh = 1.5f;

// What get_idx() of the generic heads walks: 512 elements a group, the groups along y.
Dim3 Groups(uint32_t elements) { return {1, (elements + 511) / 512}; }

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

std::pair<std::string, Element> Named(Element element) {
  return {element == Element::kF16 ? "f16" : element == Element::kBf16 ? "bf16" : "f32", element};
}

// Variants over generic_head.comp.
void AddActivation(const std::string& stem, Element element, const Function& function,
                   std::map<std::string, Case>* cases) {
  const uint32_t count = kShape.elements();
  const std::vector<float> in = Values(count);
  Case made;
  made.inputs = {Encode(element, in)};
  made.push_constants = PushConstants().Words({count, 1}).Floats({kLeak, 0}).bytes();
  made.groups = Groups(count);
  made.local = {512};
  made.output = element;
  for (float x : in) made.expected.push_back(function(x));
  made.tolerance = ToleranceOf(element);
  cases->emplace(stem + "_" + Named(element).first, std::move(made));
}

// Variants over generic_unary_head.comp.
void AddUnary(const std::string& name, Element from, Element to, uint32_t local,
              const Function& function, float tolerance, float param1, float param2,
              std::map<std::string, Case>* cases) {
  const std::vector<float> in = Values(kShape.elements());
  Case made;
  made.inputs = {Encode(from, in)};
  made.push_constants = UnaryPush(kShape, kShape, param1, param2);
  made.groups = Groups(kShape.elements());
  made.local = {local};
  made.output = to;
  for (float x : in) made.expected.push_back(function(Rounded(from, x)));
  made.tolerance = tolerance;
  cases->emplace(name, std::move(made));
}

// Variants over generic_binary_head.comp; the second operand is one row, repeated.
void AddBinary(const std::string& name, Element a, Element b, Element to, const Function2& function,
               std::map<std::string, Case>* cases) {
  const std::vector<float> left = Values(kShape.elements());
  std::vector<float> right = Values(kShape.columns);
  for (float& value : right) value = 4 + value;  // none near zero
  Case made;
  made.inputs = {Encode(a, left), Encode(b, right)};
  made.push_constants = BinaryPush(kShape, {.columns = kShape.columns}, kShape);
  made.groups = Groups(kShape.elements());
  made.local = {256};
  made.output = to;
  for (size_t i = 0; i < left.size(); ++i) {
    made.expected.push_back(function(left[i], right[i % right.size()]));
  }
  made.tolerance = ToleranceOf(to);
  cases->emplace(name, std::move(made));
}

void AddActivations(std::map<std::string, Case>* cases) {
  const std::pair<const char*, Function> functions[] = {
      {"gelu",
       [](float x) {
         return 0.5f * x * (1 + std::tanh(0.79788456080286535588f * x * (1 + 0.044715f * x * x)));
       }},
      {"gelu_quick", [](float x) { return x * Sigmoid(1.702f * x); }},
      {"silu", [](float x) { return x * Sigmoid(x); }},
      {"relu", [](float x) { return std::max(x, 0.0f); }},
      {"tanh", [](float x) { return std::tanh(x); }},
      {"sigmoid", Sigmoid},
  };
  for (const auto& [stem, function] : functions) {
    for (Element element : {Element::kF32, Element::kF16}) {
      AddActivation(stem, element, function, cases);
    }
  }
  AddActivation("leaky_relu", Element::kF32,
                [](float x) { return std::max(x, 0.0f) + kLeak * std::min(x, 0.0f); }, cases);
}

void AddArithmetic(std::map<std::string, Case>* cases) {
  const std::pair<const char*, Function2> functions[] = {
      {"add", [](float a, float b) { return a + b; }},
      {"sub", [](float a, float b) { return a - b; }},
      {"mul", [](float a, float b) { return a * b; }},
      {"div", [](float a, float b) { return a / b; }},
  };
  const Element floats[] = {Element::kF32, Element::kF16};
  for (const auto& [stem, function] : functions) {
    for (Element a : floats) {
      for (Element b : floats) {
        for (Element to : floats) {
          const std::string name = std::string(stem) + "_" + Named(a).first + "_" +
                                   Named(b).first + "_" + Named(to).first;
          AddBinary(name, a, b, to, function, cases);
        }
      }
    }
    AddBinary(std::string(stem) + "_f32", Element::kF32, Element::kF32, Element::kF32, function,
              cases);
  }
  const float exact = ToleranceOf(Element::kF32);
  const float trigonometric = 2e-3f;  // Vulkan: 2^-11 absolute within [-pi, pi]
  const auto unary = [&](const char* name, uint32_t local, float tolerance, float param1,
                         float param2, const Function& function) {
    AddUnary(name, Element::kF32, Element::kF32, local, function, tolerance, param1, param2, cases);
  };
  unary("scale_f32", 128, exact, kScale, 0, [](float x) { return x * kScale; });
  unary("sqr_f32", 512, exact, 0, 0, [](float x) { return x * x; });
  unary("sin_f32", 512, trigonometric, 0, 0, [](float x) { return std::sin(x); });
  unary("cos_f32", 512, trigonometric, 0, 0, [](float x) { return std::cos(x); });
  unary("clamp_f32", 512, exact, kLow, kHigh,
        [](float x) { return std::clamp(x, kLow, kHigh); });
}

void AddCopies(std::map<std::string, Case>* cases) {
  const std::pair<Element, Element> conversions[] = {
      {Element::kF32, Element::kF32}, {Element::kF32, Element::kF16},
      {Element::kF16, Element::kF32}, {Element::kF16, Element::kF16},
      {Element::kF32, Element::kBf16},
  };
  for (const auto& [from, to] : conversions) {
    const std::string suffix = "cpy_" + Named(from).first + "_" + Named(to).first;
    const auto same = [](float x) { return x; };
    AddUnary(suffix, from, to, 512, same, ToleranceOf(to), 0, 0, cases);
    AddUnary("contig_" + suffix, from, to, 128, same, ToleranceOf(to), 0, 0, cases);
  }
}

}  // namespace

void AddElementwiseCases(std::map<std::string, Case>* cases) {
  AddActivations(cases);
  AddArithmetic(cases);
  AddCopies(cases);
}

}  // namespace kcache::corpus
