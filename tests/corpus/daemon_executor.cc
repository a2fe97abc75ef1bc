// Through the daemon, with the client library.

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "contract/error_reason.h"
#include "kcache/client.h"
#include "kcache/image.h"
#include "tests/corpus/executor.h"

namespace kcache::corpus {
namespace {

Dim3 Extent(const std::array<uint32_t, 3>& sizes) { return {sizes[0], sizes[1], sizes[2]}; }

v1::KernelInfo ToProtoInfo(const KernelInfo& info) {
  v1::KernelInfo result;
  result.set_entry(info.entry);
  result.set_arguments_known(info.arguments_known);
  for (const ArgumentInfo& argument : info.arguments) {
    v1::ArgumentInfo* to = result.add_arguments();
    to->set_kind(static_cast<v1::ArgumentKind>(argument.kind));
    to->set_bytes(argument.bytes);
    to->set_name(argument.name);
    to->set_type_name(argument.type_name);
  }
  return result;
}

// A backend finishes a whole program for the shapes of any of its kernels, so one stands for all.
absl::StatusOr<Program> ToProgram(const CorpusProgram& from, const std::string& some_entry) {
  ProgramBuilder builder("opencl-c", from.source);
  for (const auto& [name, content] : from.headers) builder.AddHeader(name, content);
  for (const auto& [name, value] : from.defines) builder.Define(name, value);
  for (const std::string& flag : from.flags) builder.Flag(flag);
  for (const auto& local : from.local_sizes) builder.LaunchShape(some_entry, Extent(local));
  return builder.Build();
}

class DaemonExecutor final : public Executor {
 public:
  DaemonExecutor(std::shared_ptr<Client> client, DeviceInfo device, Queue queue)
      : client_(std::move(client)),
        device_(std::move(device.id)),
        vendor_(std::move(device.vendor)),
        queue_(queue) {}

  std::string Vendor() const override { return vendor_; }

  std::vector<absl::StatusOr<KernelId>> Acquire(std::span<const KernelName> names) override {
    std::map<const CorpusProgram*, absl::StatusOr<Program>> programs;
    std::vector<KernelRequest> requests;
    for (const KernelName& name : names) {
      auto found = programs.find(name.program);
      if (found == programs.end())
        found = programs.emplace(name.program, ToProgram(*name.program, name.entry)).first;
      KernelRequest request;
      // One that cannot be built is acquired as an empty program, and refused.
      if (found->second.ok()) request.program = *found->second;
      request.entry = name.entry;
      request.device = device_;
      requests.push_back(std::move(request));
    }
    std::vector<absl::StatusOr<Kernel>> granted = client_->AcquireBatch(requests);
    std::vector<absl::StatusOr<KernelId>> kernels;
    for (size_t i = 0; i < granted.size(); ++i) {
      const absl::StatusOr<Program>& program = programs.at(names[i].program);
      if (!program.ok()) {
        kernels.push_back(program.status());
      } else if (!granted[i].ok()) {
        kernels.push_back(granted[i].status());
      } else {
        const KernelId id = next_++;
        infos_[id] = ToProtoInfo(granted[i]->info());
        kernels_[id] = *std::move(granted[i]);
        kernels.push_back(id);
      }
    }
    return kernels;
  }

  const v1::KernelInfo& Info(KernelId kernel) const override { return infos_.at(kernel); }

  void ReleaseKernels() override {
    kernels_.clear();
    infos_.clear();
    client_->ForgetKernels();
  }

  absl::StatusOr<MemoryId> CreateBuffer(uint64_t bytes) override {
    absl::StatusOr<Buffer> buffer = client_->Allocate(device_, bytes);
    if (!buffer.ok()) return buffer.status();
    const MemoryId id = next_++;
    buffers_.emplace(id, *std::move(buffer));
    return id;
  }

  absl::StatusOr<MemoryId> CreateImage(const v1::ImageDescription& description) override {
    ImageDescription shape;
    shape.dimensions = static_cast<ImageDimensions>(description.dimensions());
    shape.order = static_cast<ChannelOrder>(description.order());
    shape.type = static_cast<ChannelType>(description.type());
    shape.width = description.width();
    shape.height = description.height();
    shape.depth = description.depth();
    shape.layers = description.layers();
    absl::StatusOr<Image> image = client_->CreateImage(device_, shape);
    if (!image.ok()) return image.status();
    const MemoryId id = next_++;
    images_.emplace(id, *std::move(image));
    descriptions_[id] = description;
    return id;
  }

  absl::Status Write(MemoryId buffer, std::string_view bytes) override {
    return buffers_.at(buffer).Write(queue_, 0, std::as_bytes(std::span(bytes)));
  }

