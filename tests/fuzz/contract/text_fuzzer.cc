// Text from outside: device names, hexadecimal, UTF-8, operation ids.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "contract/device_name.h"
#include "contract/digest.h"
#include "contract/operation_scope.h"
#include "contract/strings.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  if (const auto device = kcache::DeviceName::Parse(text); device.ok()) {
    Require(device->ToString() == text);
    Require(device->Matches(device->family(), device->index));
    Require(kcache::DeviceName::FromProto(device->ToProto()) == device);
  }

  const std::string valid = kcache::ToValidUtf8(text);
  Require(kcache::IsValidUtf8(valid));
  Require(kcache::IsValidUtf8(text) == (valid == text));
  for (const size_t limit : {size / 2, size / 3}) {
    const std::string_view prefix = kcache::Utf8Prefix(valid, limit);
    Require(prefix.size() <= limit && kcache::IsValidUtf8(prefix));
  }

  Require(*kcache::FromHex(kcache::ToHex(text)) == text);
  if (const auto bytes = kcache::FromHex(text); bytes.ok()) Require(bytes->size() * 2 == size);
  kcache::Digest::FromHex(text).IgnoreError();
  kcache::OperationScope::FromBytes(text).IgnoreError();
  Require(kcache::IsValidUtf8(kcache::Quoted(text)));
  return 0;
}
