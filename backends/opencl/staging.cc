#include "backends/opencl/staging.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "contract/error_reason.h"

namespace kcache::backend::opencl {
namespace {

absl::Status CannotShare(uint64_t first, uint64_t second, uint64_t alignment) {
  return MakeError(v1::INVALID_ARGUMENTS,
                   "buffer arguments at offsets " + std::to_string(first) + " and " +
                       std::to_string(second) +
                       " overlap: this device shows kernels parts of one buffer together only at "
                       "multiples of " +
                       std::to_string(alignment) + " bytes");
}

}  // namespace

bool NeedsStaging(std::span<const KernelArgument> arguments, uint64_t alignment) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const KernelArgument& argument) {
    return argument.kind == KernelArgument::Kind::kBuffer && argument.offset != 0 &&
           argument.offset % alignment != 0;
  });
}

absl::StatusOr<std::vector<StagedRange>> PlanStaging(std::span<const KernelArgument> arguments,
                                                     uint64_t alignment) {
  std::vector<StagedRange> parts;
  for (const KernelArgument& argument : arguments) {
    if (argument.kind != KernelArgument::Kind::kBuffer) continue;
    parts.push_back({argument.memory, argument.offset, argument.offset + argument.bytes});
  }
  std::sort(parts.begin(), parts.end(), [](const StagedRange& a, const StagedRange& b) {
    return std::tie(a.memory, a.begin, a.end) < std::tie(b.memory, b.begin, b.end);
  });
  std::vector<StagedRange> ranges;
  for (const StagedRange& part : parts) {
    if (!ranges.empty() && ranges.back().memory == part.memory && part.begin < ranges.back().end) {
      StagedRange& range = ranges.back();
      if ((part.begin - range.begin) % alignment != 0) {
        return CannotShare(range.begin, part.begin, alignment);
      }
      range.end = std::max(range.end, part.end);
    } else {
      ranges.push_back(part);
    }
  }
  // What lies at a multiple of the alignment is shown in place.
  std::erase_if(ranges, [&](const StagedRange& range) { return range.begin % alignment == 0; });
  return ranges;
}

}  // namespace kcache::backend::opencl
