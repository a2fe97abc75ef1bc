#include "tests/corpus/vulkan/checks.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kcache::corpus {
namespace {

std::span<const std::byte> Bytes(const std::string& bytes) {
  return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

absl::Status Compare(const std::vector<float>& got, const Case& wanted) {
  for (size_t i = 0; i < wanted.expected.size(); ++i) {
    const float exact = wanted.expected[i];
    const float allowed = wanted.tolerance * std::max(1.0f, std::abs(exact));
    if (std::abs(got[i] - exact) <= allowed) continue;  // false for NaN
    return absl::DataLossError(
        absl::StrCat("element ", i, " of ", got.size(), " is ", got[i], ", not ", exact));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Check(Client& client, const DeviceId& device, const Kernel& kernel,
                   const Case& wanted) {
  auto queue = client.GetQueue(device);
  if (!queue.ok()) return queue.status();
  std::vector<Buffer> buffers;
  for (const std::string& input : wanted.inputs) {
    auto buffer = client.Allocate(device, input.size());
    if (!buffer.ok()) return buffer.status();
    absl::Status written = buffer->Write(*queue, 0, Bytes(input));
    if (!written.ok()) return written;
    buffers.push_back(*std::move(buffer));
  }
  // Begins as something that no case expects, so that what is not written shows.
  std::string result(wanted.expected.size() * BytesOf(wanted.output), '\x55');
  auto output = client.Allocate(device, result.size());
  if (!output.ok()) return output.status();
  absl::Status status = output->Write(*queue, 0, Bytes(result));
  if (!status.ok()) return status;
  buffers.push_back(*std::move(output));

  LaunchConfig config = LaunchConfig::Grid(wanted.groups, wanted.local);
  config.push_constants = Bytes(wanted.push_constants);
  std::vector<Argument> arguments(buffers.begin(), buffers.end());
  status = kernel.LaunchList(*queue, config, arguments);
  if (!status.ok()) return status;
  status = buffers.back().Read(*queue, 0,
                               std::as_writable_bytes(std::span(result.data(), result.size())));
  if (!status.ok()) return status;
  return Compare(Decode(wanted.output, result), wanted);
}

}  // namespace kcache::corpus
