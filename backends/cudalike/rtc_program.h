// One compile through a runtime compiler: source, headers by content, options and name expressions
// in; binary, log and lowered names out.
//
// Threads: pure function; one at a time per library. Ownership: the result owns its bytes.
#ifndef KCACHE_BACKENDS_CUDALIKE_RTC_PROGRAM_H_
#define KCACHE_BACKENDS_CUDALIKE_RTC_PROGRAM_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cudalike/rtc_api.h"
#include "kcache/v1/backend.pb.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::cudalike {

struct RtcResultFiles {
  std::string binary;
  std::string log;
  // In the order of the manifest's name expressions.
  std::vector<std::pair<std::string, std::string>> lowered_names;
};

// `options` are complete: architecture, defines, flags, include directories. `source_name` is what
// the compiler calls the source in its messages. COMPILE_FAILED carries the log; BAD_REQUEST an
// option or a name expression that the compiler does not take; COMPILE_OUT_OF_MEMORY;
// LIMIT_EXCEEDED for a binary over the request's max_output_bytes.
absl::StatusOr<RtcResultFiles> CompileRtcProgram(const RtcApi& api, const RtcOutput& output,
                                                 const v1::CompileRequest& request,
                                                 const std::string& source_name,
                                                 const std::vector<std::string>& options);

// At most `limit` bytes of a log, the last of them a line that says how much is missing where there
// is room for it; all of it when it is short enough or `limit` is 0.
std::string LimitLog(std::string log, uint64_t limit);

// Gives each kernel the name its caller knows it by: one KernelInfo for each name expression that
// lowers to it, or its own lowered name when there is none.
std::vector<v1::KernelInfo> NameKernels(
    const std::vector<v1::KernelInfo>& kernels,
    const std::vector<std::pair<std::string, std::string>>& lowered_names);

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_RTC_PROGRAM_H_
