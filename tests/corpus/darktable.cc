#include "tests/corpus/darktable.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <sstream>

#include "contract/error_reason.h"

namespace kcache::corpus {
namespace {

namespace fs = std::filesystem;

// A launch of 2 × 2 groups; every image and every width and height is as large as the launch.
constexpr uint32_t kLocal = 8;
constexpr uint32_t kExtent = 2 * kLocal;
// More than any kernel here reaches with indices below kExtent × kExtent × 16 floats.
constexpr uint64_t kBufferBytes = 1 << 20;
// darktable asks for a tile with a border a group; this is more than its largest.
constexpr uint64_t kLocalBytes = 64 << 10;

std::string Repeated(std::string_view value, uint64_t bytes) {
  std::string all;
  all.reserve(bytes + value.size());
  while (all.size() < bytes) all.append(value);
  all.resize(bytes);
  return all;
}

template <typename T>
std::string BytesOf(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// What a buffer starts with. Zero is harmless to every kernel but one, which interprets the byte
// code in `ips` until it finds INT_MAX.
std::string ContentFor(const v1::ArgumentInfo& argument) {
  if (argument.name() == "ips")
    return Repeated(BytesOf(std::numeric_limits<int32_t>::max()), kBufferBytes);
  return std::string(kBufferBytes, '\0');
}

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return MakeError(v1::BAD_REQUEST, "cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The kernels that a source defines, each with the text up to the next one.
std::vector<DarktableKernel> FindKernels(const std::string& source) {
  static const std::regex kDefinition(R"((?:^|\n)\s*(?:__)?kernel\s+void\s+(\w+)\s*\()");
  std::vector<DarktableKernel> kernels;
  size_t previous = 0;
  for (std::sregex_iterator match(source.begin(), source.end(), kDefinition), end; match != end;
       ++match) {
    const auto begin = static_cast<size_t>(match->position(1));
    if (!kernels.empty()) kernels.back().body = source.substr(previous, begin - previous);
    kernels.push_back({(*match)[1].str(), {}});
    previous = begin;
  }
  if (!kernels.empty()) kernels.back().body = source.substr(previous);
  return kernels;
}

// -D<vendor>=1, and for NVIDIA what every device since 2010 has. darktable goes by the vendor's
// number; PoCL answers with Intel's.
std::vector<std::pair<std::string, std::string>> VendorDefines(const std::string& vendor) {
  if (vendor.rfind("NVIDIA", 0) == 0) return {{"NVIDIA_SM_20", "1"}, {"NVIDIA", "1"}};
  if (vendor.rfind("Advanced Micro Devices", 0) == 0) return {{"AMD", "1"}};
  return {{"INTEL", "1"}};
}

// An image that a kernel reads or writes as integers cannot be of floats.
bool UsedAsIntegers(const DarktableKernel& kernel, const std::string& argument) {
  return std::regex_search(kernel.body,
                           std::regex("(?:read|write)_imageui\\s*\\(\\s*" + argument + "\\b"));
}

v1::ImageDescription ImageFor(const DarktableKernel& kernel, const v1::ArgumentInfo& argument) {
  v1::ImageDescription image;
  image.set_dimensions(v1::IMAGE_2D);
  image.set_width(kExtent);
  image.set_height(kExtent);
  image.set_order(v1::CHANNEL_RGBA);
  image.set_type(UsedAsIntegers(kernel, argument.name()) ? v1::CHANNEL_UINT8 : v1::CHANNEL_FLOAT32);
  return image;
}

bool NamesAnExtent(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  static const std::regex kExtentName("(.*width.*|.*height.*|w|h|wd|ht|.*_wd|.*_ht)");
  return std::regex_match(name, kExtentName);
}

std::string ScalarFor(const v1::ArgumentInfo& argument) {
  const std::string& type = argument.type_name();
  if (type.rfind("float", 0) == 0) return Repeated(BytesOf(0.5f), argument.bytes());
  if (type.rfind("int", 0) == 0 || type.rfind("uint", 0) == 0) {
    const int32_t value = NamesAnExtent(argument.name()) ? static_cast<int32_t>(kExtent) : 1;
    return Repeated(BytesOf(value), argument.bytes());
  }
  return std::string(argument.bytes(), '\0');  // enums: the first choice
}

}  // namespace

absl::StatusOr<std::vector<DarktableProgram>> ReadDarktable(const std::string& directory,
                                                            const std::string& vendor) {
  std::vector<std::pair<std::string, std::string>> headers;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string extension = entry.path().extension().string();
    // Some programs are included by others.
    if (extension != ".h" && extension != ".cl") continue;
    absl::StatusOr<std::string> content = ReadFile(entry.path());
    if (!content.ok()) return content.status();
    headers.emplace_back(entry.path().filename().string(), *std::move(content));
  }
  std::sort(headers.begin(), headers.end());

  absl::StatusOr<std::string> list = ReadFile(fs::path(directory) / "programs.conf");
  if (!list.ok()) return list.status();
  std::istringstream lines(*list);
  std::vector<DarktableProgram> programs;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    int number = 0;
    if (!(words >> name >> number)) continue;
    absl::StatusOr<std::string> source = ReadFile(fs::path(directory) / name);
    if (!source.ok()) return source.status();
    DarktableProgram program;
    program.program.name = name;
    program.kernels = FindKernels(*source);
    program.program.source = *std::move(source);
    program.program.headers = headers;
    // src/common/opencl.c: "-w", the vendor's options, what VendorDefines says, and the directory.
    program.program.flags = {"-w", "-cl-fast-relaxed-math"};
    program.program.defines = VendorDefines(vendor);
    program.program.local_sizes = {{kLocal, kLocal, 1}};
    programs.push_back(std::move(program));
  }
  return programs;
}

LaunchSizes DarktableLaunch() {
  LaunchSizes sizes;
  sizes.dimensions = 2;
  sizes.global = {kExtent, kExtent, 1};
  sizes.local = {{kLocal, kLocal, 1}};
  return sizes;
}

absl::StatusOr<std::vector<ArgumentValue>> DarktableArguments(Executor* executor,
                                                              const DarktableKernel& kernel,
                                                              const v1::KernelInfo& info) {
  std::vector<ArgumentValue> values;
  for (const v1::ArgumentInfo& argument : info.arguments()) {
    ArgumentValue value;
    switch (argument.kind()) {
      case v1::ARGUMENT_BUFFER: {
        absl::StatusOr<MemoryId> memory = executor->CreateBuffer(kBufferBytes);
        if (!memory.ok()) return memory.status();
        if (absl::Status status = executor->Write(*memory, ContentFor(argument)); !status.ok()) {
          return status;
        }
        value.kind = ArgumentValue::Kind::kBuffer;
        value.memory = *memory;
        break;
      }
      case v1::ARGUMENT_IMAGE: {
        const v1::ImageDescription image = ImageFor(kernel, argument);
        absl::StatusOr<MemoryId> memory = executor->CreateImage(image);
        if (!memory.ok()) return memory.status();
        const std::string pixel =
            image.type() == v1::CHANNEL_FLOAT32 ? BytesOf(0.5f) : BytesOf(uint8_t{1});
        if (absl::Status status = executor->WriteImage(*memory, Repeated(pixel, ImageBytes(image)));
            !status.ok()) {
          return status;
        }
        value.kind = ArgumentValue::Kind::kImage;
        value.memory = *memory;
        break;
      }
      case v1::ARGUMENT_LOCAL_MEMORY:
        value.kind = ArgumentValue::Kind::kLocalMemory;
        value.local_bytes = kLocalBytes;
        break;
      case v1::ARGUMENT_SCALAR:
        value.bytes = ScalarFor(argument);
        break;
      default:
        return MakeError(v1::INVALID_ARGUMENTS, "argument " + argument.name() + " of type " +
                                                    argument.type_name() + " cannot be made up");
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace kcache::corpus
