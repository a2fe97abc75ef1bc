#include "backends/vulkan/family.h"

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/vulkan/compiler.h"
#include "backends/vulkan/context.h"
#include "backends/vulkan/physical_device.h"
#include "contract/digest.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::vulkan {
namespace {

constexpr char kBackendVersion[] = "1";

// What tells the loader which drivers there are (the second name is the older one).
constexpr const char* kDriverVariables[] = {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"};

std::string VariableOrEmpty(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Where the loader looks for drivers' manifests, beside its compiled-in system directories.
std::vector<std::string> ManifestDirectories() {
  std::set<std::string> directories = {"/etc/vulkan", "/usr/share/vulkan",
                                       "/usr/local/share/vulkan", "/etc/glvnd", "/usr/share/glvnd"};
  for (const char* variable : kDriverVariables) {
    std::istringstream files(VariableOrEmpty(variable));
    for (std::string file; std::getline(files, file, ':');) {
      if (!file.empty()) directories.insert(std::filesystem::path(file).parent_path().string());
    }
  }
  std::vector<std::string> present;
  for (const std::string& directory : directories) {
    std::error_code error;
    if (std::filesystem::is_directory(directory, error)) present.push_back(directory);
  }
  return present;
}

// Version and identity of everything that shapes a binary before a driver sees it.
std::string CompilerFingerprint(const std::string& version) {
  FieldHasher hasher("kcache vulkan compiler 1");
  hasher.Field(kBackendVersion).Field(version);
  return hasher.Finish().str();
}

}  // namespace

std::string RequestedIdentity() { return VariableOrEmpty(kDeviceVariable); }

void IsolateFromEnvironment() {
  constexpr int kOverwrite = 1;
  setenv("MESA_SHADER_CACHE_DISABLE", "true", kOverwrite);
  setenv("MESA_GLSL_CACHE_DISABLE", "true", kOverwrite);
  setenv("__GL_SHADER_DISK_CACHE", "0", kOverwrite);
  setenv("VK_LOADER_LAYERS_DISABLE", "~implicit~", kOverwrite);
  // Loaders before 1.3.234 do not know the variable above; this layer of Mesa's reorders devices.
  setenv("NODEVICE_SELECT", "1", kOverwrite);
  for (const char* variable :
       {"VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE", "VK_LAYER_PATH", "VK_ADD_LAYER_PATH"}) {
    unsetenv(variable);
  }
}

absl::StatusOr<std::shared_ptr<Instance>> VulkanFamily::GetInstance() {
  if (instance_ == nullptr) {
    auto instance = Instance::Create(options_);
    if (!instance.ok()) return instance.status();
    instance_ = *std::move(instance);
  }
  return instance_;
}

v1::ProbeReport VulkanFamily::Probe() {
  v1::ProbeReport report;
  report.set_family("Vulkan");
  report.set_backend_version(kBackendVersion);

  v1::CompileCapability* compiler = report.add_compilers();
  compiler->set_framework("Vulkan");
  const std::vector<std::string> languages = {"glsl", "spirv", "binary"};
  const std::string version = GlslCompilerVersion();
  compiler->set_compiler_version(ToValidUtf8(version));
  compiler->set_compiler_fingerprint(CompilerFingerprint(version));
  for (const std::string& language : languages) compiler->add_languages(language);
  compiler->add_architectures(kPlainArchitecture);

  v1::CompileProfile* profile = report.mutable_compile_profile();
  profile->set_needs_device(true);
  for (const std::string& directory : ManifestDirectories()) {
    profile->add_readable_paths(directory);
  }

  auto instance = GetInstance();
  if (!instance.ok()) {
    report.set_reason(ToValidUtf8(StdView(instance.status().message())));
    return report;
  }
  std::vector<std::string> rejected;
  auto handles = (*instance)->ComputeDevices(&rejected);
  if (!handles.ok()) {
    report.set_reason(ToValidUtf8(StdView(handles.status().message())));
    return report;
  }
  report.set_available(true);
  if (!rejected.empty()) report.set_reason(ToValidUtf8(absl::StrJoin(rejected, "; ")));
  std::set<std::string> architectures;
  for (uint32_t index = 0; index < handles->size(); ++index) {
    const PhysicalDevice device = DescribePhysicalDevice(**instance, (*handles)[index]);
    v1::DeviceInfo* info = report.add_devices();
    *info = DescribeDevice(device);
    info->mutable_device()->set_framework("Vulkan");
    info->mutable_device()->set_index(index);
    info->set_compiler_version(compiler->compiler_version());
    info->set_compiler_fingerprint(compiler->compiler_fingerprint());
    for (const std::string& language : languages) info->add_languages(language);
    info->add_host_environment(absl::StrCat(kDeviceVariable, "=", device.identity()));
    for (const char* variable : kDriverVariables) {
      const std::string value = VariableOrEmpty(variable);
      if (!value.empty()) info->add_host_environment(absl::StrCat(variable, "=", value));
    }
    for (const std::string& node : device.device_nodes) profile->add_device_nodes(node);
    if (architectures.insert(info->architecture()).second) {
      compiler->add_architectures(info->architecture());
    }
  }
  return report;
}

absl::StatusOr<std::unique_ptr<Compiler>> VulkanFamily::MakeCompiler() {
  auto instance = GetInstance();
  return std::make_unique<VulkanCompiler>(instance.ok() ? *instance : nullptr, instance.status());
}

absl::StatusOr<std::unique_ptr<Context>> VulkanFamily::OpenContext(const ContextOptions& options) {
  if (!options.variant.empty()) {
    return MakeError(v1::UNKNOWN_DEVICE,
                     absl::StrCat("Vulkan has no variant ", Quoted(options.variant)));
  }
  auto instance = GetInstance();
  if (!instance.ok()) return instance.status();
  auto physical = FindPhysicalDevice(**instance, options.index, RequestedIdentity());
  if (!physical.ok()) return physical.status();
  v1::DeviceInfo info = DescribeDevice(*physical);
  info.mutable_device()->set_framework("Vulkan");
  info.mutable_device()->set_index(options.index);
  return VulkanContext::Open(*instance, *std::move(physical), std::move(info));
}

}  // namespace kcache::backend::vulkan
