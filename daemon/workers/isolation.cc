#include "daemon/workers/isolation.h"

#include <linux/capability.h>
#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "contract/strings.h"
#include "daemon/ops/system_error.h"
#include "daemon/workers/driver_cache.h"
#include "daemon/workers/exit_status.h"
#include "daemon/workers/library_path.h"
#include "daemon/workers/private_directory.h"

namespace kcache::workers {
namespace {

constexpr uint64_t kFiles = 4096;
constexpr uint64_t kHostFiles = 65536;
constexpr int kGroupFd = 3;  // of a trial
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

// Variables of a backend's environment that name files which it reads, ":"-separated.
constexpr std::string_view kPathVariables[] = {
    "LD_LIBRARY_PATH=",  "OCL_ICD_VENDORS=",  "OCL_ICD_FILENAMES=", "OPENCL_VENDOR_PATH=",
    "VK_ICD_FILENAMES=", "VK_DRIVER_FILES=",  "KCACHE_CUDA_TOOLKIT="};

// What every NVIDIA or AMD process opens besides the nodes of its own cards.
constexpr const char* kSharedNodes[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                        "/dev/nvidia-modeset", "/dev/nvidia-caps", "/dev/kfd"};

// Directories of people and services, where no driver has anything to read.
constexpr const char* kPrivate[] = {"/home", "/root", "/run/user", "/var/tmp", "/var/cache/kcached",
                                    "/var/lib/kcached"};

// Whether the launcher gets /bin/true to run with these arguments. Its words go to `output`.
bool Try(const std::vector<std::string>& command, int group_fd, std::string* output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  ops::UniqueFd read_end(ends[0]);
  ops::UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  if (group_fd >= 0) posix_spawn_file_actions_adddup2(&actions, group_fd, kGroupFd);
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  char* no_environment[] = {nullptr};
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), no_environment);
  posix_spawn_file_actions_destroy(&actions);
  write_end.Reset();
  if (error != 0) {
    *output = ops::ErrnoText(error);
    return false;
  }
  char buffer[1024];
  for (ssize_t n = 0; (n = read(read_end.get(), buffer, sizeof buffer)) > 0;) {
    output->append(buffer, static_cast<size_t>(n));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Since Linux 5.14 RLIMIT_NPROC counts by user and user namespace.
bool NamespacesCountProcesses() {
  utsname name{};
  int major = 0;
  int minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 14);
}

uint32_t ProcessesOfCompile(const ops::Config& config) {
  if (config.compile_processes != 0) return config.compile_processes;
  return 256 + 4 * std::thread::hardware_concurrency();
}

}  // namespace

absl::Status Isolation::ChooseSandbox(const std::string& launcher,
                                      const std::string& work_directory) {
  if (config_->sandbox == "off") {
    why_no_namespaces_ = "isolation.sandbox is off";
    return absl::OkStatus();
  }
  if (groups_ != nullptr && groups_->in_force()) TryGroup(launcher);
  filter_ = true;
  auto directory = MakePrivateDirectory(work_directory, "try", compile_user_);
  if (!directory.ok()) return directory.status();
  LaunchSpec spec;
  spec.program = "/bin/true";
  spec.directory = *directory;
  spec.sandbox.filter = Sandbox::Filter::kDevice;
  std::string output;
  for (const Sandbox::Root root : {Sandbox::Root::kMinimal, Sandbox::Root::kHidden}) {
    spec.sandbox.root = root;
    if (!Try(LauncherArguments(spec, launcher, getpid(), {}, -1, -1), -1, &output)) {
      why_no_namespaces_ = "namespaces cannot be had" + LastWords(output);
      break;
    }
  }
  namespaces_ = why_no_namespaces_.empty();
  if (!NamespacesCountProcesses()) {
    why_not_apart_ = "Linux before 5.14 counts them by user";
  } else if (namespaces_) {
    // Some systems give a user namespace to who asks, and refuse him what it takes to live in it.
    spec.user = compile_user_;
    spec.sandbox.count_apart = true;
    if (!Try(LauncherArguments(spec, launcher, getpid(), {}, -1, -1), -1, &output)) {
      why_not_apart_ = "compiles get no user namespace of their own" + LastWords(output);
    }
  }
  RemoveTree(*directory);
  if (namespaces_ || config_->sandbox != "required") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("isolation.sandbox is required, but ", why_no_namespaces_));
}

