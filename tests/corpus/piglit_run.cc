#include "tests/corpus/piglit_run.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "contract/error_reason.h"

namespace kcache::corpus {
namespace {

using Outcome = CaseResult::Outcome;

// A size of 0 stands for a dimension that the launch does not have.
std::array<uint32_t, 3> Filled(std::array<uint32_t, 3> sizes) {
  for (uint32_t& size : sizes) size = std::max<uint32_t>(size, 1);
  return sizes;
}

// Sizes beyond the launch's dimensions do not count, whatever a file says of them.
std::array<uint32_t, 3> Within(uint32_t dimensions, std::array<uint32_t, 3> sizes) {
  for (uint32_t i = dimensions; i < 3; ++i) sizes[i] = 1;
  return Filled(sizes);
}

bool HasOption(const PiglitFile& file, std::string_view prefix) {
  return std::any_of(file.build_options.begin(), file.build_options.end(),
                     [&](const std::string& option) { return option.rfind(prefix, 0) == 0; });
}

CorpusProgram ProgramOf(const PiglitFile& file, const std::string& name,
                        const std::vector<std::pair<std::string, std::string>>& headers,
                        const DeviceTraits& device) {
  CorpusProgram program;
  program.name = name;
  program.source = file.source;
  program.flags = file.build_options;
  if (HasOption(file, "-I")) program.headers = headers;
  if (!HasOption(file, "-cl-std=")) {
    program.flags.push_back("-cl-std=CL" + std::to_string(device.opencl_c_version / 10) + "." +
                            std::to_string(device.opencl_c_version % 10));
  }
  std::set<std::array<uint32_t, 3>> local_sizes;
  for (const PiglitTest& test : file.tests) {
    if (test.local) local_sizes.insert(Within(test.dimensions, *test.local));
  }
  for (const auto& local : local_sizes) {
    if (uint64_t{local[0]} * local[1] * local[2] <= device.max_local_size)
      program.local_sizes.push_back(local);
  }
  return program;
}

const PiglitArgument* Find(const std::vector<PiglitArgument>& arguments, uint32_t index) {
  const auto found =
      std::find_if(arguments.begin(), arguments.end(),
                   [&](const PiglitArgument& argument) { return argument.index == index; });
  return found == arguments.end() ? nullptr : &*found;
}

absl::StatusOr<MemoryId> MakeMemory(Executor* executor, const PiglitArgument& shape,
                                    const PiglitArgument* content) {
  if (shape.kind == PiglitArgument::Kind::kImage) {
    absl::StatusOr<MemoryId> image = executor->CreateImage(shape.image);
    if (!image.ok() || content == nullptr) return image;
    if (absl::Status status = executor->WriteImage(*image, content->bytes); !status.ok())
      return status;
    return image;
  }
  absl::StatusOr<MemoryId> buffer = executor->CreateBuffer(shape.bytes.size());
  if (!buffer.ok() || content == nullptr) return buffer;
  if (absl::Status status = executor->Write(*buffer, content->bytes); !status.ok()) return status;
  return buffer;
}

// A null pointer where the kernel wants local memory is its size: that of a pointer, as in piglit.
constexpr uint64_t kNullLocalBytes = 8;

absl::StatusOr<ArgumentValue> ValueOf(Executor* executor, const v1::ArgumentInfo& info,
                                      const PiglitArgument* in, const PiglitArgument* out) {
  ArgumentValue value;
  const PiglitArgument& shape = in != nullptr ? *in : *out;
  switch (shape.kind) {
    case PiglitArgument::Kind::kValue:
      value.bytes = shape.bytes;
      return value;
    case PiglitArgument::Kind::kSampler:
      value.kind = ArgumentValue::Kind::kSampler;
      value.sampler = shape.sampler;
      return value;
    case PiglitArgument::Kind::kNull:
      if (info.kind() != v1::ARGUMENT_LOCAL_MEMORY) {
        return MakeError(v1::BAD_REQUEST, "a null pointer for argument " + info.name());
      }
      value.kind = ArgumentValue::Kind::kLocalMemory;
      value.local_bytes = kNullLocalBytes;
      return value;
    case PiglitArgument::Kind::kImage:
    case PiglitArgument::Kind::kBuffer:
      break;
  }
  absl::StatusOr<MemoryId> memory = MakeMemory(executor, shape, in);
  if (!memory.ok()) return memory.status();
  value.kind = shape.kind == PiglitArgument::Kind::kImage ? ArgumentValue::Kind::kImage
                                                          : ArgumentValue::Kind::kBuffer;
  value.memory = *memory;
  return value;
}

absl::Status CheckResults(Executor* executor, const PiglitTest& test,
                          const std::vector<ArgumentValue>& arguments) {
  for (const PiglitArgument& expected : test.out) {
    const MemoryId memory = arguments[expected.index].memory;
    absl::StatusOr<std::string> actual = expected.kind == PiglitArgument::Kind::kImage
                                             ? executor->ReadImage(memory)
                                             : executor->Read(memory, expected.bytes.size());
    if (!actual.ok()) return actual.status();
    absl::Status status = CompareValues(expected.type, expected.bytes, *actual, expected.tolerance);
    if (!status.ok()) return Annotate(status, "argument " + std::to_string(expected.index));
  }
  return absl::OkStatus();
}

absl::Status RunTest(Executor* executor, KernelId kernel, const PiglitTest& test) {
  const v1::KernelInfo& info = executor->Info(kernel);
  std::vector<ArgumentValue> arguments;
  for (int i = 0; i < info.arguments_size(); ++i) {
    const PiglitArgument* in = Find(test.in, static_cast<uint32_t>(i));
    const PiglitArgument* out = Find(test.out, static_cast<uint32_t>(i));
    if (in == nullptr && out == nullptr) {
      return MakeError(v1::BAD_REQUEST, "the test gives nothing for argument " + std::to_string(i));
    }
    absl::StatusOr<ArgumentValue> value = ValueOf(executor, info.arguments(i), in, out);
    if (!value.ok()) return value.status();
    arguments.push_back(*std::move(value));
  }
  LaunchSizes sizes;
  sizes.dimensions = test.dimensions;
  sizes.global = Within(test.dimensions, test.global);
  if (test.local) sizes.local = Within(test.dimensions, *test.local);
  for (uint32_t i = 0; i < test.dimensions; ++i) sizes.offset[i] = test.offset[i];
  if (absl::Status status = executor->Launch(kernel, sizes, arguments); !status.ok()) return status;
  if (absl::Status status = executor->Synchronize(); !status.ok()) return status;
  return CheckResults(executor, test, arguments);
}

CaseResult Judge(const std::string& name, bool expect_failure, const absl::Status& status) {
  CaseResult result{name, Outcome::kPassed, status.ok() ? "" : status.ToString()};
  if (status.ok() == expect_failure) {
    result.outcome = Outcome::kFailed;
    if (status.ok()) result.detail = "passed where the file expects a failure";
  }
  return result;
}

std::vector<std::string> EntriesOf(const PiglitFile& file) {
  std::set<std::string> entries;
  for (const PiglitTest& test : file.tests) {
    if (!test.kernel.empty()) entries.insert(test.kernel);
  }
  return {entries.begin(), entries.end()};
}

}  // namespace

std::string ReasonToSkip(const PiglitFile& file, const DeviceTraits& device) {
  if (file.minimum_version > device.opencl_c_version) {
    return "needs OpenCL C " + std::to_string(file.minimum_version);
  }
  if (file.maximum_version != 0 && file.maximum_version < device.opencl_c_version) {
    return "is for OpenCL C up to " + std::to_string(file.maximum_version);
  }
  const auto lacks = [](const std::string& pattern, const std::string& text) {
    return !pattern.empty() && !std::regex_search(text, std::regex(pattern));
  };
  if (lacks(file.platform_regex, device.platform_version)) return "is for another platform";
  if (lacks(file.device_regex, device.device_name)) return "is for another device";
  for (const std::string& extension : file.device_extensions) {
    if ((" " + device.extensions + " ").find(" " + extension + " ") == std::string::npos) {
      return "needs " + extension;
    }
  }
  return {};
}

std::vector<CaseResult> RunPiglitFile(
    const PiglitFile& file, const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& headers, const DeviceTraits& device,
    Executor* executor) {
  const CorpusProgram program = ProgramOf(file, name, headers, device);
  std::vector<CaseResult> results;
  if (file.tests.empty()) {
    // Any entry shows whether the program builds: one that does not exist is refused by name.
    const std::vector<KernelName> names{{&program, "kcache_no_such_kernel"}};
    const absl::Status status = executor->Acquire(names)[0].status();
    const bool built = ReasonOf(status) == v1::UNKNOWN_ENTRY;
    results.push_back(Judge("build", file.expect_build_fail, built ? absl::OkStatus() : status));
    executor->ReleaseKernels();
    return results;
  }
  const std::vector<std::string> entries = EntriesOf(file);
  std::vector<KernelName> names;
  for (const std::string& entry : entries) names.push_back({&program, entry});
  std::vector<absl::StatusOr<KernelId>> kernels = executor->Acquire(names);
  std::map<std::string, absl::StatusOr<KernelId>> kernel_of;
  for (size_t i = 0; i < entries.size(); ++i) kernel_of.emplace(entries[i], kernels[i]);

  for (const PiglitTest& test : file.tests) {
    if (test.kernel.empty()) {
      results.push_back({test.name, Outcome::kSkipped, "it names no kernel"});
      continue;
    }
    const auto local =
        Within(test.dimensions, test.local.value_or(std::array<uint32_t, 3>{1, 1, 1}));
    if (uint64_t{local[0]} * local[1] * local[2] > device.max_local_size) {
      results.push_back({test.name, Outcome::kSkipped, "its local size is beyond the device's"});
      continue;
    }
    const absl::StatusOr<KernelId>& kernel = kernel_of.at(test.kernel);
    const absl::Status status = kernel.ok() ? RunTest(executor, *kernel, test) : kernel.status();
    results.push_back(Judge(test.name, test.expect_fail && kernel.ok(), status));
    executor->ReleaseMemory();
  }
  executor->ReleaseKernels();
  return results;
}

}  // namespace kcache::corpus
