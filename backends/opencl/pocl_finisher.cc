#include "backends/opencl/pocl_finisher.h"

#include <cstdlib>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "backends/opencl/cl_status.h"
#include "contract/error_reason.h"

namespace kcache::backend::opencl {
namespace {

namespace fs = std::filesystem;

constexpr char kSpecializeVariable[] = "POCL_BINARY_SPECIALIZE_WG";
constexpr std::string_view kAnyGrid = "-goffs0";
constexpr std::string_view kSmallGrid = "-goffs0-smallgrid";

// PoCL's name of a work-group function for `local`, for launches without a global offset.
std::string SpecializationName(const v1::Dim3& local) {
  return std::to_string(local.x()) + "-" + std::to_string(local.y()) + "-" +
         std::to_string(local.z()) + std::string(kAnyGrid);
}

bool EndsWith(const std::string& text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

// cache/XX/PROGRAM/KERNEL/64-1-1-goffs0/ also becomes …/64-1-1-goffs0-smallgrid/, unless it is
// there.
absl::Status FileAsSmallGrid(const fs::path& cache) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::recursive_directory_iterator entry(cache, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry.depth() < 3) continue;
    entry.disable_recursion_pending();
    if (entry->is_directory() && EndsWith(entry->path().filename().string(), kAnyGrid)) {
      found.push_back(entry->path());
    }
  }
  for (const fs::path& source : found) {
    if (error) break;
    fs::path target = source;
    target.replace_filename(
        source.filename().string().substr(0, source.filename().string().size() - kAnyGrid.size()) +
        std::string(kSmallGrid));
    if (!fs::exists(target)) fs::copy(source, target, error);
  }
  if (error) {
    return MakeError(v1::INTERNAL, "while finishing a program in PoCL's cache " + cache.string() +
                                       ": " + error.message());
  }
  return absl::OkStatus();
}

}  // namespace

std::string PoclSpecializations(std::span<const v1::Dim3> local_sizes) {
  std::set<std::string> names;
  for (const v1::Dim3& local : local_sizes) names.insert(SpecializationName(local));
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
  return list;
}

absl::StatusOr<ClProgram> FinishPoclProgram(
    ClProgram program, const std::string& specializations, const fs::path& cache,
    const std::function<absl::StatusOr<ClProgram>()>& rebuild) {
  setenv(kSpecializeVariable, specializations.c_str(), 1);
  // Asking for the size makes the export, and with it the compiling, happen.
  size_t bytes = 0;
  const cl_int error =
      clGetProgramInfo(program.get(), CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, nullptr);
  unsetenv(kSpecializeVariable);
  if (error != CL_SUCCESS) return FromCl(error, "finishing a program for " + specializations);

  if (absl::Status status = FileAsSmallGrid(cache); !status.ok()) return status;
  return rebuild();
}

}  // namespace kcache::backend::opencl
