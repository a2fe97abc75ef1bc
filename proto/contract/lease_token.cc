#include "contract/lease_token.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache {
namespace {

constexpr std::string_view kLeaseLabel("kcache-lease-v1\0", 16);
constexpr std::string_view kSessionLabel("kcache-exec-v1\0", 15);
constexpr size_t kMacBytes = 32;

// What is signed: label, instance, then integers of fixed width.
class Statement {
 public:
  Statement(std::string_view label, std::string_view instance, const SessionIdentity& session) {
    Append(label);
    Append(instance);
    AppendInteger(session.context_id);
    AppendInteger(session.generation);
    AppendInteger(session.session_id);
  }

  void Append(std::string_view bytes) {
    assert(size_ + bytes.size() <= buffer_.size());
    std::copy(bytes.begin(), bytes.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += bytes.size();
  }

  template <typename Integer>
  void AppendInteger(Integer value) {
    std::array<char, sizeof(Integer)> bytes;
    for (char& byte : bytes) {
      byte = static_cast<char>(value & 0xFF);
      value >>= 8;
    }
    Append({bytes.data(), bytes.size()});
  }

  std::string_view view() const { return {buffer_.data(), size_}; }

 private:
  std::array<char,
             kLeaseLabel.size() + kInstanceBytes + 3 * sizeof(uint64_t) + 2 * sizeof(uint32_t)>
      buffer_;
  size_t size_ = 0;
};

bool IsValid(const SessionIdentity& session) {
  return session.context_id != 0 && session.generation != 0 && session.session_id != 0;
}

}  // namespace

// HMAC-SHA256 with the key schedule done once; Compute copies the prepared state, which is less
// than half the work of a one-shot HMAC and needs no lock.
class TokenAuthority::Hmac {
 public:
  static absl::StatusOr<std::unique_ptr<const Hmac>> Create(std::string_view key) {
    EVP_MAC* const mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    EVP_MAC_CTX* const context = mac == nullptr ? nullptr : EVP_MAC_CTX_new(mac);
    EVP_MAC_free(mac);  // the context holds a reference of its own
    auto hmac = std::unique_ptr<const Hmac>(new Hmac(context));
    char digest[] = "SHA256";
    const std::array<OSSL_PARAM, 2> parameters = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end()};
    if (context == nullptr ||
        EVP_MAC_init(context, reinterpret_cast<const unsigned char*>(key.data()), key.size(),
                     parameters.data()) != 1) {
      return MakeError(v1::INTERNAL, "OpenSSL provides no HMAC-SHA256");
    }
    return hmac;
  }

  ~Hmac() { EVP_MAC_CTX_free(prepared_); }
  Hmac(const Hmac&) = delete;
  Hmac& operator=(const Hmac&) = delete;

  std::array<uint8_t, kMacBytes> Compute(std::string_view message) const {
    std::array<uint8_t, kMacBytes> out;
    size_t size = 0;
    EVP_MAC_CTX* const context = EVP_MAC_CTX_dup(prepared_);
    // Only an allocation can fail here, and a token that was not computed must not be used.
    if (context == nullptr ||
        EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(message.data()),
                       message.size()) != 1 ||
        EVP_MAC_final(context, out.data(), &size, out.size()) != 1 || size != out.size()) {
      std::abort();
    }
    EVP_MAC_CTX_free(context);
    return out;
  }

 private:
  explicit Hmac(EVP_MAC_CTX* prepared) : prepared_(prepared) {}
  EVP_MAC_CTX* const prepared_;
};

TokenAuthority::TokenAuthority(std::unique_ptr<const Hmac> hmac, std::string instance)
    : hmac_(std::move(hmac)), instance_(std::move(instance)) {}
TokenAuthority::TokenAuthority(TokenAuthority&&) noexcept = default;
TokenAuthority& TokenAuthority::operator=(TokenAuthority&&) noexcept = default;
TokenAuthority::~TokenAuthority() = default;

absl::StatusOr<TokenAuthority> TokenAuthority::Create(std::string_view key,
                                                      std::string_view instance) {
  if (key.size() != kTokenKeyBytes) {
    return MakeError(v1::BAD_REQUEST,
                     absl::StrCat("token key has ", key.size(), " bytes, not ", kTokenKeyBytes));
  }
  if (instance.size() != kInstanceBytes) {
    return MakeError(v1::BAD_REQUEST, absl::StrCat("instance has ", instance.size(), " bytes, not ",
                                                   kInstanceBytes));
  }
  absl::StatusOr<std::unique_ptr<const Hmac>> hmac = Hmac::Create(key);
  if (!hmac.ok()) return hmac.status();
  return TokenAuthority(*std::move(hmac), std::string(instance));
}

Token TokenAuthority::Sign(std::string_view message) const {
  const std::array<uint8_t, kMacBytes> mac = hmac_->Compute(message);
  std::array<uint8_t, kTokenBytes> bytes;
  std::copy_n(mac.begin(), bytes.size(), bytes.begin());
  return Token(bytes);
}

Token TokenAuthority::SignLease(const LeaseIdentity& lease) const {
  Statement statement(kLeaseLabel, instance_, lease.session);
  statement.AppendInteger(lease.slot);
  statement.AppendInteger(lease.incarnation);
  return Sign(statement.view());
}

bool TokenAuthority::VerifyLease(const LeaseIdentity& lease, std::string_view token) const {
  return IsValid(lease.session) && lease.incarnation != 0 &&
         ConstantTimeEquals(SignLease(lease).view(), token);
}

Token TokenAuthority::SignSession(const SessionIdentity& session) const {
  return Sign(Statement(kSessionLabel, instance_, session).view());
}

bool TokenAuthority::VerifySession(const SessionIdentity& session, std::string_view token) const {
  return IsValid(session) && ConstantTimeEquals(SignSession(session).view(), token);
}

bool ConstantTimeEquals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace kcache
