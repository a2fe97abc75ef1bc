#include "backends/opencl/private_directory.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "contract/error_reason.h"

namespace kcache::backend::opencl {

absl::StatusOr<PrivateDirectory> PrivateDirectory::Make(std::string_view prefix) {
  const char* base = std::getenv("TMPDIR");
  std::string name = (base != nullptr && *base != '\0' ? std::string(base) : std::string("/tmp")) +
                     "/" + std::string(prefix) + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    return MakeError(v1::INTERNAL,
                     "cannot make a private directory " + name + ": " + std::strerror(errno));
  }
  return PrivateDirectory(name);
}

PrivateDirectory::~PrivateDirectory() {
  std::error_code ignored;  // what cannot be removed is left to whoever cleans $TMPDIR
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

PrivateDirectory& PrivateDirectory::operator=(PrivateDirectory&& other) noexcept {
  if (this != &other) {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    path_ = std::exchange(other.path_, {});
  }
  return *this;
}

}  // namespace kcache::backend::opencl
