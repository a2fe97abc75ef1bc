// SHA-256: a digest as a value, and the hasher that makes one from length-prefixed fields.
//
// Threads: a Digest is a value. A hasher belongs to one thread at a time.

#ifndef KCACHE_CONTRACT_DIGEST_H_
#define KCACHE_CONTRACT_DIGEST_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace kcache {

// 32 bytes. The all-zero digest, which a default-constructed one is, stands for "none".
class Digest {
 public:
  static constexpr size_t kBytes = 32;

  Digest() = default;
  explicit Digest(const std::array<uint8_t, kBytes>& bytes) : bytes_(bytes) {}

  // BAD_REQUEST naming the length (FromBytes) or the character (FromHex) that is wrong.
  static absl::StatusOr<Digest> FromBytes(std::string_view bytes);
  static absl::StatusOr<Digest> FromHex(std::string_view hex);
  // SHA-256 of `content` alone, as sha256sum(1) prints it.
  static Digest Of(std::string_view content);

  bool empty() const { return *this == Digest(); }
  std::string_view view() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  std::string str() const { return std::string(view()); }
  std::string hex() const;
  // The first 12 characters of hex(), for messages.
  std::string short_hex() const;

  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Digest& digest) {
    return H::combine(std::move(state), digest.bytes_);
  }

 private:
  std::array<uint8_t, kBytes> bytes_{};
};

// A digest of a list of fields, in which every field is preceded by its length and every list by
// its count, so that two different lists never hash the same bytes ("a","bc" / "ab","c").
class FieldHasher {
 public:
  // `domain` names what is hashed and the version of its schema; another one, another digest.
  explicit FieldHasher(std::string_view domain) { Field(domain); }

  FieldHasher& Field(std::string_view bytes);
  FieldHasher& Field(const Digest& digest) { return Field(digest.view()); }
  FieldHasher& Integer(uint64_t value);  // as a field of 8 bytes, little-endian
  FieldHasher& Count(size_t items) { return Integer(items); }
  // The digest of all that was appended. The hasher is used up then.
  Digest Finish() const { return Digest::Of(bytes_); }

 private:
  // Gathered, then hashed at once: keys are short, and a warm acquire makes two.
  std::string bytes_;
};

}  // namespace kcache

#endif  // KCACHE_CONTRACT_DIGEST_H_
