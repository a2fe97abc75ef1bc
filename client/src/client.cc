#include "kcache/client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/src/await.h"
#include "client/src/client_impl.h"
#include "client/src/convert.h"
#include "client/src/text.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache {
namespace {

using internal::Await;
using internal::BufferState;
using internal::CheckText;
using internal::ClientImpl;
using internal::ContextState;
using internal::KernelState;

constexpr size_t kMaxLabelBytes = 64;

absl::StatusOr<Kernel> Failed(const absl::Status& status) { return status; }

// The living context on a device; the caller may wait.
absl::StatusOr<std::shared_ptr<ContextState>> AwaitContext(ClientImpl* client,
                                                           const DeviceId& device) {
  return Await<absl::StatusOr<std::shared_ptr<ContextState>>>(
      [&](auto done) { client->Context(device, std::move(done)); });
}

// Creates memory in a context. If the device goes away meanwhile, that is the answer.
absl::StatusOr<std::shared_ptr<BufferState>> Create(std::shared_ptr<ContextState> context,
                                                    v1::Command command, uint64_t id,
                                                    uint64_t bytes) {
  const auto fell_back = Await<absl::StatusOr<bool>>(
      [&](auto done) { context->stream->Create(std::move(command), std::move(done)); });
  if (!fell_back.ok()) return fell_back.status();
  return std::make_shared<BufferState>(std::move(context), id, bytes, *fell_back);
}

absl::StatusOr<bool> Ask(ClientImpl* client, const DeviceId& device, v1::Command command) {
  auto context = AwaitContext(client, device);
  if (!context.ok()) return context.status();
  return Await<absl::StatusOr<bool>>(
      [&](auto done) { (*context)->stream->Ask(std::move(command), std::move(done)); });
}

}  // namespace

absl::StatusOr<std::shared_ptr<Client>> Client::Connect(std::shared_ptr<ClientImpl> impl) {
  const absl::Status connected =
      Await<absl::Status>([&](auto done) { impl->Connect(std::move(done)); });
  if (!connected.ok()) {
    impl->Close();
    return connected;
  }
  return std::shared_ptr<Client>(new Client(std::move(impl)));
}

Client::Client(std::shared_ptr<ClientImpl> impl) : impl_(std::move(impl)) {}

Client::~Client() {
  if (impl_->forked()) {
    // Its threads are not in this process, and its locks may be held for ever: leave it be.
    new std::shared_ptr<ClientImpl>(std::move(impl_));  // NOLINT(bugprone-unused-raii)
    return;
  }
  impl_->Close();
}

void Client::Close() {
  if (!impl_->forked()) impl_->Close();
}

absl::StatusOr<DeviceList> Client::ListDevices() {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/true); !bad.ok()) return bad;
  return Await<absl::StatusOr<DeviceList>>([&](auto done) { impl_->ListDevices(std::move(done)); });
}

// ---- kernels ------------------------------------------------------------------------------------

absl::StatusOr<Kernel> Client::Acquire(const KernelRequest& request) {
  if (impl_->forked()) return internal::ForkedError();
  if (auto kernel = impl_->FindKernel(request)) return Kernel(std::move(kernel));
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/true); !bad.ok()) return bad;
  auto kernel = Await<absl::StatusOr<std::shared_ptr<KernelState>>>(
      [&](auto done) { impl_->Acquire(request, std::move(done)); });
  if (!kernel.ok()) return kernel.status();
  return Kernel(*std::move(kernel));
}

void Client::AcquireAsync(const KernelRequest& request, KernelDone done) {
  if (impl_->forked()) return done(internal::ForkedError());
  if (auto kernel = impl_->FindKernel(request)) return done(Kernel(std::move(kernel)));
  impl_->Acquire(request,
                 [done = std::move(done)](absl::StatusOr<std::shared_ptr<KernelState>> kernel) {
                   if (kernel.ok()) {
                     done(Kernel(*std::move(kernel)));
                   } else {
                     done(kernel.status());
                   }
                 });
}

void Client::AcquireBatchAsync(std::span<const KernelRequest> requests, BatchDone done) {
  if (impl_->forked()) {
    return done(
        std::vector<absl::StatusOr<Kernel>>(requests.size(), Failed(internal::ForkedError())));
  }
  if (requests.empty()) return done({});
  struct Batch {
    std::vector<absl::StatusOr<Kernel>> kernels;
    size_t open;
    BatchDone done;
  };
  auto batch = std::make_shared<Batch>();
  batch->kernels.assign(requests.size(), Failed(absl::UnknownError("not answered")));
  batch->open = requests.size();
  batch->done = std::move(done);
  // Outcomes arrive on the executor, one at a time.
  impl_->AcquireAll(requests,
                    [batch](size_t i, absl::StatusOr<std::shared_ptr<KernelState>> kernel) {
                      if (kernel.ok()) {
                        batch->kernels[i] = Kernel(*std::move(kernel));
                      } else {
                        batch->kernels[i] = kernel.status();
                      }
                      if (--batch->open == 0) batch->done(std::move(batch->kernels));
                    });
}

