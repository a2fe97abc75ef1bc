#include "backends/hip/msgpack.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kcache::backend::hip {
namespace {

constexpr int kMaxDepth = 32;

class Parser {
 public:
  explicit Parser(std::string_view bytes) : bytes_(bytes) {}

  // False at malformed input; at() then says where.
  bool Value(int depth, MsgpackValue* value) {
    if (depth > kMaxDepth || at_ >= bytes_.size()) return false;
    const auto tag = static_cast<uint8_t>(bytes_[at_++]);
    if (tag <= 0x7f) return Set(value, tag);
    if (tag <= 0x8f) return Map(depth, tag & 0x0f, value);
    if (tag <= 0x9f) return Array(depth, tag & 0x0f, value);
    if (tag <= 0xbf) return String(tag & 0x1f, value);
    if (tag >= 0xe0) return Set(value, static_cast<int8_t>(tag));
    uint64_t number = 0;
    switch (tag) {
      case 0xc0:
        return true;
      case 0xc2:
      case 0xc3:
        return Set(value, tag & 1);
      case 0xca:
        return Skip(4);
      case 0xcb:
        return Skip(8);
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        return Number(size_t{1} << (tag - 0xcc), &number) &&
               Set(value, static_cast<int64_t>(number));
      case 0xd0:
        return Number(1, &number) && Set(value, static_cast<int8_t>(number));
      case 0xd1:
        return Number(2, &number) && Set(value, static_cast<int16_t>(number));
      case 0xd2:
        return Number(4, &number) && Set(value, static_cast<int32_t>(number));
      case 0xd3:
        return Number(8, &number) && Set(value, static_cast<int64_t>(number));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return Number(size_t{1} << (tag - 0xd9), &number) && String(number, value);
      case 0xdc:
      case 0xdd:
        return Number(size_t{2} << (tag - 0xdc), &number) && Array(depth, number, value);
      case 0xde:
      case 0xdf:
        return Number(size_t{2} << (tag - 0xde), &number) && Map(depth, number, value);
      default:
        return false;
    }
  }

  size_t at() const { return at_; }

 private:
  static bool Set(MsgpackValue* value, int64_t integer) {
    value->kind = MsgpackValue::Kind::kInteger;
    value->integer = integer;
    return true;
  }

  bool Skip(size_t bytes) {
    if (bytes > bytes_.size() - at_) return false;
    at_ += bytes;
    return true;
  }

  // Big-endian, as MessagePack has it.
  bool Number(size_t bytes, uint64_t* number) {
    if (bytes > bytes_.size() - at_) return false;
    for (size_t i = 0; i < bytes; ++i) {
      *number = *number << 8 | static_cast<uint8_t>(bytes_[at_++]);
    }
    return true;
  }

  bool String(uint64_t bytes, MsgpackValue* value) {
    if (bytes > bytes_.size() - at_) return false;
    value->kind = MsgpackValue::Kind::kString;
    value->string = bytes_.substr(at_, bytes);
    at_ += bytes;
    return true;
  }

  bool Array(int depth, uint64_t count, MsgpackValue* value) {
    if (count > bytes_.size() - at_) return false;  // an element has a byte at least
    value->kind = MsgpackValue::Kind::kArray;
    for (uint64_t i = 0; i < count; ++i) {
      if (!Value(depth + 1, &value->array.emplace_back())) return false;
    }
    return true;
  }

  bool Map(int depth, uint64_t count, MsgpackValue* value) {
    if (count > bytes_.size() - at_) return false;
    value->kind = MsgpackValue::Kind::kMap;
    for (uint64_t i = 0; i < count; ++i) {
      MsgpackValue key;
      if (!Value(depth + 1, &key) || key.kind != MsgpackValue::Kind::kString) return false;
      value->keys.push_back(key.string);
      if (!Value(depth + 1, &value->array.emplace_back())) return false;
    }
    return true;
  }

  const std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace

const MsgpackValue* MsgpackValue::Find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &array[i];
  }
  return nullptr;
}

uint64_t MsgpackValue::Integer(std::string_view key) const {
  const MsgpackValue* value = Find(key);
  if (value == nullptr || value->kind != Kind::kInteger) return 0;
  return static_cast<uint64_t>(value->integer);
}

std::string_view MsgpackValue::String(std::string_view key) const {
  const MsgpackValue* value = Find(key);
  return value == nullptr ? std::string_view() : value->string;
}

absl::StatusOr<MsgpackValue> ParseMsgpack(std::string_view bytes) {
  Parser parser(bytes);
  MsgpackValue value;
  if (!parser.Value(0, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed MessagePack at byte ", parser.at(), " of ", bytes.size()));
  }
  return value;
}

}  // namespace kcache::backend::hip
