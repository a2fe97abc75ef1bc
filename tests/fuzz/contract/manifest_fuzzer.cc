// Any ProgramManifest has a digest or a typed error; the digest does not depend on the order of
// headers and defines, and changes with one more flag.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "contract/error_reason.h"
#include "contract/kernel_key.h"
#include "kcache/v1/types.pb.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

template <typename Items>
void Reverse(Items* items) {
  for (int i = 0; i < items->size() / 2; ++i) items->SwapElements(i, items->size() - 1 - i);
}

// Digests of random bytes are rarely 32 bytes long; made so, most inputs get past that check.
void FixDigests(kcache::v1::ProgramManifest* manifest) {
  manifest->mutable_source_digest()->resize(kcache::Digest::kBytes);
  for (auto& header : *manifest->mutable_headers()) {
    header.mutable_digest()->resize(kcache::Digest::kBytes);
  }
}

void CheckManifest(kcache::v1::ProgramManifest manifest) {
  const auto digest = kcache::ProgramDigest(manifest);
  if (!digest.ok()) {
    const auto reason = kcache::ReasonOf(digest.status());
    Require(reason == kcache::v1::BAD_REQUEST || reason == kcache::v1::INVALID_UTF8);
    // The error is fit to be sent.
    kcache::v1::Error error;
    Require(error.ParseFromString(kcache::ToProto(digest.status()).SerializeAsString()));
    Require(kcache::FromProto(error) == digest.status());
    return;
  }
  Reverse(manifest.mutable_headers());
  Reverse(manifest.mutable_defines());
  Require(kcache::ProgramDigest(manifest) == digest);
  manifest.add_flags("-one-more");
  const auto other = kcache::ProgramDigest(manifest);
  Require(other.ok() && *other != *digest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kcache::v1::ProgramManifest manifest;
  if (!manifest.ParseFromArray(data, static_cast<int>(size))) return 0;
  CheckManifest(manifest);
  FixDigests(&manifest);
  CheckManifest(manifest);
  kcache::v1::Specialization specialization;
  if (specialization.ParseFromArray(data, static_cast<int>(size))) {
    kcache::SpecializationBytes(specialization).IgnoreError();
  }
  return 0;
}
