// Plain OpenCL: what a program without kcache does.

#include <filesystem>
#include <fstream>
#include <map>

#include "backends/opencl/build_input.h"
#include "backends/opencl/cl_info.h"
#include "backends/opencl/context.h"
#include "backends/opencl/device_catalog.h"
#include "backends/opencl/device_description.h"
#include "backends/opencl/private_directory.h"
#include "backends/opencl/program_build.h"
#include "backends/opencl/reflection.h"
#include "backends/opencl/value_sizes.h"
#include "contract/error_reason.h"
#include "tests/corpus/executor.h"

namespace kcache::corpus {
namespace {

namespace opencl = backend::opencl;
namespace fs = std::filesystem;

// Programs are built and launched by the driver alone, from source and with nothing prepared.
// Memory and launches go through the backend's context, which is a thin layer over the same driver
// calls.
class NativeExecutor final : public Executor {
 public:
  NativeExecutor(const opencl::CatalogDevice& device, opencl::PrivateDirectory directory)
      : device_(device), directory_(std::move(directory)) {}

  absl::Status Open(uint32_t index) {
    absl::StatusOr<std::unique_ptr<opencl::OpenClContext>> context =
        opencl::OpenClContext::Open(device_, opencl::DescribeDevice(device_, index));
    if (!context.ok()) return context.status();
    context_ = *std::move(context);
    absl::StatusOr<backend::QueueHandle> queue = context_->CreateQueue();
    if (!queue.ok()) return queue.status();
    queue_ = *queue;
    return absl::OkStatus();
  }

  std::string Vendor() const override {
    return opencl::DeviceText(device_.device, CL_DEVICE_VENDOR);
  }

  std::vector<absl::StatusOr<KernelId>> Acquire(std::span<const KernelName> names) override {
    std::vector<absl::StatusOr<KernelId>> kernels;
    std::map<const CorpusProgram*, absl::StatusOr<Module>> modules;
    for (const KernelName& name : names) {
      auto found = modules.find(name.program);
      if (found == modules.end()) {
        found = modules.emplace(name.program, Build(*name.program)).first;
      }
      kernels.push_back(found->second.ok() ? Resolve(*found->second, name.entry)
                                           : absl::StatusOr<KernelId>(found->second.status()));
    }
    return kernels;
  }

  const v1::KernelInfo& Info(KernelId kernel) const override { return infos_.at(kernel); }

  void ReleaseKernels() override {
    for (const auto& [kernel, info] : infos_) context_->ReleaseKernel(kernel).IgnoreError();
    for (const backend::ModuleHandle module : modules_)
      context_->UnloadModule(module).IgnoreError();
    infos_.clear();
    modules_.clear();
  }

  absl::StatusOr<MemoryId> CreateBuffer(uint64_t bytes) override {
    return Remember(context_->Allocate(bytes, backend::MemoryKind::kDevice));
  }

  absl::StatusOr<MemoryId> CreateImage(const v1::ImageDescription& description) override {
    absl::StatusOr<MemoryId> image = Remember(context_->CreateImage(description));
    if (image.ok()) images_[*image] = description;
    return image;
  }

  absl::Status Write(MemoryId buffer, std::string_view bytes) override {
    if (absl::Status status = context_->Write(queue_, buffer, 0, bytes); !status.ok())
      return status;
    return Synchronize();
  }

  absl::Status WriteImage(MemoryId image, std::string_view pixels) override {
    absl::StatusOr<MemoryId> staging = CreateBuffer(pixels.size());
    if (!staging.ok()) return staging.status();
    if (absl::Status status = Write(*staging, pixels); !status.ok()) return status;
    return context_->CopyBufferToImage(queue_, *staging, 0, image, Whole(images_.at(image)));
  }

  absl::StatusOr<std::string> Read(MemoryId buffer, uint64_t bytes) override {
    std::string data(bytes, '\0');
    absl::Status status = context_->Read(queue_, buffer, 0, {data.data(), data.size()});
    status.Update(Synchronize());
    if (!status.ok()) return status;
    return data;
  }

  absl::StatusOr<std::string> ReadImage(MemoryId image) override {
    const v1::ImageDescription& description = images_.at(image);
    absl::StatusOr<MemoryId> staging = CreateBuffer(ImageBytes(description));
    if (!staging.ok()) return staging.status();
    absl::Status status =
        context_->CopyImageToBuffer(queue_, image, Whole(description), *staging, 0);
    if (!status.ok()) return status;
    return Read(*staging, ImageBytes(description));
  }

  void ReleaseMemory() override {
    Synchronize().IgnoreError();
    for (const MemoryId memory : memory_) context_->Free(memory).IgnoreError();
    memory_.clear();
    images_.clear();
  }

  absl::Status Launch(KernelId kernel, const LaunchSizes& sizes,
                      std::span<const ArgumentValue> arguments) override {
    std::vector<backend::KernelArgument> list;
    for (const ArgumentValue& value : arguments) list.push_back(Translate(value));
    backend::LaunchCommand command;
    command.kernel = kernel;
    command.arguments = list;
    command.dimensions = sizes.dimensions;
    command.global = {sizes.global[0], sizes.global[1], sizes.global[2]};
    command.driver_picks_local = !sizes.local.has_value();
    if (sizes.local) command.local = {(*sizes.local)[0], (*sizes.local)[1], (*sizes.local)[2]};
    command.global_offset = {sizes.offset[0], sizes.offset[1], sizes.offset[2]};
    command.has_global_offset = sizes.offset != std::array<uint32_t, 3>{0, 0, 0};
    return context_->Launch(queue_, command);
  }