  absl::Status WriteImage(MemoryId image, std::string_view pixels) override {
    absl::StatusOr<MemoryId> staging = CreateBuffer(pixels.size());
    if (!staging.ok()) return staging.status();
    if (absl::Status status = Write(*staging, pixels); !status.ok()) return status;
    return images_.at(image).CopyFrom(queue_, Dim3(0, 0, 0), Whole(image), buffers_.at(*staging));
  }

  absl::StatusOr<std::string> Read(MemoryId buffer, uint64_t bytes) override {
    std::string data(bytes, '\0');
    absl::Status status =
        buffers_.at(buffer).Read(queue_, 0, std::as_writable_bytes(std::span(data)));
    if (!status.ok()) return status;
    return data;
  }

  absl::StatusOr<std::string> ReadImage(MemoryId image) override {
    const uint64_t bytes = ImageBytes(descriptions_.at(image));
    absl::StatusOr<MemoryId> staging = CreateBuffer(bytes);
    if (!staging.ok()) return staging.status();
    absl::Status status =
        images_.at(image).CopyTo(queue_, Dim3(0, 0, 0), Whole(image), buffers_.at(*staging));
    if (!status.ok()) return status;
    return Read(*staging, bytes);
  }

  void ReleaseMemory() override {
    buffers_.clear();
    images_.clear();
    descriptions_.clear();
  }

  absl::Status Launch(KernelId kernel, const LaunchSizes& sizes,
                      std::span<const ArgumentValue> arguments) override {
    LaunchConfig config;
    config.global = Extent(sizes.global);
    if (sizes.local) config.local = Extent(*sizes.local);
    config.global_offset = Extent(sizes.offset);
    config.dimensions = sizes.dimensions;
    std::vector<kcache::Sampler> samplers(arguments.size());
    std::vector<Argument> list;
    for (size_t i = 0; i < arguments.size(); ++i)
      list.push_back(ToArgument(arguments[i], &samplers[i]));
    return kernels_.at(kernel).LaunchList(queue_, config, list);
  }

  absl::Status Synchronize() override { return queue_.Synchronize(); }

 private:
  Dim3 Whole(MemoryId image) const {
    const v1::ImageDescription& shape = descriptions_.at(image);
    const auto at_least_one = [](uint32_t size) { return size == 0 ? 1 : size; };
    return {at_least_one(shape.width()), at_least_one(shape.height()),
            at_least_one(shape.depth() + shape.layers())};
  }

  Argument ToArgument(const ArgumentValue& value, kcache::Sampler* sampler) const {
    switch (value.kind) {
      case ArgumentValue::Kind::kBuffer:
        return buffers_.at(value.memory);
      case ArgumentValue::Kind::kLocalMemory:
        return LocalMemory{value.local_bytes};
      case ArgumentValue::Kind::kImage:
        return images_.at(value.memory);
      case ArgumentValue::Kind::kSampler:
        sampler->normalized_coordinates = value.sampler.normalized_coordinates();
        sampler->addressing = static_cast<SamplerAddressing>(value.sampler.addressing());
        sampler->linear = value.sampler.linear();
        return *sampler;
      case ArgumentValue::Kind::kBytes:
        break;
    }
    return Argument::Bytes(std::as_bytes(std::span(value.bytes)));
  }

  const std::shared_ptr<Client> client_;
  const DeviceId device_;
  const std::string vendor_;
  const Queue queue_;
  uint64_t next_ = 1;
  std::map<KernelId, Kernel> kernels_;
  std::map<KernelId, v1::KernelInfo> infos_;
  std::map<MemoryId, Buffer> buffers_;
  std::map<MemoryId, Image> images_;
  std::map<MemoryId, v1::ImageDescription> descriptions_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> MakeDaemonExecutor(uint32_t index) {
  absl::StatusOr<std::shared_ptr<Client>> client = Client::Connect();
  if (!client.ok()) return client.status();
  const DeviceId device{"OpenCL", index};
  absl::StatusOr<DeviceList> list = (*client)->ListDevices();
  if (!list.ok()) return list.status();
  const auto info = std::find_if(list->devices.begin(), list->devices.end(),
                                 [&](const DeviceInfo& one) { return one.id == device; });
  if (info == list->devices.end()) {
    return MakeError(v1::UNKNOWN_DEVICE, "the daemon has no OpenCL:" + std::to_string(index));
  }
  absl::StatusOr<Queue> queue = (*client)->GetQueue(device);
  if (!queue.ok()) return queue.status();
  return std::make_unique<DaemonExecutor>(*std::move(client), *info, *queue);
}

}  // namespace kcache::corpus
