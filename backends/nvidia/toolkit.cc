#include "backends/nvidia/toolkit.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/cudalike/library_identity.h"
#include "contract/digest.h"
#include "contract/error_reason.h"

namespace kcache::backend::nvidia {
namespace {

namespace fs = std::filesystem;

constexpr char kVariable[] = "KCACHE_CUDA_TOOLKIT";
constexpr char kDefaultToolkit[] = "/usr/local/cuda";

// Below a directory that was named.
constexpr std::array<const char*, 7> kLibraryFolders = {"lib64",
                                                        "lib",
                                                        "targets/x86_64-linux/lib",
                                                        "nvidia/cu13/lib",
                                                        "nvidia/cuda_nvrtc/lib",
                                                        "nvidia/nvjitlink/lib",
                                                        "."};
constexpr std::array<const char*, 6> kIncludeFolders = {"include",
                                                        "targets/x86_64-linux/include",
                                                        "nvidia/cu13/include",
                                                        "nvidia/cuda_runtime/include",
                                                        "nvidia/cuda_nvcc/include",
                                                        "nvidia/cuda_cccl/include"};

std::vector<std::string> NamedDirectories() {
  const char* value = std::getenv(kVariable);
  if (value == nullptr) return {};
  return absl::StrSplit(value, ':', absl::SkipEmpty());
}

std::string LibraryName(int major) { return absl::StrCat("libnvrtc.so.", major); }

// NVRTC opens its builtins by name; what is loaded already is found by that name.
void LoadBuiltins(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("libnvrtc-builtins.so.")) {
      (void)dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
  }
}

void* OpenBelow(const std::string& directory, int major, std::string* searched) {
  for (const char* folder : kLibraryFolders) {
    const fs::path path = fs::path(directory) / folder / LibraryName(major);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    LoadBuiltins(path.parent_path());
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* error = dlerror();
    absl::StrAppend(searched, " (", error == nullptr ? "cannot be opened" : error, ")");
  }
  return nullptr;
}

std::string PathOf(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "";
  std::error_code failed;
  const fs::path real = fs::canonical(map->l_name, failed);
  return failed ? std::string(map->l_name) : real.string();
}

template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool ResolveAll(void* library, NvrtcApi* api) {
  cudalike::RtcApi& common = api->common;
  return Resolve(library, "nvrtcGetErrorString", &common.get_error_string) &&
         Resolve(library, "nvrtcVersion", &common.version) &&
         Resolve(library, "nvrtcCreateProgram", &common.create_program) &&
         Resolve(library, "nvrtcDestroyProgram", &common.destroy_program) &&
         Resolve(library, "nvrtcCompileProgram", &common.compile_program) &&
         Resolve(library, "nvrtcGetProgramLogSize", &common.get_log_size) &&
         Resolve(library, "nvrtcGetProgramLog", &common.get_log) &&
         Resolve(library, "nvrtcAddNameExpression", &common.add_name_expression) &&
         Resolve(library, "nvrtcGetLoweredName", &common.get_lowered_name) &&
         Resolve(library, "nvrtcGetPTXSize", &api->ptx.size) &&
         Resolve(library, "nvrtcGetPTX", &api->ptx.get) &&
         Resolve(library, "nvrtcGetCUBINSize", &api->cubin.size) &&
         Resolve(library, "nvrtcGetCUBIN", &api->cubin.get) &&
         Resolve(library, "nvrtcGetNumSupportedArchs", &api->get_num_supported_archs) &&
         Resolve(library, "nvrtcGetSupportedArchs", &api->get_supported_archs);
}

std::optional<PtxLinker> FindPtxLinker(const std::vector<std::string>& directories,
                                       const std::string& nvrtc_path, int major) {
  const std::string name = absl::StrCat("libnvJitLink.so.", major);
  std::vector<fs::path> candidates = {fs::path(nvrtc_path).parent_path() / name};
  for (const std::string& directory : directories) {
    for (const char* folder : kLibraryFolders) {
      candidates.push_back(fs::path(directory) / folder / name);
    }
  }
  for (const fs::path& candidate : candidates) {
    std::error_code failed;
    const fs::path real = fs::canonical(candidate, failed);
    if (failed) continue;
    if (auto linker = PtxLinker::Open(real.string())) return linker;
  }
  return std::nullopt;
}

void AddIncludes(const fs::path& directory, std::vector<std::string>* includes) {
  std::error_code failed;
  const fs::path real = fs::canonical(directory, failed);
  if (failed || !fs::is_directory(real, failed)) return;
  if (std::find(includes->begin(), includes->end(), real.string()) != includes->end()) return;
  includes->push_back(real.string());
  // From CUDA 13 on, CUB, Thrust and libcu++ are in a folder of their own.
  if (fs::is_directory(real / "cccl", failed)) includes->push_back((real / "cccl").string());
}

std::vector<std::string> FindIncludes(const std::vector<std::string>& named,
                                      const std::string& nvrtc_path) {
  std::vector<std::string> includes;
  for (const std::string& directory : named) {
    for (const char* folder : kIncludeFolders) AddIncludes(fs::path(directory) / folder, &includes);
  }
  if (!includes.empty()) return includes;
  // The toolkit that the library belongs to: <root>/lib64/libnvrtc.so.13 or <root>/targets/…/lib/….
  const fs::path root = fs::path(nvrtc_path).parent_path().parent_path();
  AddIncludes(root / "include", &includes);
  if (includes.empty()) {
    for (const char* folder : kIncludeFolders)
      AddIncludes(fs::path(kDefaultToolkit) / folder, &includes);
  }
  return includes;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

absl::StatusOr<Toolkit> FindToolkit(const std::vector<int>& majors) {
  const std::vector<std::string> named = NamedDirectories();
  std::vector<std::string> directories = named;
  directories.emplace_back();  // the loader's own path
  directories.emplace_back(kDefaultToolkit);
  std::string searched;
  void* library = nullptr;
  for (const std::string& directory : directories) {
    for (const int major : majors) {
      library = directory.empty() ? dlopen(LibraryName(major).c_str(), RTLD_NOW | RTLD_LOCAL)
                                  : OpenBelow(directory, major, &searched);
      if (library != nullptr) break;
    }
    if (library != nullptr) break;
    absl::StrAppend(&searched, searched.empty() ? "" : ", ",
                    directory.empty() ? "the loader's path" : directory);
  }
  if (library == nullptr) {
    std::vector<std::string> names;
    for (const int major : majors) names.push_back(LibraryName(major));
    return MakeError(v1::BACKEND_UNAVAILABLE,
                     absl::StrCat(absl::StrJoin(names, ", "), " not found in ", searched, "; ",
                                  kVariable, " can name its directory"));
  }
  Toolkit toolkit;
  if (!ResolveAll(library, &toolkit.nvrtc)) {
    return MakeError(v1::BACKEND_UNAVAILABLE,
                     absl::StrCat(PathOf(library), " lacks functions of CUDA 11.2"));
  }
  toolkit.nvrtc_path = PathOf(library);
  (void)toolkit.nvrtc.common.version(&toolkit.major, &toolkit.minor);
  int count = 0;
  if (toolkit.nvrtc.get_num_supported_archs(&count) == cudalike::kRtcSuccess && count > 0) {
    toolkit.compute_capabilities.resize(static_cast<size_t>(count));
    (void)toolkit.nvrtc.get_supported_archs(toolkit.compute_capabilities.data());
  }
  toolkit.include_directories = FindIncludes(named, toolkit.nvrtc_path);
  toolkit.ptx_linker = FindPtxLinker(named, toolkit.nvrtc_path, toolkit.major);
  return toolkit;
}

std::vector<std::string> Toolkit::Architectures() const {
  std::vector<std::string> architectures;
  for (const int capability : compute_capabilities) {
    architectures.push_back(absl::StrCat("sm_", capability));
    // From Hopper on there are instructions that only code for exactly this chip may use, and from
    // Blackwell on some that its whole family has.
    if (capability >= 90) architectures.push_back(absl::StrCat("sm_", capability, "a"));
    const bool has_family = capability >= 100 && (major > 12 || (major == 12 && minor >= 9));
    if (has_family) architectures.push_back(absl::StrCat("sm_", capability, "f"));
  }
  return architectures;
}

std::string Toolkit::version() const { return absl::StrCat("NVRTC ", major, ".", minor); }

std::string Toolkit::Fingerprint() const {
  FieldHasher hasher("kcache-nvrtc-1");
  hasher.Integer(static_cast<uint64_t>(major)).Integer(static_cast<uint64_t>(minor));
  std::vector<fs::path> libraries;
  std::error_code ignored;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(nvrtc_path).parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    const bool counts = entry.path() == nvrtc_path || name.starts_with("libnvrtc-builtins.so.");
    if (counts) libraries.push_back(entry.path());
  }
  std::sort(libraries.begin(), libraries.end());
  for (const fs::path& library : libraries) {
    hasher.Field(library.filename().string()).Field(cudalike::LibraryIdentity(library.string()));
  }
  hasher.Field(ptx_linker ? cudalike::LibraryIdentity(ptx_linker->path()) : "");
  for (const std::string& directory : include_directories) {
    std::vector<fs::path> headers;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory, ignored)) {
      if (entry.is_regular_file(ignored)) headers.push_back(entry.path());
    }
    std::sort(headers.begin(), headers.end());
    hasher.Count(headers.size());
    for (const fs::path& header : headers) {
      hasher.Field(header.lexically_relative(directory).string())
          .Field(Digest::Of(ReadFile(header)));
    }
  }
  return hasher.Finish().str();
}

std::vector<std::string> Toolkit::ReadablePaths() const {
  std::vector<std::string> paths = {fs::path(nvrtc_path).parent_path().string()};
  if (ptx_linker) paths.push_back(fs::path(ptx_linker->path()).parent_path().string());
  paths.insert(paths.end(), include_directories.begin(), include_directories.end());
  return paths;
}

}  // namespace kcache::backend::nvidia
