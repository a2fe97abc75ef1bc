// Finds the backend programs, kcache-backend-<name>, and says what their processes are given.
//
// Searched in this order, the first program of a name wins: the configured directories, kcached's own
// directory, its libexec directory (../libexec/kcache), and in a build tree ../backends/*.
//
// Threads: on the executor; FindBackendPrograms and LocateLauncher block for the disk, at start-up.

#ifndef KCACHE_DAEMON_WORKERS_BACKEND_PROGRAMS_H_
#define KCACHE_DAEMON_WORKERS_BACKEND_PROGRAMS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kcache/v1/backend.pb.h"

namespace kcache::workers {

struct BackendProgram {
  std::string name;    // "opencl"
  std::string path;
  std::string family;  // "OpenCL": as its last probe said, until then as the name suggests
  v1::CompileProfile compile_profile;  // from its last probe
};

// The directory of the running program.
std::string OwnDirectory();

std::vector<std::string> SearchedDirectories(const std::vector<std::string>& configured,
                                             const std::string& own_directory);

std::vector<BackendProgram> FindBackendPrograms(const std::vector<std::string>& directories);

absl::StatusOr<std::string> LocateLauncher(const std::string& configured,
                                           const std::string& own_directory);

// "OpenCL" for "opencl": how the families that we know write themselves; else the name itself.
std::string FamilyOfName(std::string_view name);

// The programs that are there. What a probe learns is kept here.
class BackendPrograms {
 public:
  explicit BackendPrograms(std::vector<std::string> directories);

  void Rescan();
  std::vector<BackendProgram>& all() { return programs_; }
  BackendProgram* Find(std::string_view family);

 private:
  const std::vector<std::string> directories_;
  std::vector<BackendProgram> programs_;
};

// NAME=value for a backend process: a fixed locale and path, its private directory as home, temporary
// and cache directory; what makes devices and drivers visible from kcached's environment; and
// `extra`, which wins.
std::vector<std::string> BackendEnvironment(const std::string& directory,
                                            const std::vector<std::string>& let_through,
                                            const std::vector<std::string>& extra);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_BACKEND_PROGRAMS_H_