void Isolation::TryGroup(const std::string& launcher) {
  auto group = groups_->Make("try", {});
  if (!group.ok()) {
    groups_->TurnOff(std::string(StdView(group.status().message())));
    return;
  }
  LaunchSpec spec;
  spec.program = "/bin/true";
  std::string output;
  const bool joined = Try(LauncherArguments(spec, launcher, getpid(), {}, -1, kGroupFd),
                          (*group)->procs_fd(), &output);
  group->reset();
  if (!joined) groups_->TurnOff("a control group cannot be joined" + LastWords(output));
}

void Isolation::Confine(Sandbox::Root root, Sandbox::Filter filter, const BackendProgram& program,
                        LaunchSpec* spec) const {
  Sandbox& sandbox = spec->sandbox;
  if (filter_) sandbox.filter = filter;
  if (!namespaces_) return;
  sandbox.root = root;
  const std::filesystem::path path(program.path);
  sandbox.show.push_back(path.parent_path().string());
  for (std::string& libraries : LibraryDirectories(program.path)) {
    sandbox.show.push_back(std::move(libraries));
  }
  for (const std::string& variable : spec->environment) {
    for (const std::string_view name : kPathVariables) {
      if (!std::string_view(variable).starts_with(name)) continue;
      for (absl::string_view item :
           absl::StrSplit(AbslView(std::string_view(variable).substr(name.size())), ':',
                          absl::SkipEmpty())) {
        if (item[0] == '/') sandbox.show.emplace_back(item.data(), item.size());
      }
    }
  }
  for (const std::string& readable : program.compile_profile.readable_paths()) {
    if (readable.starts_with("/")) sandbox.show.push_back(readable);
  }
  sandbox.hide = {config_->runtime_dir, config_->state_dir};
}

bool MayChangeUser() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  const uint32_t needed = (1u << CAP_SETUID) | (1u << CAP_SETGID);
  return (data[0].effective & needed) == needed;
}

Isolation::Isolation(const ops::Config* config, ControlGroups* groups)
    : config_(config), groups_(groups), may_change_user_(MayChangeUser()) {
  if (!may_change_user_) return;
  compile_user_ = LookUp(config->compile_user);
  compile_user_is_its_own_ = compile_user_.has_value();
  if (!compile_user_) compile_user_ = LookUp("nobody");
}

std::string Isolation::Describe() const {
  std::string text =
      may_change_user_ ? absl::StrCat("hosts run as the user they serve, compiles as uid ",
                                      compile_user_ ? compile_user_->uid : geteuid())
                       : absl::StrCat("backends run as kcached's own uid ", geteuid());
  absl::StrAppend(&text, namespaces_ ? ", in namespaces of their own"
                                     : ", without namespaces (" + why_no_namespaces_ + ")",
                  filter_ ? ", with a system call filter" : ", without a system call filter");
  if (groups_ != nullptr) {
    absl::StrAppend(&text, !groups_->in_force() ? ", without control groups"
                           : groups_->limits()  ? ", in control groups of their own"
                                                : ", in control groups of their own (without limits)");
  }
  return text;
}