  absl::Status Synchronize() override {
    absl::StatusOr<backend::MarkerHandle> marker = context_->RecordMarker(queue_);
    if (!marker.ok()) return marker.status();
    return context_->WaitMarker(*marker);
  }

 private:
  struct Module {
    backend::ModuleHandle handle = 0;
    std::vector<v1::KernelInfo> kernels;
  };

  static backend::ImageRegion Whole(const v1::ImageDescription& description) {
    const auto at_least_one = [](uint32_t size) { return size == 0 ? 1 : size; };
    backend::ImageRegion region;
    region.size = {at_least_one(description.width()), at_least_one(description.height()),
                   at_least_one(description.depth() + description.layers())};
    return region;
  }

  static backend::KernelArgument Translate(const ArgumentValue& value) {
    backend::KernelArgument argument;
    switch (value.kind) {
      case ArgumentValue::Kind::kBytes:
        argument.kind = backend::KernelArgument::Kind::kScalar;
        argument.scalar = value.bytes;
        break;
      case ArgumentValue::Kind::kBuffer:
        argument.kind = backend::KernelArgument::Kind::kBuffer;
        argument.memory = value.memory;
        break;
      case ArgumentValue::Kind::kLocalMemory:
        argument.kind = backend::KernelArgument::Kind::kLocalMemory;
        argument.bytes = value.local_bytes;
        break;
      case ArgumentValue::Kind::kImage:
        argument.kind = backend::KernelArgument::Kind::kImage;
        argument.memory = value.memory;
        break;
      case ArgumentValue::Kind::kSampler:
        argument.kind = backend::KernelArgument::Kind::kSampler;
        argument.sampler = &value.sampler;
        break;
    }
    return argument;
  }

  absl::StatusOr<MemoryId> Remember(absl::StatusOr<backend::MemoryHandle> memory) {
    if (memory.ok()) memory_.push_back(*memory);
    return memory;
  }

  absl::StatusOr<Module> Build(const CorpusProgram& program) {
    std::error_code error;
    const fs::path root = directory_.path() / opencl::kHeaderDirectory;
    fs::remove_all(root, error);
    fs::create_directories(root, error);
    for (const auto& [name, content] : program.headers) {
      fs::create_directories((root / name).parent_path(), error);
      std::ofstream(root / name, std::ios::binary) << content;
    }
    fs::current_path(directory_.path());
    v1::ProgramManifest manifest;
    for (const auto& [name, value] : program.defines) {
      v1::Define* define = manifest.add_defines();
      define->set_name(name);
      define->set_value(value);
    }
    for (const std::string& flag : program.flags) manifest.add_flags(flag);
    absl::StatusOr<std::string> options = opencl::BuildOptions(manifest);
    if (!options.ok()) return options.status();
    absl::StatusOr<std::string> text = opencl::SourcePrelude(manifest);
    if (!text.ok()) return text.status();
    text->append(program.source);
    const auto build = [&](const std::string& suffix) {
      return opencl::BuildProgram(context_->cl(), device_, opencl::ProgramForm::kSource,
                                  *text + suffix, *options, 1 << 20);
    };
    absl::StatusOr<opencl::BuiltProgram> built = build("");
    if (!built.ok()) return built.status();
    absl::StatusOr<std::vector<v1::KernelInfo>> kernels =
        opencl::ReflectProgram(built->program.get(), device_.device);
    if (!kernels.ok()) return kernels.status();
    opencl::FindValueSizes(
        [&](const std::string& suffix) -> absl::StatusOr<opencl::ClProgram> {
          absl::StatusOr<opencl::BuiltProgram> again = build(suffix);
          if (!again.ok()) return again.status();
          return std::move(again->program);
        },
        device_.device, &*kernels);
    const backend::ModuleHandle module = context_->AdoptProgram(std::move(built->program));
    modules_.push_back(module);
    return Module{module, *std::move(kernels)};
  }

  absl::StatusOr<KernelId> Resolve(const Module& module, const std::string& entry) {
    v1::KernelInfo info;
    info.set_entry(entry);
    for (const v1::KernelInfo& kernel : module.kernels) {
      if (kernel.entry() == entry) info = kernel;
    }
    backend::LoadStatistics statistics;
    absl::StatusOr<KernelId> kernel =
        context_->ResolveKernel(module.handle, {}, &info, &statistics);
    if (kernel.ok()) infos_[*kernel] = info;
    return kernel;
  }

  const opencl::CatalogDevice device_;
  opencl::PrivateDirectory directory_;
  std::unique_ptr<opencl::OpenClContext> context_;
  backend::QueueHandle queue_ = 0;
  std::map<KernelId, v1::KernelInfo> infos_;
  std::map<MemoryId, v1::ImageDescription> images_;
  std::vector<backend::ModuleHandle> modules_;
  std::vector<MemoryId> memory_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> MakeNativeExecutor(uint32_t index) {
  absl::StatusOr<opencl::CatalogDevice> device = opencl::FindDevice(index);
  if (!device.ok()) return device.status();
  absl::StatusOr<opencl::PrivateDirectory> directory =
      opencl::PrivateDirectory::Make("kcache-corpus-");
  if (!directory.ok()) return directory.status();
  auto executor = std::make_unique<NativeExecutor>(*device, *std::move(directory));
  if (absl::Status status = executor->Open(index); !status.ok()) return status;
  return executor;
}

}  // namespace kcache::corpus
