// corpus_piglit: runs piglit's OpenCL program tests and compares their results.
//
//   corpus_piglit --tests DIR [--native] [--device N] [--only TEXT] [--shard I/N]
//
// DIR is where piglit lies (the folder with tests/ and generated_tests/). Prints a line for each
// case that failed ("FAILED file: case: why") or was skipped, and as the last line
//   files=… cases=… passed=… failed=… skipped=…

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "backends/opencl/cl_info.h"
#include "backends/opencl/device_catalog.h"
#include "tests/corpus/options.h"
#include "tests/corpus/piglit_run.h"

namespace kcache::corpus {
namespace {

namespace fs = std::filesystem;
namespace opencl = backend::opencl;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Files below `root` with this extension, in one order.
std::vector<fs::path> FindFiles(const fs::path& root, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The device's own words, as piglit asks for them. The daemon's devices are this machine's.
absl::StatusOr<DeviceTraits> TraitsOf(uint32_t index) {
  absl::StatusOr<opencl::CatalogDevice> device = opencl::FindDevice(index);
  if (!device.ok()) return device.status();
  DeviceTraits traits;
  traits.platform_version = opencl::PlatformText(device->platform, CL_PLATFORM_VERSION);
  traits.device_name = opencl::DeviceText(device->device, CL_DEVICE_NAME);
  traits.extensions = opencl::DeviceText(device->device, CL_DEVICE_EXTENSIONS);
  traits.max_local_size = static_cast<uint32_t>(
      opencl::DeviceValue<size_t>(device->device, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  uint32_t major = 1;
  uint32_t minor = 0;
  std::sscanf(opencl::DeviceText(device->device, CL_DEVICE_OPENCL_C_VERSION).c_str(),
              "OpenCL C %u.%u", &major, &minor);
  traits.opencl_c_version = major * 10 + minor;
  return traits;
}

int Run(const Options& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a crash must not lose lines
  const absl::StatusOr<DeviceTraits> device = TraitsOf(options.device);
  absl::StatusOr<std::unique_ptr<Executor>> executor =
      options.native ? MakeNativeExecutor(options.device) : MakeDaemonExecutor(options.device);
  if (!device.ok() || !executor.ok()) {
    std::fprintf(stderr, "%s\n%s\n", device.status().ToString().c_str(),
                 executor.status().ToString().c_str());
    return 2;
  }
  const fs::path root = options.directory;
  std::vector<std::pair<std::string, std::string>> headers;
  for (const fs::path& path : FindFiles(root / "tests/cl", ".h")) {
    headers.emplace_back(fs::relative(path, root).string(), ReadFile(path));
  }

  std::map<CaseResult::Outcome, size_t> count;
  size_t files = 0;
  size_t position = 0;
  for (const char* folder : {"tests/cl", "generated_tests/cl"}) {
    for (const fs::path& path : FindFiles(root / folder, ".cl")) {
      const std::string name = fs::relative(path, root).string();
      if (position++ % options.shards != options.shard) continue;
      if (name.find(options.only) == std::string::npos) continue;
      ++files;
      const absl::StatusOr<PiglitFile> file = ParsePiglitFile(ReadFile(path));
      std::vector<CaseResult> results;
      if (!file.ok()) {
        results.push_back({"parse", CaseResult::Outcome::kFailed, file.status().ToString()});
      } else if (const std::string why = ReasonToSkip(*file, *device); !why.empty()) {
        results.assign(std::max<size_t>(file->tests.size(), 1),
                       {"", CaseResult::Outcome::kSkipped, why});
        std::printf("SKIPPED %s: %s\n", name.c_str(), why.c_str());
      } else {
        results = RunPiglitFile(*file, name, headers, *device, executor->get());
      }
      for (const CaseResult& result : results) {
        ++count[result.outcome];
        if (result.outcome != CaseResult::Outcome::kFailed) continue;
        std::printf("FAILED %s: %s: %s\n", name.c_str(), result.name.c_str(),
                    result.detail.substr(0, result.detail.find('\n')).c_str());
      }
    }
  }
  const size_t passed = count[CaseResult::Outcome::kPassed];
  const size_t failed = count[CaseResult::Outcome::kFailed];
  const size_t skipped = count[CaseResult::Outcome::kSkipped];
  std::printf("files=%zu cases=%zu passed=%zu failed=%zu skipped=%zu\n", files,
              passed + failed + skipped, passed, failed, skipped);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kcache::corpus

int main(int argc, char** argv) {
  const std::optional<kcache::corpus::Options> options = kcache::corpus::ParseOptions(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: %s --tests DIR [--native] [--device N] [--only TEXT] [--shard I/N]\n",
                 argv[0]);
    return 2;
  }
  const int code = kcache::corpus::Run(*options);
  std::fflush(nullptr);
  std::_Exit(code);  // OpenCL drivers keep threads that must not see the process's destructors
}
