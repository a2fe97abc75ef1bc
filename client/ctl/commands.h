// What kcachectl's subcommands do, apart from parsing: each answers an exit code.
//
// Threads: one.

#ifndef KCACHE_CLIENT_CTL_COMMANDS_H_
#define KCACHE_CLIENT_CTL_COMMANDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/admin_client.h"
#include "client/ctl/exit_code.h"

namespace kcache::ctl {

// What every command is given.
struct Session {
  AdminClient* client;
  bool json = false;
  bool quiet = false;  // no progress lines
};

// Says what failed on stderr (with --json: also as a document on stdout).
ExitCode Report(const Session& session, const absl::Status& failure);

// ---- reports
ExitCode ShowStatus(const Session& session);
ExitCode ShowVersion(const Session& session);
ExitCode ShowDevices(const Session& session, const std::string& device);
ExitCode ShowContexts(const Session& session, const std::string& device);
ExitCode ShowKernels(const Session& session, const std::string& device);
ExitCode ShowArtifacts(const Session& session);
ExitCode ShowLeases(const Session& session, const std::string& device);
ExitCode ShowSessions(const Session& session);
ExitCode ShowOperations(const Session& session);
ExitCode ShowRefusals(const Session& session);
ExitCode ShowQuotas(const Session& session);
ExitCode ClearRefusals(const Session& session, const std::string& artifact_key);
ExitCode ShowMetrics(const Session& session);
ExitCode ShowEvents(const Session& session, bool follow, uint64_t since);

struct ExplainArguments {
  std::string device;
  std::string language;
  std::string source;  // a file
  std::vector<std::string> include_directories;
  std::vector<std::string> defines;  // NAME or NAME=VALUE
  std::vector<std::string> flags;
  std::vector<std::string> name_expressions;
};
ExitCode Explain(const Session& session, const ExplainArguments& arguments);

// ---- operations
struct ClearArguments {
  std::string device;  // "", "CUDA" or "CUDA:0"
  bool artifacts = false;
  uint64_t grace_ms = 0;
};
ExitCode Clear(const Session& session, const ClearArguments& arguments);

struct DestroyArguments {
  std::string device;
  bool physical = false;
  bool stay_down = false;
  uint64_t grace_ms = 0;
};
ExitCode DestroyDevice(const Session& session, const DestroyArguments& arguments);
ExitCode ResetDevices(const Session& session);
ExitCode DeviceUp(const Session& session, const std::string& device, bool clear_hold);
ExitCode Rescan(const Session& session);
ExitCode Watch(const Session& session, const std::string& operation);

// "CUDA:0", or with `family_alone` also "CUDA"; BAD_REQUEST otherwise.
absl::Status ParseScope(const std::string& text, bool family_alone, std::string* family,
                        std::optional<uint32_t>* index);

}  // namespace kcache::ctl

#endif  // KCACHE_CLIENT_CTL_COMMANDS_H_
