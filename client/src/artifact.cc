#include "kcache/artifact.h"

#include "client/src/client_impl.h"
#include "client/src/convert.h"
#include "client/src/state.h"

namespace kcache {
namespace {

const internal::ArtifactState& StateOrNone(const std::shared_ptr<internal::ArtifactState>& state) {
  static const auto* const kNone =
      new internal::ArtifactState(std::weak_ptr<internal::ClientImpl>());
  return state == nullptr ? *kNone : *state;
}

// Whether an event is about what an artifact was acquired for.
bool Concerns(const v1::Invalidate& event, const internal::ArtifactState& artifact) {
  if (event.kind() == v1::INVALIDATE_RESET || event.kind() == v1::INVALIDATE_LOST) return false;
  if (artifact.device.framework.empty()) return event.kind() != v1::INVALIDATE_DEVICE;
  return internal::ToName(artifact.device)
      .InScope(event.family(),
               event.has_index() ? std::optional<uint32_t>(event.index()) : std::nullopt);
}

}  // namespace

std::span<const std::byte> Artifact::Bytes() const {
  const internal::ArtifactState& state = StateOrNone(state_);
  if (state.mapped != nullptr) return {state.mapped, state.mapped_bytes};
  return std::as_bytes(std::span(state.fetched));
}

const std::string& Artifact::format() const { return StateOrNone(state_).format; }
const std::string& Artifact::architecture() const { return StateOrNone(state_).architecture; }
const std::string& Artifact::build_log() const { return StateOrNone(state_).build_log; }
const std::vector<KernelInfo>& Artifact::kernels() const { return StateOrNone(state_).kernels; }
std::string Artifact::key() const { return state_ == nullptr ? "" : state_->key.hex(); }
Origin Artifact::origin() const { return StateOrNone(state_).origin; }
bool Artifact::revoked() const { return StateOrNone(state_).revoked; }

Registration Artifact::OnRevoked(
    std::function<absl::Status(const InvalidationEvent&)> listener) const {
  if (state_ == nullptr) return {};
  auto client = state_->client.lock();
  if (client == nullptr) return {};
  return client->OnAnyInvalidation(
      [state = state_, listener = std::move(listener)](const v1::Invalidate& event) {
        if (!Concerns(event, *state)) return absl::OkStatus();
        state->revoked = true;
        return listener(internal::ClearEventFrom(event));
      });
}

}  // namespace kcache
