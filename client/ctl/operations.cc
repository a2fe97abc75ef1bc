// The commands that change something: they run until the daemon says how it ended, and their exit
// code says the same. The operation goes on when kcachectl is interrupted.

#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "client/ctl/commands.h"
#include "client/ctl/json.h"
#include "client/ctl/table.h"
#include "contract/device_name.h"
#include "contract/strings.h"

namespace kcache::ctl {
namespace {

// How many holders a progress line names.
constexpr int kNamed = 3;

std::string WaitingText(const v1::OperationUpdate& update) {
  std::string text =
      absl::StrCat("waiting for ", update.waiting(), " of ", update.holders(), " holders");
  int named = 0;
  for (const v1::WaitingHolder& holder : update.waiting_for()) {
    if (named == kNamed) break;
    absl::StrAppend(&text, named++ == 0 ? ": " : ", ", "pid ",
                    holder.pid() == 0 ? "?" : std::to_string(holder.pid()), " (",
                    holder.client_name(), ") ", Milliseconds(holder.waiting_ms()));
    if (!holder.nack().empty()) absl::StrAppend(&text, ": ", holder.nack());
  }
  if (update.waiting() > static_cast<uint32_t>(named) && named > 0) {
    absl::StrAppend(&text, ", and ", update.waiting() - static_cast<uint32_t>(named), " more");
  }
  return text;
}

// On a terminal, progress overwrites itself; in a log, a line is printed when it says something
// new.
class Progress {
 public:
  explicit Progress(const Session& session)
      : json_(session.json), quiet_(session.quiet), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~Progress() { Clear(); }

  void Show(const v1::OperationUpdate& update) {
    if (json_) {
      std::cout << Json(update, /*pretty=*/false) << std::endl;
      return;
    }
    if (quiet_ || update.has_result()) return;
    const std::string text = update.waiting() > 0 ? WaitingText(update)
                                                  : absl::StrCat(update.phase(), " for ",
                                                                 Milliseconds(update.elapsed_ms()));
    // Times change with every update, what is being waited for does not.
    const std::string key = absl::StrCat(update.phase(), update.waiting());
    if (terminal_) {
      std::cerr << "\r\033[K" << text << std::flush;
      shown_ = true;
    } else if (key != last_) {
      std::cerr << text << "\n";
    }
    last_ = key;
  }

  void Clear() {
    if (std::exchange(shown_, false)) std::cerr << "\r\033[K" << std::flush;
  }

