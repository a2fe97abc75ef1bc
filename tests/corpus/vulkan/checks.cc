#include "tests/corpus/vulkan/checks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <span>

#include "absl/strings/str_cat.h"

namespace kcache::corpus {
namespace {

// generic_head.comp's push constants.
struct GenericParameters {
  uint32_t kx, ky;
  float param1, param2;
};

constexpr float kLeak = 0.1f;        // param1 of leaky_relu
constexpr uint32_t kLocal = 512;     // of the element-wise shaders
constexpr float kTolerance = 1e-4f;  // drivers' exp and tanh differ in the last digits

const std::map<std::string, std::function<float(float)>>& Elementwise() {
  static const auto* const functions = new std::map<std::string, std::function<float(float)>>{
      {"gelu_f32",
       [](float x) {
         return 0.5f * x * (1 + std::tanh(0.79788456080286535588f * x * (1 + 0.044715f * x * x)));
       }},
      {"gelu_quick_f32", [](float x) { return x / (1 + std::exp(-1.702f * x)); }},
      {"silu_f32", [](float x) { return x / (1 + std::exp(-x)); }},
      {"relu_f32", [](float x) { return std::max(x, 0.0f); }},
      {"tanh_f32", [](float x) { return std::tanh(x); }},
      {"sigmoid_f32", [](float x) { return 1 / (1 + std::exp(-x)); }},
      {"leaky_relu_f32", [](float x) { return std::max(x, 0.0f) + kLeak * std::min(x, 0.0f); }},
  };
  return *functions;
}

// In [-3, 3), the same in every run, no two neighbours alike.
std::vector<float> Values(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(i * 2654435761u % 6000) / 1000 - 3;
  }
  return values;
}

// Launches with one input and one output buffer.
template <class Out>
absl::Status Run(Client& client, const DeviceId& device, const Kernel& kernel,
                 const std::vector<float>& in, const GenericParameters& parameters, Dim3 grid,
                 Dim3 local, std::vector<Out>* out) {
  auto queue = client.GetQueue(device);
  if (!queue.ok()) return queue.status();
  auto input = client.Allocate(device, in.size() * sizeof(float));
  if (!input.ok()) return input.status();
  auto output = client.Allocate(device, out->size() * sizeof(Out));
  if (!output.ok()) return output.status();
  absl::Status status = input->Write(*queue, in);
  LaunchConfig config = LaunchConfig::Grid(grid, local);
  config.push_constants = std::as_bytes(std::span(&parameters, 1));
  if (status.ok()) status = kernel.Launch(*queue, config, *input, *output);
  if (status.ok()) status = output->Read(*queue, out);
  return status;
}

absl::Status CheckElementwise(Client& client, const DeviceId& device, const Kernel& kernel,
                              const std::function<float(float)>& expected) {
  constexpr uint32_t kCount = 5000;
  const std::vector<float> in = Values(kCount);
  std::vector<float> out(kCount, NAN);
  absl::Status ran = Run(client, device, kernel, in, {kCount, 1, kLeak, 0},
                         {(kCount + kLocal - 1) / kLocal}, {kLocal}, &out);
  if (!ran.ok()) return ran;
  for (uint32_t i = 0; i < kCount; ++i) {
    if (std::abs(out[i] - expected(in[i])) <= kTolerance) continue;
    return absl::DataLossError(
        absl::StrCat("f(", in[i], ") is ", out[i], ", not ", expected(in[i]), " at element ", i));
  }
  return absl::OkStatus();
}

constexpr uint32_t kRows = 37, kColumns = 300, kRowLocal = 32;

absl::Status CheckSumRows(Client& client, const DeviceId& device, const Kernel& kernel) {
  const std::vector<float> in = Values(kRows * kColumns);
  std::vector<float> out(kRows, NAN);
  absl::Status ran =
      Run(client, device, kernel, in, {kColumns, kRows, 0, 0}, {kRows}, {kRowLocal}, &out);
  if (!ran.ok()) return ran;
  for (uint32_t row = 0; row < kRows; ++row) {
    const auto begin = in.begin() + row * kColumns;
    const float sum = std::accumulate(begin, begin + kColumns, 0.0f);
    if (std::abs(out[row] - sum) <= 1e-2f) continue;
    return absl::DataLossError(absl::StrCat("row ", row, " sums to ", out[row], ", not ", sum));
  }
  return absl::OkStatus();
}

absl::Status CheckArgmax(Client& client, const DeviceId& device, const Kernel& kernel) {
  const std::vector<float> in = Values(kRows * kColumns);
  std::vector<int32_t> out(kRows, -1);
  absl::Status ran =
      Run(client, device, kernel, in, {kColumns, kRows, 0, 0}, {kRows}, {kRowLocal}, &out);
  if (!ran.ok()) return ran;
  for (uint32_t row = 0; row < kRows; ++row) {
    const auto begin = in.begin() + row * kColumns;
    const float most = *std::max_element(begin, begin + kColumns);
    const bool inside = out[row] >= 0 && out[row] < static_cast<int32_t>(kColumns);
    if (inside && begin[out[row]] == most) continue;
    return absl::DataLossError(
        absl::StrCat("row ", row, ": element ", out[row], " is said to be the greatest"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> CheckableVariants() {
  std::vector<std::string> names = {"sum_rows_f32", "argmax_f32"};
  for (const auto& [name, function] : Elementwise()) names.push_back(name);
  return names;
}

Specialization SpecializationFor(const std::string& name) {
  Specialization specialization;
  // Their BLOCK_SIZE is their local size, too.
  if (name == "sum_rows_f32" || name == "argmax_f32") {
    specialization.constants = {{.id = 0, .value = kRowLocal}};
  }
  return specialization;
}

absl::Status Check(Client& client, const DeviceId& device, const std::string& name,
                   const Kernel& kernel) {
  if (name == "sum_rows_f32") return CheckSumRows(client, device, kernel);
  if (name == "argmax_f32") return CheckArgmax(client, device, kernel);
  const auto function = Elementwise().find(name);
  if (function == Elementwise().end()) {
    return absl::NotFoundError("no check for variant " + name);
  }
  return CheckElementwise(client, device, kernel, function->second);
}

}  // namespace kcache::corpus
