#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "contract/device_name.h"
#include "tests/chaos/domains/player/player.h"

namespace kcache::domains {

void Say(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

std::string OneLine(const absl::Status& status) {
  std::string text = status.ToString();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

bool ToldToStop(int wait_ms) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, wait_ms) > 0;
}

std::optional<std::string> Hear() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

void GiveUp(const absl::Status& why) {
  Say("broken " + OneLine(why));
  std::_Exit(1);
}

DeviceId DeviceOf(const std::string& text) {
  auto name = DeviceName::Parse(text);
  if (!name.ok()) GiveUp(name.status());
  return {.framework = name->framework, .index = name->index};
}

namespace {

void Become(uid_t uid) {
  if (setgroups(0, nullptr) != 0 || setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) {
    GiveUp(absl::PermissionDeniedError(
        absl::StrCat("becoming uid ", uid, ": ", std::strerror(errno))));
  }
}

int Main(int argc, char** argv) {
  const pid_t parent = getppid();
  int next = 1;
  constexpr char kUid[] = "--uid=";
  if (next < argc && std::strncmp(argv[next], kUid, std::strlen(kUid)) == 0) {
    Become(static_cast<uid_t>(std::strtoul(argv[next++] + std::strlen(kUid), nullptr, 10)));
  }
  // Goes with the test; a change of user clears this.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return 1;
  if (argc < next + 2) return 2;
  const std::string part = argv[next], socket = argv[next + 1];
  const Words words(argv + next + 2, argv + argc);
  const struct {
    const char* part;
    size_t words;
    int (*play)(const std::string&, const Words&);
  } parts[] = {{"launch", 3, PlayLaunch}, {"acquire", 2, PlayAcquire}, {"busy", 1, PlayBusy},
               {"native", 1, PlayNative}, {"victim", 1, PlayVictim},   {"stranger", 2, PlayStranger}};
  for (const auto& one : parts) {
    if (part == one.part && words.size() == one.words) return one.play(socket, words);
  }
  std::fprintf(stderr, "kcache-domains-player: there is no part '%s' with %zu words\n", part.c_str(),
               words.size());
  return 2;
}

}  // namespace
}  // namespace kcache::domains

int main(int argc, char** argv) { return kcache::domains::Main(argc, argv); }
