// Calls code that is not ours and turns what it throws into a status, so that nothing is left
// undone because somebody threw.
//
// Threads: pure, any thread.

#ifndef KCACHE_CONTRACT_GUARDED_CALL_H_
#define KCACHE_CONTRACT_GUARDED_CALL_H_

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/error_reason.h"

namespace kcache {

// The result of `call()` (a Status or a StatusOr), or INTERNAL "`what` threw: …".
template <typename Call>
auto GuardedCall(std::string_view what, Call&& call) -> decltype(call()) {
  try {
    return std::forward<Call>(call)();
  } catch (const std::exception& exception) {
    return MakeError(v1::INTERNAL, std::string(what) + " threw: " + exception.what());
  } catch (...) {
    return MakeError(v1::INTERNAL,
                     std::string(what) + " threw something that is no std::exception");
  }
}

}  // namespace kcache

#endif  // KCACHE_CONTRACT_GUARDED_CALL_H_
