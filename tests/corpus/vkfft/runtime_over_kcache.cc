#include "tests/corpus/vkfft/runtime_over_kcache.h"

#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/corpus/vkfft/compile_only.h"

namespace kcache::corpus {
namespace {

RuntimeOverKcache* current_runtime = nullptr;

bool IsAmd(std::string_view architecture) { return architecture.starts_with("gfx"); }

// Where there is no device: what the vendors' documentation gives for cards of compute
// capability 9.0, and for AMD's of these years.
DeviceLimits UsualLimits(std::string_view architecture) {
  DeviceLimits limits;
  limits.max_local_size = 1024;
  if (IsAmd(architecture)) {
    limits.max_local_dims = {1024, 1024, 1024};
    limits.max_grid_x = limits.max_grid_y = limits.max_grid_z = 2147483647;
    limits.local_memory_bytes = 64 << 10;
  } else {
    limits.max_local_dims = {1024, 1024, 64};
    limits.max_grid_x = 2147483647;
    limits.max_grid_y = limits.max_grid_z = 65535;
    limits.local_memory_bytes = 227 << 10;
  }
  return limits;
}

// AMD's gfx9 cards run 64 threads in step; their later ones, and NVIDIA's, 32.
int WarpSizeOf(std::string_view architecture) { return architecture.starts_with("gfx9") ? 64 : 32; }

}  // namespace

RuntimeOverKcache::RuntimeOverKcache(const Place& place, std::string language)
    : place_(place), language_(std::move(language)), warp_size_(WarpSizeOf(place.architecture)) {
  current_runtime = this;
  limits_ = place.device != nullptr ? place.device->limits : UsualLimits(place.architecture);
  if (place.device == nullptr) return;
  auto queue = place.client->GetQueue(place.device->id);
  if (Succeeded(queue.status())) queue_ = *queue;
}

RuntimeOverKcache::~RuntimeOverKcache() { current_runtime = nullptr; }

RuntimeOverKcache* RuntimeOverKcache::current() { return current_runtime; }

bool RuntimeOverKcache::Succeeded(const absl::Status& status) {
  failure_.Update(status);
  return status.ok();
}

absl::StatusOr<RuntimeMemory*> RuntimeOverKcache::Allocate(size_t bytes) {
  auto memory = std::make_unique<RuntimeMemory>();
  memory->bytes = bytes;
  if (place_.device != nullptr) {
    auto buffer = place_.client->Allocate(place_.device->id, bytes);
    if (!buffer.ok()) return buffer.status();
    memory->buffer = *std::move(buffer);
  }
  RuntimeMemory* const at = memory.get();
  memories_.emplace(at, std::move(memory));
  return at;
}

absl::Status RuntimeOverKcache::Write(RuntimeMemory* memory, const void* data, size_t bytes) {
  if (bytes > memory->bytes) return absl::OutOfRangeError(absl::StrCat("a copy of ", bytes));
  if (place_.device == nullptr) return absl::OkStatus();
  return memory->buffer.Write(queue_, 0, {static_cast<const std::byte*>(data), bytes});
}

absl::Status RuntimeOverKcache::Read(RuntimeMemory* memory, void* data, size_t bytes) {
  if (place_.device == nullptr) return absl::FailedPreconditionError("there is no device to read");
  return memory->buffer.Read(queue_, 0, {static_cast<std::byte*>(data), bytes});
}

RuntimeModule* RuntimeOverKcache::Load(std::string source) {
  auto module = std::make_unique<RuntimeModule>();
  module->source = std::move(source);
  RuntimeModule* const at = module.get();
  modules_.emplace(at, std::move(module));
  return at;
}

absl::StatusOr<RuntimeFunction*> RuntimeOverKcache::Function(RuntimeModule* module,
                                                             const std::string& entry) {
  auto function = std::make_unique<RuntimeFunction>();
  ++counts_.programs;
  const absl::Status status = LoadFunction(module->source, entry, function.get());
  if (!status.ok()) return status;
  ++counts_.compiled;
  return module->functions.emplace_back(std::move(function)).get();
}

absl::Status RuntimeOverKcache::LoadFunction(const std::string& source, const std::string& entry,
                                             RuntimeFunction* function) {
  if (place_.device == nullptr) return CompileOnly(place_, language_, source, entry);
  auto program = Program::FromSource(language_, source);
  if (!program.ok()) return program.status();
  auto kernel =
      place_.client->Acquire({.program = *program, .entry = entry, .device = place_.device->id});
  if (!kernel.ok()) return kernel.status();
  if (!kernel->info().arguments_known) {
    return absl::FailedPreconditionError(
        absl::StrCat("the arguments of ", entry, " are not known"));
  }
  function->kernel = *std::move(kernel);
  return absl::OkStatus();
}

absl::Status RuntimeOverKcache::Launch(const RuntimeFunction& function, Dim3 grid, Dim3 block,
                                       uint32_t shared_bytes, void* const* arguments) {
  if (place_.device == nullptr) return absl::OkStatus();
  std::vector<Argument> list;
  for (size_t i = 0; i < function.kernel.info().arguments.size(); ++i) {
    const auto memory = memories_.find(*static_cast<RuntimeMemory* const*>(arguments[i]));
    if (memory == memories_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("argument ", i, " is no memory of ours"));
    }
    list.emplace_back(memory->second->buffer);
  }
  LaunchConfig config = LaunchConfig::Grid(grid, block);
  config.dynamic_local_bytes = shared_bytes;
  ++counts_.launches;
  return function.kernel.LaunchList(queue_, config, list);
}

absl::Status RuntimeOverKcache::Synchronize() {
  return place_.device == nullptr ? absl::OkStatus() : queue_.Synchronize();
}

}  // namespace kcache::corpus
