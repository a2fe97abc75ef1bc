#include "daemon_run.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kcache/buffer.h"
#include "kcache/kernel.h"
#include "kcache/program.h"
#include "kcache/queue.h"

namespace kcache::corpus {
namespace {

const DeviceId kDevice{"CUDA", 0};

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

absl::StatusOr<std::unique_ptr<DaemonRun>> DaemonRun::Connect(const std::string& architecture) {
  ClientOptions options;
  options.name = "cub-corpus";
  absl::StatusOr<std::shared_ptr<Client>> client = Client::Connect(std::move(options));
  if (!client.ok()) return client.status();
  absl::StatusOr<DeviceList> list = (*client)->ListDevices();
  if (!list.ok()) return list.status();
  const bool has_device = std::any_of(list->devices.begin(), list->devices.end(),
                                      [](const DeviceInfo& info) { return info.id == kDevice; });
  return std::unique_ptr<DaemonRun>(new DaemonRun(*client, architecture, has_device));
}

absl::Status DaemonRun::Run(const CubProgram& program) {
  absl::StatusOr<Program> compiled = Program::FromSource("cuda-c++", program.source);
  if (!compiled.ok()) return compiled.status();
  if (has_device_) return Launch(program, *compiled);
  absl::StatusOr<Artifact> artifact =
      client_->AcquireArtifact(*compiled, CompileTarget{"CUDA", architecture_});
  if (!artifact.ok()) return artifact.status();
  if (artifact->format() != "cubin" || artifact->Bytes().empty()) {
    return absl::InternalError(absl::StrCat("the artifact is '", artifact->format(), "' of ",
                                            artifact->Bytes().size(), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status DaemonRun::Launch(const CubProgram& program, const Program& compiled) {
  absl::StatusOr<Kernel> kernel = client_->Acquire({compiled, "run", kDevice});
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<Queue> queue = client_->GetQueue(kDevice);
  if (!queue.ok()) return queue.status();
  absl::StatusOr<Buffer> in = client_->Allocate(kDevice, program.input.size());
  if (!in.ok()) return in.status();
  absl::StatusOr<Buffer> out = client_->Allocate(kDevice, program.input.size() + 256);
  if (!out.ok()) return out.status();
  if (auto status = in->Write(*queue, 0, Bytes(program.input)); !status.ok()) return status;
  if (auto status = kernel->Launch(*queue, LaunchConfig::Grid(1, program.threads), *in, *out);
      !status.ok()) {
    return status;
  }
  std::vector<std::byte> result(program.expected.size());
  if (auto status = out->Read(*queue, 0, result); !status.ok()) return status;
  if (!std::equal(result.begin(), result.end(), Bytes(program.expected).begin())) {
    return absl::InternalError("the result differs from the reference");
  }
  return absl::OkStatus();
}

}  // namespace kcache::corpus
