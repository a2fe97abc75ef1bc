#include "backends/opencl/value_sizes.h"

#include <map>
#include <utility>

#include "backends/opencl/reflection.h"

namespace kcache::backend::opencl {
namespace {

constexpr char kPrefix[] = "kcache_size_of_";

template <typename Visit>
void ForEachUnsized(std::vector<v1::KernelInfo>* kernels, Visit visit) {
  for (v1::KernelInfo& kernel : *kernels) {
    for (v1::ArgumentInfo& argument : *kernel.mutable_arguments()) {
      const bool unsized = argument.kind() == v1::ARGUMENT_SCALAR && argument.bytes() == 0;
      if (unsized && !argument.type_name().empty()) visit(&argument);
    }
  }
}

}  // namespace

void FindValueSizes(
    const std::function<absl::StatusOr<ClProgram>(const std::string& suffix)>& build_with,
    cl_device_id device, std::vector<v1::KernelInfo>* kernels) {
  std::map<std::string, uint64_t> sizes;  // by type name
  ForEachUnsized(kernels, [&](v1::ArgumentInfo* argument) { sizes[argument->type_name()] = 0; });
  if (sizes.empty()) return;

  std::map<std::string, std::string> type_of;  // by the added kernel's name
  std::string suffix = "\n";
  for (const auto& [type, size] : sizes) {
    const std::string name = kPrefix + std::to_string(type_of.size());
    suffix += "__kernel __attribute__((reqd_work_group_size(sizeof(" + type + "), 1, 1))) void " +
              name + "(void) {}\n";
    type_of[name] = type;
  }
  const absl::StatusOr<ClProgram> program = build_with(suffix);
  if (!program.ok()) return;
  const absl::StatusOr<std::vector<v1::KernelInfo>> measured =
      ReflectProgram(program->get(), device);
  if (!measured.ok()) return;
  for (const v1::KernelInfo& kernel : *measured) {
    const auto type = type_of.find(kernel.entry());
    if (type != type_of.end()) sizes[type->second] = kernel.required_local_size().x();
  }
  ForEachUnsized(kernels, [&](v1::ArgumentInfo* argument) {
    argument->set_bytes(sizes[argument->type_name()]);
  });
}

}  // namespace kcache::backend::opencl
