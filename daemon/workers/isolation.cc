#include "daemon/workers/isolation.h"

#include <linux/capability.h>
#include <pwd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"

namespace kcache::workers {
namespace {

constexpr uint64_t kFiles = 4096;
constexpr uint64_t kHostFiles = 65536;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::optional<LaunchUser> LookUp(const std::string& name) {
  std::vector<char> buffer(16 << 10);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return std::nullopt;
  }
  return LaunchUser{.uid = found->pw_uid, .gid = found->pw_gid, .own_groups = true};
}

}  // namespace

bool MayChangeUser() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  const uint32_t needed = (1u << CAP_SETUID) | (1u << CAP_SETGID);
  return (data[0].effective & needed) == needed;
}

Isolation::Isolation(const ops::Config* config)
    : config_(config), may_change_user_(MayChangeUser()) {
  if (!may_change_user_) return;
  compile_user_ = LookUp(config->compile_user);
  if (!compile_user_) compile_user_ = LookUp("nobody");
}

std::string Isolation::Describe() const {
  if (!may_change_user_) {
    return absl::StrCat("backends run as kcached's own uid ", geteuid());
  }
  return absl::StrCat("hosts run as the user they serve, compiles as uid ",
                      compile_user_ ? compile_user_->uid : geteuid());
}

std::optional<LaunchUser> Isolation::compile_user() const { return compile_user_; }

std::optional<LaunchUser> Isolation::host_user(uid_t uid, gid_t gid) const {
  if (!may_change_user_ || uid == geteuid()) return std::nullopt;
  return LaunchUser{.uid = uid, .gid = gid, .own_groups = true};
}

void Isolation::ForProbe(const BackendProgram& program, const std::string& directory,
                         LaunchSpec* spec) const {
  // As the compile user: probing loads drivers, and those parse what vendors wrote. A node that
  // this user cannot open is reported by the probe itself.
  spec->program = program.path;
  spec->user = compile_user_;
  spec->directory = directory;
  spec->limits = {{"core", 0}, {"nofile", kFiles}};
  spec->memory_limit = config_->compile_memory;
  spec->environment = BackendEnvironment(directory, config_->backend_environment, {});
}

void Isolation::ForCompile(const BackendProgram& program, const std::string& directory,
                           LaunchSpec* spec) const {
  spec->program = program.path;
  spec->user = compile_user_;
  spec->directory = directory;
  spec->nice = static_cast<int>(config_->compile_nice);
  spec->limits = {
      {"core", 0},
      {"nofile", kFiles},
      {"fsize", config_->compile_disk},
      {"cpu", config_->jobs_per_worker *
                  static_cast<uint64_t>(absl::ToInt64Seconds(config_->compile_cpu))},
  };
  // A backstop between two looks at the resident size: it stops one huge allocation. Drivers reserve
  // more address space than that, and so do sanitizers.
  if (!program.compile_profile.needs_device() && !kSanitized) {
    spec->limits.emplace_back("data", 2 * config_->compile_memory);
  }
  // The kernel counts processes by user, so the limit is only ours to set where the user is.
  if (spec->user) spec->limits.emplace_back("nproc", config_->compile_processes);
  spec->memory_limit = config_->compile_memory;
  spec->environment = BackendEnvironment(directory, config_->backend_environment, {});
}

void Isolation::ForHost(const BackendProgram& program, const std::string& directory,
                        LaunchUser user, const std::vector<std::string>& device_environment,
                        LaunchSpec* spec) const {
  spec->program = program.path;
  spec->user = host_user(user.uid, user.gid);
  spec->directory = directory;
  spec->limits = {{"core", 0}, {"nofile", kHostFiles}};
  spec->environment =
      BackendEnvironment(directory, config_->backend_environment, device_environment);
}

}  // namespace kcache::workers
