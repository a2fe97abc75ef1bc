// MessagePack (msgpack.org, "spec"), as far as code object metadata uses it: nil, booleans,
// integers, strings, arrays and maps with string keys. Floats are skipped and read as nil.
//
// Threads: pure function, any thread. Ownership: strings are borrowed from the input.
#ifndef KCACHE_BACKENDS_HIP_MSGPACK_H_
#define KCACHE_BACKENDS_HIP_MSGPACK_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kcache::backend::hip {

struct MsgpackValue {
  enum class Kind { kNil, kInteger, kString, kArray, kMap };
  Kind kind = Kind::kNil;
  int64_t integer = 0;  // also booleans
  std::string_view string;
  std::vector<MsgpackValue> array;     // kArray; kMap: the values
  std::vector<std::string_view> keys;  // kMap: as many as there are values

  // The member of a map; nullptr when there is none.
  const MsgpackValue* Find(std::string_view key) const;
  // A member's value, or zero or nothing when it is missing or of another kind.
  uint64_t Integer(std::string_view key) const;
  std::string_view String(std::string_view key) const;
};

// InvalidArgument names the byte at which the input is malformed, too deep or cut off.
absl::StatusOr<MsgpackValue> ParseMsgpack(std::string_view bytes);

}  // namespace kcache::backend::hip

#endif  // KCACHE_BACKENDS_HIP_MSGPACK_H_