 private:
  const bool json_;
  const bool quiet_;
  const bool terminal_;
  bool shown_ = false;
  std::string last_;
};

ExitCode Conclude(const Session& session, const std::string& what,
                  const v1::OperationUpdate& update) {
  const v1::OperationResult& result = update.result();
  const absl::Status error = FromProto(result.error());
  const bool complete = result.ok() && error.ok();
  if (!session.json) {
    if (complete) {
      std::cout << what << ": done in " << Milliseconds(update.elapsed_ms())
                << (result.joined() ? ", together with an earlier operation" : "") << "; told "
                << result.told_before() << " sessions before, " << result.acked()
                << " acknowledged";
      if (result.gone() > 0) std::cout << ", " << result.gone() << " gone";
      if (result.unacked() > 0) std::cout << ", " << result.unacked() << " revoked unacknowledged";
      std::cout << "; released " << result.released() << " resources";
      if (result.contexts() > 0) std::cout << " in " << result.contexts() << " contexts";
      if (!result.device_free().empty()) std::cout << "; device free: " << result.device_free();
      std::cout << "\n";
    }
    for (const std::string& failure : result.failures()) std::cerr << "failed: " << failure << "\n";
    for (const v1::ForeignHolder& holder : result.foreign()) {
      std::cerr << "not ours, but it has " << holder.node() << " open: pid " << holder.pid() << " ("
                << holder.name() << ", uid " << holder.uid() << ")\n";
    }
    if (!complete) {
      std::cerr << "kcachectl: " << what << " failed: "
                << (error.ok() ? "the daemon gave no reason" : std::string(error.message())) << " ["
                << ReasonName(ReasonOf(error)) << "]\n";
    }
  }
  if (!complete) return kFailed;
  return result.failures().empty() ? kDone : kDoneWithFailures;
}

template <class Request>
ExitCode Run(const Session& session, const std::string& what,
             std::unique_ptr<grpc::ClientReader<v1::OperationUpdate>> (v1::Admin::Stub::*method)(
                 grpc::ClientContext*, const Request&),
             const Request& request) {
  Progress progress(session);
  std::string id;
  std::optional<v1::OperationUpdate> last;
  const absl::Status ended = session.client->Stream<Request, v1::OperationUpdate>(
      method, request, [&](const v1::OperationUpdate& update) {
        id = update.operation_id();
        progress.Show(update);
        if (update.has_result()) last = update;
        return true;
      });
  progress.Clear();
  if (last.has_value()) return Conclude(session, what, *last);
  if (!id.empty()) {
    std::cerr << "the connection was lost before the end; the operation goes on if the daemon "
                 "does: kcachectl watch "
              << ToHex(id) << "\n";
  }
  if (!ended.ok()) return Report(session, ended);
  return Report(session, MakeError(v1::INTERRUPTED,
                                   "the daemon ended " + what + " without saying how it went"));
}

}  // namespace

ExitCode Clear(const Session& session, const ClearArguments& arguments) {
  v1::AdminClearRequest request;
  if (!arguments.device.empty()) {
    std::string family;
    std::optional<uint32_t> index;
    if (absl::Status bad = ParseScope(arguments.device, /*family_alone=*/true, &family, &index);
        !bad.ok()) {
      return Report(session, bad), kUsage;
    }
    request.set_family(family);
    if (index.has_value()) request.set_index(*index);
  }
  request.set_artifacts(arguments.artifacts);
  request.set_grace_ms(arguments.grace_ms);
  return Run(session, "clear", &v1::Admin::Stub::Clear, request);
}

ExitCode DestroyDevice(const Session& session, const DestroyArguments& arguments) {
  const absl::StatusOr<DeviceName> device = DeviceName::Parse(arguments.device);
  if (!device.ok()) return Report(session, device.status()), kUsage;
  v1::AdminDestroyRequest request;
  *request.mutable_device() = device->ToProto();
  request.set_physical(arguments.physical);
  request.set_stay_down(arguments.stay_down);
  request.set_grace_ms(arguments.grace_ms);
  return Run(session, "destroy-device " + arguments.device, &v1::Admin::Stub::DestroyDevice,
             request);
}

ExitCode ResetDevices(const Session& session) {
  return Run(session, "reset-devices", &v1::Admin::Stub::ResetDevices, v1::ResetDevicesRequest());
}

ExitCode DeviceUp(const Session& session, const std::string& device, bool clear_hold) {
  const absl::StatusOr<DeviceName> name = DeviceName::Parse(device);
  if (!name.ok()) return Report(session, name.status()), kUsage;
  v1::DeviceUpRequest request;
  *request.mutable_device() = name->ToProto();
  request.set_clear_hold(clear_hold);
  return Run(session, "device-up " + device, &v1::Admin::Stub::DeviceUp, request);
}

ExitCode Rescan(const Session& session) {
  return Run(session, "rescan", &v1::Admin::Stub::Rescan, v1::RescanRequest());
}

ExitCode Watch(const Session& session, const std::string& operation) {
  const absl::StatusOr<std::string> id = FromHex(operation);
  if (!id.ok()) return Report(session, id.status()), kUsage;
  v1::WatchOperationRequest request;
  request.set_operation_id(*id);
  return Run(session, "operation " + operation, &v1::Admin::Stub::WatchOperation, request);
}

}  // namespace kcache::ctl
