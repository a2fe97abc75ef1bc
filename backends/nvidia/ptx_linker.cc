#include "backends/nvidia/ptx_linker.h"

#include <dlfcn.h>

#include <string_view>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::nvidia {
namespace {

// nvJitLinkResult and nvJitLinkInputType of nvJitLink.h.
constexpr int kSuccess = 0;
constexpr int kUnrecognizedOption = 1;
constexpr int kInputPtx = 2;
constexpr char kInputName[] = "kcache.ptx";

template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

std::optional<PtxLinker> PtxLinker::Open(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  PtxLinker linker;
  linker.path_ = path;
  const bool resolved = Resolve(library, "nvJitLinkCreate", &linker.create_) &&
                        Resolve(library, "nvJitLinkDestroy", &linker.destroy_) &&
                        Resolve(library, "nvJitLinkAddData", &linker.add_data_) &&
                        Resolve(library, "nvJitLinkComplete", &linker.complete_) &&
                        Resolve(library, "nvJitLinkGetLinkedCubinSize", &linker.cubin_size_) &&
                        Resolve(library, "nvJitLinkGetLinkedCubin", &linker.cubin_) &&
                        Resolve(library, "nvJitLinkGetErrorLogSize", &linker.error_log_size_) &&
                        Resolve(library, "nvJitLinkGetErrorLog", &linker.error_log_) &&
                        Resolve(library, "nvJitLinkGetInfoLogSize", &linker.info_log_size_) &&
                        Resolve(library, "nvJitLinkGetInfoLog", &linker.info_log_);
  if (!resolved) return std::nullopt;
  return linker;
}

std::string PtxLinker::Log(Handle handle, Result (*size)(Handle, size_t*),
                           Result (*get)(Handle, char*)) const {
  size_t bytes = 0;
  if (size(handle, &bytes) != kSuccess || bytes == 0) return "";
  std::string log(bytes + 1, '\0');
  if (get(handle, log.data()) != kSuccess) return "";
  log.resize(std::string_view(log.c_str()).size());
  return log;
}

absl::StatusOr<PtxLinker::Output> PtxLinker::Link(const std::string& ptx,
                                                  const std::string& architecture,
                                                  const std::vector<std::string>& flags) const {
  const std::string target = absl::StrCat("-arch=", architecture);
  std::vector<const char*> options = {target.c_str()};
  for (const std::string& flag : flags) options.push_back(flag.c_str());
  Handle handle = nullptr;
  Result result = create_(&handle, static_cast<uint32_t>(options.size()), options.data());
  if (result != kSuccess) {
    return MakeError(result == kUnrecognizedOption ? v1::BAD_REQUEST : v1::COMPILE_FAILED,
                     absl::StrCat("nvJitLink does not take the options (error ", result, ")"));
  }
  // With its NUL: the size counts it.
  result = add_data_(handle, kInputPtx, ptx.c_str(), std::string_view(ptx.c_str()).size() + 1,
                     kInputName);
  if (result == kSuccess) result = complete_(handle);
  Output output;
  size_t bytes = 0;
  if (result == kSuccess) result = cubin_size_(handle, &bytes);
  if (result == kSuccess) {
    output.cubin.resize(bytes);
    result = cubin_(handle, output.cubin.data());
  }
  const std::string errors = Log(handle, error_log_size_, error_log_);
  output.log = Log(handle, info_log_size_, info_log_);
  destroy_(&handle);
  if (result == kSuccess) return output;
  return MakeError(v1::COMPILE_FAILED,
                   errors.empty() ? absl::StrCat("nvJitLink failed with error ", result) : errors);
}

}  // namespace kcache::backend::nvidia