std::vector<absl::StatusOr<Kernel>> Client::AcquireBatch(std::span<const KernelRequest> requests) {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/true); !bad.ok()) {
    // What is memoized needs no waiting.
    std::vector<absl::StatusOr<Kernel>> kernels;
    for (const KernelRequest& request : requests) {
      auto kernel = impl_->forked() ? nullptr : impl_->FindKernel(request);
      kernels.push_back(kernel == nullptr ? Failed(bad) : Kernel(std::move(kernel)));
    }
    return kernels;
  }
  return Await<std::vector<absl::StatusOr<Kernel>>>(
      [&](auto done) { AcquireBatchAsync(requests, std::move(done)); });
}

void Client::ForgetKernels() {
  if (!impl_->forked()) impl_->ForgetKernels();
}

// ---- artifacts ----------------------------------------------------------------------------------

absl::StatusOr<Artifact> Client::AcquireArtifact(const Program& program, const DeviceId& device,
                                                 Priority priority) {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/true); !bad.ok()) return bad;
  if (absl::Status bad = DeviceName::ValidateFramework(device.framework); !bad.ok()) return bad;
  v1::Acquire acquire;
  acquire.mutable_device()->set_framework(device.framework);
  acquire.mutable_device()->set_index(device.index);
  acquire.set_priority(static_cast<v1::Priority>(priority));
  auto artifact = Await<absl::StatusOr<std::shared_ptr<internal::ArtifactState>>>(
      [&](auto done) { impl_->AcquireArtifact(program, acquire, device, std::move(done)); });
  if (!artifact.ok()) return artifact.status();
  return Artifact(*std::move(artifact));
}

absl::StatusOr<Artifact> Client::AcquireArtifact(const Program& program,
                                                 const CompileTarget& target, Priority priority) {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/true); !bad.ok()) return bad;
  if (absl::Status bad = DeviceName::ValidateFramework(target.framework); !bad.ok()) return bad;
  v1::Acquire acquire;
  acquire.mutable_target()->set_framework(target.framework);
  acquire.mutable_target()->set_architecture(target.architecture);
  acquire.set_priority(static_cast<v1::Priority>(priority));
  auto artifact = Await<absl::StatusOr<std::shared_ptr<internal::ArtifactState>>>(
      [&](auto done) { impl_->AcquireArtifact(program, acquire, DeviceId(), std::move(done)); });
  if (!artifact.ok()) return artifact.status();
  return Artifact(*std::move(artifact));
}

// ---- execution ----------------------------------------------------------------------------------

absl::StatusOr<Queue> Client::GetQueue(const DeviceId& device, uint32_t number) {
  if (impl_->forked()) return internal::ForkedError();
  if (number >= internal::ExecutionStream::kMaxQueues) {
    return MakeError(v1::UNKNOWN_QUEUE, absl::StrCat("queue ", number, " of ", device.ToString(),
                                                     "; there are never more than ",
                                                     internal::ExecutionStream::kMaxQueues));
  }
  auto slot = impl_->Slot(device);
  if (!slot.ok()) return slot.status();
  return Queue(*std::move(slot), number);
}

absl::StatusOr<Buffer> Client::Allocate(const DeviceId& device, uint64_t bytes,
                                        const AllocateOptions& options) {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/false); !bad.ok()) return bad;
  if (bytes == 0) return MakeError(v1::BAD_REQUEST, "an allocation of 0 bytes");
  if (absl::Status bad = CheckText("the label", options.label, kMaxLabelBytes); !bad.ok()) {
    return bad;
  }
  if (absl::Status bad = CheckText("the group", options.group, kMaxLabelBytes); !bad.ok()) {
    return bad;
  }
  auto context = AwaitContext(impl_.get(), device);
  if (!context.ok()) return context.status();
  const uint64_t id = (*context)->stream->NewBufferId();
  v1::Command command;
  v1::CreateBuffer* create = command.mutable_create_buffer();
  create->set_buffer(id);
  create->set_bytes(bytes);
  create->set_label(options.label);
  create->set_group(options.group);
  auto buffer = Create(*std::move(context), std::move(command), id, bytes);
  if (!buffer.ok()) return buffer.status();
  return Buffer(*std::move(buffer));
}

absl::StatusOr<Image> Client::CreateImage(const DeviceId& device,
                                          const ImageDescription& description,
                                          const AllocateOptions& options) {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/false); !bad.ok()) return bad;
  if (absl::Status bad = CheckText("the label", options.label, kMaxLabelBytes); !bad.ok()) {
    return bad;
  }
  auto context = AwaitContext(impl_.get(), device);
  if (!context.ok()) return context.status();
  const uint64_t id = (*context)->stream->NewBufferId();
  v1::Command command;
  v1::CreateImage* create = command.mutable_create_image();
  create->set_image(id);
  *create->mutable_description() = internal::ToWire(description);
  create->set_label(options.label);
  create->set_group(options.group);
  auto image = Create(*std::move(context), std::move(command), id, 0);
  if (!image.ok()) return image.status();
  return Image(*std::move(image), description);
}

