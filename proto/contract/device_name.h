// A device as a backend numbers it: the pair (framework, index), written "CUDA:0" or "CUDA/PTX:0".
//
// A framework is a family ("CUDA") or a refinement of it ("CUDA/PTX"). Events name families: a
// device matches an event when its family and its index do, variants included, and never on the
// index alone (guarantee G6).
//
// Grammar: framework = word ["/" word]; word = a letter, then letters, digits, "_", "-" or ".", at
// most kMaxWordBytes in all; index = decimal, no sign, no leading zero, at most 2^32-1.
//
// Threads: a value; any thread.

#ifndef KCACHE_CONTRACT_DEVICE_NAME_H_
#define KCACHE_CONTRACT_DEVICE_NAME_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/v1/types.pb.h"

namespace kcache {

struct DeviceName {
  static constexpr size_t kMaxWordBytes = 32;

  std::string framework;
  uint32_t index = 0;

  // Failures name the text and what is wrong with it: INVALID_UTF8 or BAD_REQUEST.
  static absl::StatusOr<DeviceName> Parse(std::string_view text);
  static absl::StatusOr<DeviceName> FromProto(const v1::DeviceRef& device);
  static absl::Status ValidateFramework(std::string_view framework);
  // As ValidateFramework, but without a variant: what an event may name.
  static absl::Status ValidateFamily(std::string_view family);

  std::string ToString() const;
  v1::DeviceRef ToProto() const;

  // "CUDA" of "CUDA/PTX"; valid as long as this object.
  std::string_view family() const;
  // "PTX" of "CUDA/PTX", empty when there is none.
  std::string_view variant() const;

  // Whether an event aimed at (family, index) is about this device.
  bool Matches(std::string_view event_family, uint32_t event_index) const;
  // The same for a scope as v1.Invalidate has it: an empty family is all, no index is all of them.
  bool InScope(std::string_view scope_family, std::optional<uint32_t> scope_index) const;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
  friend auto operator<=>(const DeviceName&, const DeviceName&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const DeviceName& device) {
    return H::combine(std::move(state), device.framework, device.index);
  }
};

}  // namespace kcache

#endif  // KCACHE_CONTRACT_DEVICE_NAME_H_
