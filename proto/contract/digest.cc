#include "contract/digest.h"

#include <openssl/evp.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache {
namespace {

// Fetched once; never freed, because hashers may outlive static destruction.
const EVP_MD* Sha256Method() {
  static const EVP_MD* const method = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return method;
}

// OpenSSL fails here only when it has no SHA-256 or no memory; a key that was not computed must not
// be used, so both end the process.
void Require(bool condition) {
  if (!condition) std::abort();
}

std::array<char, 8> LittleEndian(uint64_t value) {
  std::array<char, 8> bytes;
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xFF);
    value >>= 8;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<Digest> Digest::FromBytes(std::string_view bytes) {
  if (bytes.size() != kBytes) {
    return MakeError(v1::BAD_REQUEST,
                     absl::StrCat("a digest has ", kBytes, " bytes, not ", bytes.size()));
  }
  Digest digest;
  std::copy(bytes.begin(), bytes.end(), digest.bytes_.begin());
  return digest;
}

absl::StatusOr<Digest> Digest::FromHex(std::string_view hex) {
  const absl::StatusOr<std::string> bytes = kcache::FromHex(hex);
  if (!bytes.ok()) return MakeError(v1::BAD_REQUEST, StdView(bytes.status().message()));
  return FromBytes(*bytes);
}

Digest Digest::Of(std::string_view content) {
  Digest digest;
  unsigned int size = 0;
  Require(EVP_Digest(content.data(), content.size(), digest.bytes_.data(), &size, Sha256Method(),
                     nullptr) == 1 &&
          size == kBytes);
  return digest;
}

std::string Digest::hex() const { return ToHex(view()); }
std::string Digest::short_hex() const { return ToHex(view().substr(0, 6)); }

FieldHasher& FieldHasher::Field(std::string_view bytes) {
  const std::array<char, 8> length = LittleEndian(bytes.size());
  bytes_.append(length.data(), length.size());
  bytes_.append(bytes);
  return *this;
}

FieldHasher& FieldHasher::Integer(uint64_t value) {
  const std::array<char, 8> bytes = LittleEndian(value);
  return Field({bytes.data(), bytes.size()});
}

}  // namespace kcache
