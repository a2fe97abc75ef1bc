// Message authentication codes for leases and execution streams.
//
// The daemon and one device host share a random key, new for every life of that host. The daemon
// signs what it grants, and the host verifies locally, so that a warm grant needs no hop to the
// host.
//
//   lease    HMAC-SHA256(key, "kcache-lease-v1" 0 instance context generation session slot
//   incarnation) session  HMAC-SHA256(key, "kcache-exec-v1"  0 instance context generation session)
//
// cut to 16 bytes; integers little-endian, slot and incarnation 32 bits, the others 64. All fields
// have fixed lengths and the two labels differ, so no two statements share an encoding.
// Verification takes the same time whatever the token is. A zero id, generation or incarnation is
// never valid.
//
// Threads: a TokenAuthority may be used from any number of threads at once.

#ifndef KCACHE_CONTRACT_LEASE_TOKEN_H_
#define KCACHE_CONTRACT_LEASE_TOKEN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kcache {

inline constexpr size_t kTokenKeyBytes = 32;
inline constexpr size_t kTokenBytes = 16;
inline constexpr size_t kInstanceBytes = 16;

// Who may do something in a context.
struct SessionIdentity {
  uint64_t context_id = 0;
  uint64_t generation = 0;
  uint64_t session_id = 0;
};

struct LeaseIdentity {
  SessionIdentity session;
  uint32_t slot = 0;
  uint32_t incarnation = 0;
};

class Token {
 public:
  explicit Token(std::array<uint8_t, kTokenBytes> bytes) : bytes_(bytes) {}
  std::string_view view() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  std::string str() const { return std::string(view()); }
  friend bool operator==(const Token&, const Token&) = default;

 private:
  std::array<uint8_t, kTokenBytes> bytes_;
};

// Signs and verifies with one key of one instance.
class TokenAuthority {
 public:
  // InvalidArgument unless `key` has kTokenKeyBytes and `instance` kInstanceBytes.
  static absl::StatusOr<TokenAuthority> Create(std::string_view key, std::string_view instance);

  TokenAuthority(TokenAuthority&&) noexcept;
  TokenAuthority& operator=(TokenAuthority&&) noexcept;
  ~TokenAuthority();

  Token SignLease(const LeaseIdentity& lease) const;
  bool VerifyLease(const LeaseIdentity& lease, std::string_view token) const;

  Token SignSession(const SessionIdentity& session) const;
  bool VerifySession(const SessionIdentity& session, std::string_view token) const;

 private:
  class Hmac;
  TokenAuthority(std::unique_ptr<const Hmac> hmac, std::string instance);

  Token Sign(std::string_view message) const;

  std::unique_ptr<const Hmac> hmac_;
  std::string instance_;
};

// Whether two secrets are equal, in a time that depends on their lengths only.
bool ConstantTimeEquals(std::string_view a, std::string_view b);

}  // namespace kcache

#endif  // KCACHE_CONTRACT_LEASE_TOKEN_H_
