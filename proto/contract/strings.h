// String helpers that both ends share.
//
// Debian's Abseil is built with an absl::string_view that is not std::string_view. The project
// speaks std types; AbslView is the one place where they are converted.
//
// Threads: pure functions, any thread.
#ifndef KCACHE_CONTRACT_STRINGS_H_
#define KCACHE_CONTRACT_STRINGS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kcache {

// The same characters as Abseil's functions want them; no copy.
inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

// And back.
inline std::string_view StdView(absl::string_view text) { return {text.data(), text.size()}; }

// Whether `text` is well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms, at most
// U+10FFFF).
bool IsValidUtf8(std::string_view text);

// `text` with every byte that is not part of well-formed UTF-8 replaced by U+FFFD, for fields of
// type `string`: a protobuf that carries anything else does not parse at the other end.
std::string ToValidUtf8(std::string_view text);

// The longest prefix of `text` (UTF-8) of at most `limit` bytes that does not end inside a
// character.
std::string_view Utf8Prefix(std::string_view text, size_t limit);

// Lower-case hexadecimal of any bytes, two characters a byte.
std::string ToHex(std::string_view bytes);

// The bytes that `hex` spells, in either case. InvalidArgument for an odd length or another
// character, naming its position.
absl::StatusOr<std::string> FromHex(std::string_view hex);

// `text` for a message: in double quotes, everything but printable ASCII escaped as \xNN, cut after
// `limit` bytes with "…" and the full length.
std::string Quoted(std::string_view text, size_t limit = 120);

}  // namespace kcache

#endif  // KCACHE_CONTRACT_STRINGS_H_
