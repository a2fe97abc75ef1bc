#include "backends/opencl/loaded_kernel.h"

#include <algorithm>
#include <utility>

#include "backends/opencl/cl_status.h"

namespace kcache::backend::opencl {
namespace {

std::array<char, 3> Pack(const v1::Sampler& sampler) {
  return {static_cast<char>(sampler.normalized_coordinates()),
          static_cast<char>(sampler.addressing()), static_cast<char>(sampler.linear())};
}

// What identifies the value beside numbers: a scalar's bytes, or a sampler's fields.
std::string_view ValueBytes(const KernelArgument& argument, std::array<char, 3>* packed) {
  if (argument.kind != KernelArgument::Kind::kSampler) return argument.scalar;
  *packed = Pack(*argument.sampler);
  return {packed->data(), packed->size()};
}

}  // namespace

bool BoundArgument::Is(const KernelArgument& argument) const {
  std::array<char, 3> packed{};
  return is_set && kind == argument.kind && memory == argument.memory &&
         offset == argument.offset && bytes == argument.bytes &&
         scalar == ValueBytes(argument, &packed);
}

void BoundArgument::Become(const KernelArgument& argument) {
  std::array<char, 3> packed{};
  is_set = true;
  kind = argument.kind;
  scalar.assign(ValueBytes(argument, &packed));
  memory = argument.memory;
  offset = argument.offset;
  bytes = argument.bytes;
}

LoadedKernel::LoadedKernel(cl_program program, v1::KernelInfo info)
    : program_(program), info_(std::move(info)) {}

absl::StatusOr<QueueBinding*> LoadedKernel::BindingOf(QueueHandle queue) {
  {
    MutexLock lock(&mutex_);
    if (const auto found = bindings_.find(queue); found != bindings_.end())
      return found->second.get();
  }
  // Only this queue's thread makes its binding, so nobody can be faster.
  auto binding = std::make_unique<QueueBinding>();
  cl_int error = CL_SUCCESS;
  binding->kernel = ClKernel(clCreateKernel(program_, info_.lowered_name().c_str(), &error));
  if (error != CL_SUCCESS) return FromCl(error, "clCreateKernel(" + info_.lowered_name() + ")");
  QueueBinding* const result = binding.get();
  MutexLock lock(&mutex_);
  bindings_[queue] = std::move(binding);
  return result;
}

bool LoadedKernel::FinishedFor(const Extent& local) const {
  return std::any_of(info_.finished_local_sizes().begin(), info_.finished_local_sizes().end(),
                     [&](const v1::Dim3& size) {
                       return size.x() == local.x && size.y() == local.y && size.z() == local.z;
                     });
}

Extent LoadedKernel::FinishedDivisorOf(const Extent& global) const {
  Extent best{0, 0, 0};
  uint64_t best_items = 0;
  for (const v1::Dim3& size : info_.finished_local_sizes()) {
    if (size.x() == 0 || size.y() == 0 || size.z() == 0) continue;
    const bool divides =
        global.x % size.x() == 0 && global.y % size.y() == 0 && global.z % size.z() == 0;
    const uint64_t items = uint64_t{size.x()} * size.y() * size.z();
    if (divides && items > best_items) {
      best = {size.x(), size.y(), size.z()};
      best_items = items;
    }
  }
  return best;
}

bool LoadedKernel::FirstLaunchWith(const Extent& local, bool has_offset) {
  const std::array<uint32_t, 4> key{local.x, local.y, local.z, has_offset ? 1U : 0U};
  MutexLock lock(&mutex_);
  if (std::find(launched_with_.begin(), launched_with_.end(), key) != launched_with_.end())
    return false;
  launched_with_.push_back(key);
  return true;
}

absl::Status LoadedKernel::Release() {
  std::unordered_map<QueueHandle, std::unique_ptr<QueueBinding>> bindings;
  {
    MutexLock lock(&mutex_);
    bindings.swap(bindings_);
  }
  absl::Status first;
  for (auto& [queue, binding] : bindings)
    first.Update(FromCl(binding->kernel.reset(), "clReleaseKernel"));
  return first;
}

}  // namespace kcache::backend::opencl
