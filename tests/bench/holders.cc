#include "tests/bench/holders.h"

#include <unistd.h>

#include <cstdlib>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kcache/client.h"
#include "tests/bench/bare_fanout.h"

namespace kcache::bench {

KernelRequest HeldKernel() {
  auto program =
      Program::FromSource("fake", "kernel k0(buffer out, scalar u32 n) { out[i] = i }\n");
  return {.program = *program, .entry = "k0", .device = {.framework = "Fake", .index = 0}};
}

int RunHolder(const std::string& daemon_socket, const std::string& bare_socket, size_t sessions) {
  std::unique_ptr<BareStreams> streams;
  if (!bare_socket.empty()) streams = BareStreams::Open(bare_socket, sessions);
  std::vector<std::shared_ptr<Client>> clients;
  std::vector<Kernel> held(sessions);
  for (size_t i = 0; i < sessions; ++i) {
    auto client = Client::Connect({.socket = daemon_socket,
                                   .name = "holder",
                                   .connect_timeout = std::chrono::seconds(60),
                                   .memo_capacity = 0});
    if (!client.ok()) {
      TellParent(client.status().ToString());
      return 1;
    }
    clients.push_back(*std::move(client));
  }
  TellParent("ready");
  const KernelRequest request = HeldKernel();
  while (HearParent()) {
    std::vector<std::promise<absl::StatusOr<Kernel>>> answers(sessions);
    for (size_t i = 0; i < sessions; ++i) {
      clients[i]->AcquireAsync(request, [&answers, i](absl::StatusOr<Kernel> kernel) {
        answers[i].set_value(std::move(kernel));
      });
    }
    absl::Status failed;
    for (size_t i = 0; i < sessions; ++i) {
      auto kernel = answers[i].get_future().get();
      failed.Update(kernel.status());
      if (kernel.ok()) held[i] = *std::move(kernel);
    }
    TellParent(failed.ok() ? "held" : failed.ToString());
  }
  _exit(0);
}

absl::StatusOr<std::unique_ptr<Holders>> Holders::Start(Where where, size_t processes,
                                                        size_t sessions_each) {
  std::unique_ptr<Holders> holders(new Holders(std::move(where), sessions_each));
  for (size_t i = 0; i < processes; ++i) {
    holders->processes_.push_back(holders->StartOne());
    if (holders->processes_.back() == nullptr) return absl::InternalError("a holder did not start");
  }
  for (const auto& process : holders->processes_) {
    const auto line = process->Listen();
    if (line != "ready") return absl::InternalError(line.value_or("a holder ended"));
  }
  return holders;
}

std::unique_ptr<Child> Holders::StartOne() const {
  return Child::Start({where_.program, "holder", where_.daemon_socket, where_.bare_socket,
                       std::to_string(sessions_each_)});
}

absl::Status Holders::Acquire() {
  for (const auto& process : processes_) {
    if (!process->Say("acquire")) return absl::InternalError("a holder ended");
  }
  for (const auto& process : processes_) {
    const auto line = process->Listen();
    if (line != "held") return absl::InternalError(line.value_or("a holder ended"));
  }
  return absl::OkStatus();
}

absl::Status Holders::Replace(size_t process) {
  processes_[process] = nullptr;
  processes_[process] = StartOne();
  if (processes_[process] == nullptr) return absl::InternalError("a holder did not start");
  const auto line = processes_[process]->Listen();
  if (line != "ready") return absl::InternalError(line.value_or("a holder ended"));
  return absl::OkStatus();
}

}  // namespace kcache::bench
