// Where a driver keeps what it compiles when a binary is loaded.
//
// Some drivers' binaries are an intermediate form: NVIDIA's OpenCL gives PTX, which is compiled again
// at every load. Such a backend names the variable that tells its driver where to keep the results,
// with kDriverCache as its value, among its devices' host_environment. A host's private directory
// would not do, for it goes with the host; so the hosts get
//
//   <state_dir>/driver-cache/<family>-<driver version>/<uid>-<digest of the trust domain>
//
// mode 0700 and the host user's own: what one domain's driver reads, no other domain has written.
// How large one may grow is the driver's to keep (the backend sets its limit); how many there are is
// bounded here, the least recently used goes first, and those of another driver version go at once.
//
// Threads: PrepareDriverCache may block for the disk, and is called by one thread at a time.

#ifndef KCACHE_DAEMON_WORKERS_DRIVER_CACHE_H_
#define KCACHE_DAEMON_WORKERS_DRIVER_CACHE_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/workers/launch_spec.h"

namespace kcache::workers {

// In host_environment, as a whole value: "CUDA_CACHE_PATH=@driver-cache@".
inline constexpr std::string_view kDriverCache = "@driver-cache@";

// Of one family, and of one driver version.
inline constexpr size_t kMostDriverCaches = 32;

struct DriverCacheOwner {
  std::string family;          // "OpenCL"
  std::string driver_version;  // as the device's; anything but a plain name in it becomes '-'
  std::string domain;          // the trust domain
  uid_t uid = 0;               // who the host runs as
};

// Whether some variable of `environment` asks for such a directory.
bool WantsDriverCache(const std::vector<std::string>& environment);

// `environment` with `path` in the place of kDriverCache. Without a path those variables are left
// out, and the driver does what it does by default, in the host's private home.
std::vector<std::string> WithDriverCache(const std::vector<std::string>& environment,
                                         const std::optional<std::string>& path);

// The path alone.
std::string DriverCachePath(const std::string& state_dir, const DriverCacheOwner& owner);

// Makes the directory, owned by `user` when given, and removes what is one too many and what other
// driver versions left. Never follows a symbolic link.
absl::StatusOr<std::string> PrepareDriverCache(const std::string& state_dir,
                                               const DriverCacheOwner& owner,
                                               const std::optional<LaunchUser>& user);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_DRIVER_CACHE_H_