void Isolation::FillState(v1::IsolationState* state) const {
  state->set_sandbox(config_->sandbox);
  state->set_own_users(may_change_user_);
  state->set_namespaces(namespaces_);
  state->set_system_call_filter(filter_);
  state->set_compile_uid(compile_user_ ? compile_user_->uid : geteuid());
  if (!may_change_user_) {
    state->add_missing(absl::StrCat("own users: kcached has no CAP_SETUID and CAP_SETGID; hosts and "
                                    "compiles run as its own uid ", geteuid(),
                                    ", and CPU devices serve that user only"));
  } else if (!compile_user_is_its_own_) {
    state->add_missing(absl::StrCat("a user for compiles: there is no user ", config_->compile_user,
                                    "; they run as ", compile_user_ ? "nobody" : "kcached does"));
  }
  if (!namespaces_) state->add_missing("namespaces: " + why_no_namespaces_);
  if (namespaces_ && !counts_apart()) {
    state->add_missing("processes of each compile counted apart: " + why_not_apart_);
  }
  if (!filter_) state->add_missing("system call filter: isolation.sandbox is off");
  if (groups_ == nullptr) return;
  state->set_control_groups(groups_->in_force());
  state->set_control_group_limits(groups_->limits());
  if (!groups_->in_force()) {
    state->add_missing("control groups: " + groups_->why_not());
  } else if (!groups_->limits()) {
    state->add_missing("memory and process limits of control groups: " + groups_->why_no_limits());
  }
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
  spec->group = {.memory = config_->compile_memory, .processes = ProcessesOfCompile(*config_)};
  spec->environment = BackendEnvironment(directory, config_->backend_environment, {});
  Confine(Sandbox::Root::kHidden, Sandbox::Filter::kDevice, program, spec);
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
  // Where the kernel does not count a compile's processes apart, it counts them by user; so the limit is
  // only ours to set where the user is.
  spec->sandbox.count_apart = counts_apart();
  if (counts_apart() || spec->user) {
    spec->limits.emplace_back("nproc", ProcessesOfCompile(*config_));
  }
  spec->memory_limit = config_->compile_memory;
  spec->process_limit = config_->processes_per_compile;
  spec->group = {.memory = config_->compile_memory, .processes = ProcessesOfCompile(*config_)};
  spec->environment = BackendEnvironment(directory, config_->backend_environment, {});
  const v1::CompileProfile& profile = program.compile_profile;
  const bool drivers = profile.needs_device() && !profile.device_nodes().empty();
  Confine(drivers ? Sandbox::Root::kHidden : Sandbox::Root::kMinimal, Sandbox::Filter::kCompile,
          program, spec);
  // A sanitizer executes its symbolizer.
  spec->sandbox.no_exec = !profile.executes_programs() && !kSanitized;
  if (!drivers || !namespaces_) return;
  spec->sandbox.hide.insert(spec->sandbox.hide.end(), std::begin(kPrivate), std::end(kPrivate));
  spec->sandbox.devices.assign(profile.device_nodes().begin(), profile.device_nodes().end());
  spec->sandbox.devices.insert(spec->sandbox.devices.end(), std::begin(kSharedNodes),
                               std::end(kSharedNodes));
}

void Isolation::ForHost(const BackendProgram& program, const std::string& directory,
                        LaunchUser user, const v1::DeviceInfo& device,
                        const std::optional<std::string>& driver_cache, LaunchSpec* spec) const {
  spec->program = program.path;
  spec->user = host_user(user.uid, user.gid);
  spec->directory = directory;
  spec->limits = {{"core", 0}, {"nofile", kHostFiles}};
  spec->environment = BackendEnvironment(
      directory, config_->backend_environment,
      WithDriverCache({device.host_environment().begin(), device.host_environment().end()},
                      driver_cache));
  const bool drivers = !device.is_cpu();
  Confine(drivers ? Sandbox::Root::kHidden : Sandbox::Root::kMinimal, Sandbox::Filter::kDevice,
          program, spec);
  if (!namespaces_) return;
  if (driver_cache) spec->sandbox.write.push_back(*driver_cache);
  if (!drivers) return;
  spec->sandbox.hide.insert(spec->sandbox.hide.end(), std::begin(kPrivate), std::end(kPrivate));
  if (device.device_nodes().empty()) return;  // it does not say: all are visible
  spec->sandbox.devices.assign(device.device_nodes().begin(), device.device_nodes().end());
  spec->sandbox.devices.insert(spec->sandbox.devices.end(), std::begin(kSharedNodes),
                               std::end(kSharedNodes));
}

}  // namespace kcache::workers
