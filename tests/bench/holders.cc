#include "tests/bench/holders.h"

#include <unistd.h>

#include <cstdlib>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kcache/client.h"
#include "tests/bench/bare_fanout.h"

namespace kcache::bench {

namespace {

using Answer = std::vector<absl::StatusOr<Kernel>>;

// Who asked before it had heard of a destroy is told DEVICE_DESTROYED, and asks again: a holder that was
// stopped meanwhile.
Answer AskAgain(Client* client, const std::vector<KernelRequest>& requests, Answer answer) {
  for (size_t i = 0; i < answer.size(); ++i) {
    if (FailureReason(answer[i].status()) != Reason::kDeviceDestroyed) continue;
    answer[i] = client->Acquire(requests[i]);
  }
  return answer;
}

std::vector<KernelRequest> Kernels(size_t count) {
  std::string source;
  for (size_t i = 0; i < count; ++i) {
    absl::StrAppend(&source, "kernel k", i, "(buffer out, scalar u32 n) { out[i] = i }\n");
  }
  auto program = Program::FromSource("fake", source);
  std::vector<KernelRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    requests.push_back({.program = *program,
                        .entry = absl::StrCat("k", i),
                        .device = {.framework = "Fake", .index = 0}});
  }
  return requests;
}

}  // namespace

int RunHolder(const std::string& daemon_socket, const std::string& bare_socket, size_t sessions,
              size_t leases) {
  std::unique_ptr<BareStreams> streams;
  if (!bare_socket.empty()) streams = BareStreams::Open(bare_socket, sessions);
  std::vector<std::shared_ptr<Client>> clients;
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
  const std::vector<KernelRequest> requests = Kernels(leases);
  std::vector<Answer> held(sessions);
  TellParent("ready");
  while (HearParent()) {
    std::vector<std::promise<Answer>> answers(sessions);
    for (size_t i = 0; i < sessions; ++i) {
      clients[i]->AcquireBatchAsync(
          requests, [&answers, i](Answer kernels) { answers[i].set_value(std::move(kernels)); });
    }
    absl::Status failed;
    for (size_t i = 0; i < sessions; ++i) {
      held[i] = AskAgain(clients[i].get(), requests, answers[i].get_future().get());
      for (const auto& kernel : held[i]) failed.Update(kernel.status());
    }
    TellParent(failed.ok() ? "held" : failed.ToString());
  }
  _exit(0);
}

absl::StatusOr<std::unique_ptr<Holders>> Holders::Start(Where where, size_t processes,
                                                        size_t sessions_each,
                                                        size_t leases_each) {
  std::unique_ptr<Holders> holders(new Holders(std::move(where), sessions_each, leases_each));
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
                       std::to_string(sessions_each_), std::to_string(leases_each_)});
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
