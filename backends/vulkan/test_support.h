// What the tests of this folder share: shaders as artifacts, and a context on a real driver with
// the validation layer on, whose first message fails the test.

#ifndef KCACHE_BACKENDS_VULKAN_TEST_SUPPORT_H_
#define KCACHE_BACKENDS_VULKAN_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/sdk/driver.h"
#include "backends/vulkan/family.h"
#include "contract/error_reason.h"
#include "contract/mutex.h"

namespace kcache::backend::vulkan {

#define KCACHE_ASSERT_OK(expression)                  \
  do {                                                \
    const absl::Status kcache_status = (expression);  \
    ASSERT_TRUE(kcache_status.ok()) << kcache_status; \
  } while (false)

// Messages of the validation layer, from any thread.
class ValidationLog {
 public:
  InstanceOptions Options() {
    InstanceOptions options;
    options.on_validation_message = [this](std::string_view message) {
      MutexLock lock(&mutex_);
      messages_.emplace_back(message);
    };
    return options;
  }
  std::vector<std::string> messages() {
    MutexLock lock(&mutex_);
    return messages_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> messages_ ABSL_GUARDED_BY(mutex_);
};

inline v1::CompileRequest Request(std::string language, std::string source) {
  v1::CompileRequest request;
  request.set_framework("Vulkan");
  request.set_architecture("spirv");
  request.mutable_manifest()->set_language(std::move(language));
  request.set_source(std::move(source));
  return request;
}

inline v1::CompileRequest GlslRequest(std::string source, std::vector<std::string> flags = {}) {
  v1::CompileRequest request = Request("glsl", std::move(source));
  for (std::string& flag : flags) request.mutable_manifest()->add_flags(std::move(flag));
  return request;
}

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_TEST_SUPPORT_H_