absl::Status Client::EndAllocationGroup(const DeviceId& device, const std::string& group) {
  if (impl_->forked()) return internal::ForkedError();
  auto slot = impl_->Slot(device);
  if (!slot.ok()) return slot.status();
  if (auto stream = (*slot)->stream()) stream->EndGroup(group);
  return absl::OkStatus();
}

absl::Status Client::Synchronize(const DeviceId& device) {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/false); !bad.ok()) return bad;
  auto slot = impl_->Slot(device);
  if (!slot.ok()) return slot.status();
  const std::shared_ptr<internal::ExecutionStream> stream = (*slot)->stream();
  if (stream == nullptr) return absl::OkStatus();  // nothing was ever queued
  return Await<absl::Status>([&](auto done) { stream->SynchronizeAll(std::move(done)); });
}

absl::StatusOr<BufferView> Client::Scratch(const DeviceId& device, const std::string& tag,
                                           uint64_t bytes) {
  if (impl_->forked()) return internal::ForkedError();
  if (bytes == 0) return MakeError(v1::BAD_REQUEST, "scratch of 0 bytes");
  if (absl::Status bad = CheckText("the tag", tag, kMaxLabelBytes); !bad.ok()) return bad;
  if (auto scratch = impl_->MemoizedScratch(device, tag, bytes)) {
    return Buffer(std::move(scratch)).View();
  }
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/false); !bad.ok()) return bad;
  auto context = AwaitContext(impl_.get(), device);
  if (!context.ok()) return context.status();
  const uint64_t id = (*context)->stream->NewBufferId();
  v1::Command command;
  v1::AcquireScratch* acquire = command.mutable_scratch();
  acquire->set_buffer(id);
  acquire->set_tag(tag);
  acquire->set_bytes(bytes);
  auto scratch = Create(*std::move(context), std::move(command), id, bytes);
  if (!scratch.ok()) return scratch.status();
  impl_->MemoizeScratch(device, tag, *scratch);
  return Buffer(*std::move(scratch)).View();
}

absl::StatusOr<bool> Client::FirstN(const DeviceId& device, const std::string& key, uint32_t n) {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/false); !bad.ok()) return bad;
  v1::Command command;
  command.mutable_first_n()->set_key(key);
  command.mutable_first_n()->set_n(n);
  return Ask(impl_.get(), device, std::move(command));
}

absl::StatusOr<bool> Client::Once(const DeviceId& device, const std::string& key) {
  return FirstN(device, key, 1);
}

absl::StatusOr<bool> Client::FirstShape(const DeviceId& device, const std::string& name, uint32_t m,
                                        uint32_t n, uint32_t k) {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/false); !bad.ok()) return bad;
  v1::Command command;
  v1::FirstShape* shape = command.mutable_first_shape();
  shape->set_name(name);
  shape->set_m(m);
  shape->set_n(n);
  shape->set_k(k);
  return Ask(impl_.get(), device, std::move(command));
}

// ---- invalidation -------------------------------------------------------------------------------

Registration Client::OnDeviceDestroy(DeviceListener listener) {
  if (impl_->forked()) return {};
  return impl_->OnDeviceDestroy(std::move(listener));
}

Registration Client::OnClearAll(ClearListener listener) {
  if (impl_->forked()) return {};
  return impl_->OnClearAll(std::move(listener));
}

absl::StatusOr<OperationReport> Client::Clear(const ClearOptions& options) {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/true); !bad.ok()) return bad;
  v1::ClientEvent event;
  v1::ClearRequest* clear = event.mutable_clear();
  clear->set_family(options.family);
  if (options.index.has_value()) clear->set_index(*options.index);
  clear->set_artifacts(options.artifacts);
  clear->set_grace_ms(static_cast<uint64_t>(std::max<int64_t>(options.grace.count(), 0)));
  clear->set_operation_id(
      internal::BytesOf(options.operation.given() ? options.operation : OperationId::New()));
  return Await<absl::StatusOr<OperationReport>>(
      [&](auto done) { impl_->Operate(std::move(event), std::move(done)); });
}

absl::StatusOr<OperationReport> Client::DestroyDevice(const DeviceId& device,
                                                      const DestroyOptions& options) {
  if (absl::Status bad = impl_->CheckMayWait(/*for_daemon=*/true); !bad.ok()) return bad;
  if (absl::Status bad = DeviceName::ValidateFramework(device.framework); !bad.ok()) return bad;
  v1::ClientEvent event;
  v1::DestroyDeviceRequest* destroy = event.mutable_destroy_device();
  destroy->mutable_device()->set_framework(device.framework);
  destroy->mutable_device()->set_index(device.index);
  destroy->set_grace_ms(static_cast<uint64_t>(std::max<int64_t>(options.grace.count(), 0)));
  destroy->set_operation_id(
      internal::BytesOf(options.operation.given() ? options.operation : OperationId::New()));
  return Await<absl::StatusOr<OperationReport>>(
      [&](auto done) { impl_->Operate(std::move(event), std::move(done)); });
}

SessionInfo Client::session() const { return impl_->session_info(); }

ClientStatistics Client::statistics() const { return impl_->statistics(); }

}  // namespace kcache
