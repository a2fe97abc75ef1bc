// The runtime compiler's interface, which NVRTC and hipRTC share function by function.
//
// Threads: as the library behind it; the backends use it from one thread at a time. Ownership: the
// functions belong to a library that is never unloaded.
#ifndef KCACHE_BACKENDS_CUDALIKE_RTC_API_H_
#define KCACHE_BACKENDS_CUDALIKE_RTC_API_H_

#include <cstddef>

namespace kcache::backend::cudalike {

using RtcResult = int;
using RtcHandle = void*;

// The results that both libraries number alike.
enum : RtcResult {
  kRtcSuccess = 0,
  kRtcOutOfMemory = 1,
  kRtcInvalidInput = 3,
  kRtcInvalidOption = 5,
  kRtcCompilation = 6,
  kRtcNameExpressionNotValid = 10,
};

struct RtcApi {
  const char* (*get_error_string)(RtcResult) = nullptr;
  RtcResult (*version)(int* major, int* minor) = nullptr;
  RtcResult (*create_program)(RtcHandle*, const char* source, const char* name, int headers,
                              const char* const* contents, const char* const* names) = nullptr;
  RtcResult (*destroy_program)(RtcHandle*) = nullptr;
  RtcResult (*compile_program)(RtcHandle, int options, const char* const* values) = nullptr;
  RtcResult (*get_log_size)(RtcHandle, size_t*) = nullptr;
  RtcResult (*get_log)(RtcHandle, char*) = nullptr;
  RtcResult (*add_name_expression)(RtcHandle, const char*) = nullptr;
  RtcResult (*get_lowered_name)(RtcHandle, const char* expression, const char** lowered) = nullptr;
};

// One kind of output that a compiled program has.
struct RtcOutput {
  RtcResult (*size)(RtcHandle, size_t*) = nullptr;
  RtcResult (*get)(RtcHandle, char*) = nullptr;
};

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_RTC_API_H_
