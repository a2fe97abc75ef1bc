// clGet…Info queries as values. A query that the driver refuses gives an empty or zero value:
// what is asked here is descriptive, and old drivers do not know new properties.
//
// Threads: any.

#ifndef KCACHE_BACKENDS_OPENCL_CL_INFO_H_
#define KCACHE_BACKENDS_OPENCL_CL_INFO_H_

#include <string>
#include <string_view>

#include "backends/opencl/cl_api.h"

namespace kcache::backend::opencl {

// `query(size, value, size_returned)` twice: for the size, then for the characters. The terminating
// zero and blanks around the text are dropped.
template <typename Query>
std::string InfoText(Query query) {
  size_t bytes = 0;
  if (query(0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (query(bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(text.find('\0') == std::string::npos ? text.size() : text.find('\0'));
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

inline std::string PlatformText(cl_platform_id platform, cl_platform_info name) {
  return InfoText([&](size_t size, void* value, size_t* returned) {
    return clGetPlatformInfo(platform, name, size, value, returned);
  });
}

inline std::string DeviceText(cl_device_id device, cl_device_info name) {
  return InfoText([&](size_t size, void* value, size_t* returned) {
    return clGetDeviceInfo(device, name, size, value, returned);
  });
}

template <typename T>
T DeviceValue(cl_device_id device, cl_device_info name) {
  T value{};
  if (clGetDeviceInfo(device, name, sizeof(value), &value, nullptr) != CL_SUCCESS) return T{};
  return value;
}

// Whether `list`, words separated by blanks, has `word`.
inline bool HasWord(std::string_view list, std::string_view word) {
  for (size_t at = list.find(word); at != std::string_view::npos; at = list.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_CL_INFO_H_
