// kcachectl: flags, and which command they mean.

#include <csignal>
#include <functional>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "client/ctl/commands.h"

namespace kcache::ctl {
namespace {

constexpr char kAbout[] =
    "Looks after kcached, the daemon that owns this node's compiled GPU kernels.\n";

constexpr char kFooter[] =
    "Devices are written FAMILY:INDEX, e.g. CUDA:0 or OpenCL:1.\n"
    "\n"
    "Examples\n"
    "  kcachectl status\n"
    "  kcachectl leases CUDA:0                          who holds what on the first card\n"
    "  kcachectl destroy-device CUDA:0 --physical --stay-down\n"
    "                                                   take a card out of use for a driver "
    "reload\n"
    "  kcachectl device-up CUDA:0                       and back again\n"
    "  kcachectl clear --artifacts                      forget everything that was compiled\n"
    "  kcachectl explain -d CUDA:0 -l cuda-c++ add.cu   why would this be compiled again?\n"
    "  kcachectl --json sessions                        for programs\n"
    "  kcachectl events --follow\n"
    "\n"
    "Exit codes: 0 done; 1 the operation failed; 2 usage; 3 the daemon cannot be reached; 4 done, "
    "with failures reported.\n"
    "Environment: KCACHE_ADMIN_SOCKET is the socket when --admin-socket is not given.";

constexpr char kDeviceHelp[] = "Only of this family (CUDA) or device (CUDA:0)";

int Main(int argc, char** argv) {
  CLI::App app(kAbout, "kcachectl");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.fallthrough();
  std::string socket;
  int timeout_ms = 10'000;
  bool json = false;
  bool quiet = false;
  app.add_option("--admin-socket", socket,
                 "The daemon's admin socket (default: $XDG_RUNTIME_DIR/kcached/admin.sock if it is "
                 "there, else /run/kcached/admin.sock)");
  app.add_option("--timeout-ms", timeout_ms, "How long a report may take")
      ->capture_default_str()
      ->check(CLI::Range(1, 3'600'000));
  app.add_flag("--json", json, "Print JSON: one document, or one a line for progress and events");
  app.add_flag("-q,--quiet", quiet, "No progress lines");

  std::function<ExitCode(const Session&)> run;
  const auto command = [&](const char* name, const char* about,
                           std::function<ExitCode(const Session&)> action) {
    CLI::App* sub = app.add_subcommand(name, about);
    sub->callback([&run, action = std::move(action)] { run = action; });
    return sub;
  };

  std::string device;
  command("status", "How the daemon is doing, in one page", ShowStatus);
  command("devices", "Devices of every family, their state, and families that are not there",
          [&](const Session& session) { return ShowDevices(session, device); })
      ->add_option("device", device, kDeviceHelp);
  command("contexts",
          "Device contexts: one for each device and trust domain, each in a host process",
          [&](const Session& session) { return ShowContexts(session, device); })
      ->add_option("device", device, kDeviceHelp);
  command("kernels", "Kernels that are loaded", [&](const Session& session) {
    return ShowKernels(session, device);
  })->add_option("device", device, kDeviceHelp);
  command("artifacts", "Compiled programs", ShowArtifacts);
  command("leases", "Who may use which kernel", [&](const Session& session) {
    return ShowLeases(session, device);
  })->add_option("device", device, kDeviceHelp);
  command("sessions", "Client processes", ShowSessions);
  command("operations", "Clears, destroys and the like: running, and the last ones",
          ShowOperations);

  command("quotas", "What every trust domain and session uses of its bounds", ShowQuotas);

  bool clear_refusals = false;
  std::string artifact_key;
  CLI::App* refusals = command(
      "refusals", "Programs that are not compiled any more because they crash compilers",
      [&](const Session& session) {
        return clear_refusals ? ClearRefusals(session, artifact_key) : ShowRefusals(session);
      });
  refusals->add_flag("--clear", clear_refusals, "Allow them again");
  refusals->add_option("artifact", artifact_key, "With --clear: only this one (as listed)");

  bool follow = false;
  uint64_t since = 0;
  CLI::App* events = command("events", "What has happened", [&](const Session& session) {
    return ShowEvents(session, follow, since);
  });
  events->add_flag("-f,--follow", follow, "Go on as things happen");
  events->add_option("--since", since, "Only events after this number");

  ClearArguments clear;
  CLI::App* clear_command = command(
      "clear", "Releases kernels; contexts and buffers stay. Every holder is told before and after",
      [&](const Session& session) { return Clear(session, clear); });
  clear_command->add_option("device", clear.device, kDeviceHelp);
  clear_command->add_flag("--artifacts", clear.artifacts, "Compiled programs, too");
  clear_command->add_option("--grace-ms", clear.grace_ms,
                            "How long holders have to stop using them (default: the daemon's)");

  DestroyArguments destroy;
  CLI::App* destroy_command =
      command("destroy-device",
              "Releases everything on a device: tells its holders, waits for them, ends the hosts",
              [&](const Session& session) { return DestroyDevice(session, destroy); });
  destroy_command->add_option("device", destroy.device, "The device, e.g. CUDA:0")->required();
  destroy_command->add_flag("--physical", destroy.physical,
                            "On every family of that card; proves that nothing of the daemon's has "
                            "it open");
  destroy_command->add_flag("--stay-down", destroy.stay_down,
                            "Until device-up, also across restarts of the daemon");
  destroy_command->add_option("--grace-ms", destroy.grace_ms,
                              "How long holders have to stop using it (default: the daemon's)");

  command("reset-devices", "Retires the devices' global ids; nothing is released", ResetDevices);

  bool clear_hold = false;
  CLI::App* up =
      command("device-up", "Brings a device back that was kept down",
              [&](const Session& session) { return DeviceUp(session, device, clear_hold); });
  up->add_option("device", device, "The device, e.g. CUDA:0")->required();
  up->add_flag("--clear-hold", clear_hold, "Also contexts on hold after repeated crashes");

  command("rescan", "Looks for devices again", Rescan);

  std::string operation;
  command("watch", "Follows an operation to its end",
          [&](const Session& session) { return Watch(session, operation); })
      ->add_option("operation", operation, "Its id, as `operations` lists it")
      ->required();

  ExplainArguments explain;
  CLI::App* explain_command =
      command("explain", "Whether a program is cached for a device, and if not, what differs",
              [&](const Session& session) { return Explain(session, explain); });
  explain_command->add_option("source", explain.source, "The source file")->required();
  explain_command->add_option("-d,--device", explain.device, "The device, e.g. CUDA:0")->required();
  explain_command
      ->add_option("-l,--language", explain.language, "opencl-c, cuda-c++, hip-c++, glsl, …")
      ->required();
  explain_command->add_option("-I,--include", explain.include_directories,
                              "A directory whose headers are part of the program");
  explain_command->add_option("-D,--define", explain.defines, "NAME or NAME=VALUE");
  explain_command->add_option("--flag", explain.flags, "A compiler flag, in order: --flag=-O3");
  explain_command->add_option("--name-expression", explain.name_expressions,
                              "A C++ template to instantiate");

  command("version", "Versions of kcachectl and of the daemon", ShowVersion);
  command("metrics", "Metrics in the Prometheus text format", ShowMetrics);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  // A reader that goes away (`| head`) is seen as a failed write.
  std::signal(SIGPIPE, SIG_IGN);
  AdminClient client(socket, timeout_ms);
  const ExitCode code = run({.client = &client, .json = json, .quiet = quiet});
  std::cout.flush();
  return code;
}

}  // namespace
}  // namespace kcache::ctl

int main(int argc, char** argv) { return kcache::ctl::Main(argc, argv); }
