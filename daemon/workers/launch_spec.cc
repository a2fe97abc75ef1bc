#include "daemon/workers/launch_spec.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kcache::workers {

std::vector<std::string> LauncherArguments(const LaunchSpec& spec, const std::string& launcher,
                                           pid_t parent, const std::vector<gid_t>& groups,
                                           int status_fd, int group_fd) {
  std::vector<std::string> arguments{launcher, absl::StrCat("--parent=", parent)};
  if (group_fd >= 0) arguments.push_back(absl::StrCat("--group-fd=", group_fd));
  if (spec.user) {
    arguments.push_back(absl::StrCat("--uid=", spec.user->uid));
    arguments.push_back(absl::StrCat("--gid=", spec.user->gid));
    if (!groups.empty()) arguments.push_back(absl::StrCat("--groups=", absl::StrJoin(groups, ",")));
  }
  for (const auto& [name, value] : spec.limits) {
    arguments.push_back(absl::StrCat("--limit=", name, "=", value));
  }
  if (spec.nice > 0) arguments.push_back(absl::StrCat("--nice=", spec.nice));
  for (const auto& [fd, ours] : spec.descriptors) {
    arguments.push_back(absl::StrCat("--keep=", fd));
  }
  if (!spec.directory.empty()) arguments.push_back("--directory=" + spec.directory);
  const Sandbox& sandbox = spec.sandbox;
  if (sandbox.root != Sandbox::Root::kShared) {
    const bool minimal = sandbox.root == Sandbox::Root::kMinimal;
    arguments.push_back(minimal ? "--root=minimal" : "--root=hidden");
    for (const std::string& path : sandbox.show) arguments.push_back("--show=" + path);
    if (!minimal) {
      for (const std::string& path : sandbox.hide) arguments.push_back("--hide=" + path);
    }
    for (const std::string& path : sandbox.write) arguments.push_back("--write=" + path);
    for (const std::string& path : sandbox.devices) arguments.push_back("--device=" + path);
    if (sandbox.count_apart) arguments.push_back("--count-apart");
    if (status_fd >= 0) arguments.push_back(absl::StrCat("--status-fd=", status_fd));
  }
  if (sandbox.filter != Sandbox::Filter::kNone) {
    arguments.push_back(sandbox.filter == Sandbox::Filter::kDevice ? "--filter=device"
                                                                   : "--filter=compile");
    if (sandbox.no_exec) arguments.push_back("--no-exec");
  }
  arguments.push_back("--");
  arguments.push_back(spec.program);
  arguments.insert(arguments.end(), spec.arguments.begin(), spec.arguments.end());
  return arguments;
}

std::vector<gid_t> GroupsOf(const LaunchUser& user) {
  std::vector<char> buffer(16 << 10);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user.uid, &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return {};
  }
  int count = 64;
  std::vector<gid_t> groups(static_cast<size_t>(count));
  while (getgrouplist(found->pw_name, user.gid, groups.data(), &count) < 0) {
    groups.resize(static_cast<size_t>(count));
  }
  groups.resize(static_cast<size_t>(count));
  return groups;
}

}  // namespace kcache::workers
