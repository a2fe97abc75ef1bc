#include "backends/fake/script.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "backends/fake/attempt.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::fake {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

bool ToNumber(std::string_view text, uint64_t* number) {
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && at == text.data() + text.size() && !text.empty();
}

absl::Status NotUnderstood(std::string_view setting) {
  return MakeError(v1::BAD_REQUEST, "fake script: not understood: " + Quoted(setting));
}

[[noreturn]] void Hang() {
  for (;;) pause();
}

// Pages are written, so that they count. Kept on purpose. Where there is no more, the process ends with
// std::bad_alloc, as compilers do.
void TakeMemory(uint64_t megabytes) noexcept {
  for (uint64_t i = 0; i < megabytes; ++i) {
    constexpr size_t kMegabyte = size_t{1} << 20;
    void* block = ::operator new(kMegabyte);
    std::memset(block, 1, kMegabyte);
    asm volatile("" : : "r"(block) : "memory");
  }
}

}  // namespace

absl::Status Script::Add(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(";\n"), text.size());
    const std::string_view setting = Trim(text.substr(0, end));
    if (!setting.empty()) {
      if (absl::Status bad = AddSetting(setting); !bad.ok()) return bad;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return absl::OkStatus();
}

absl::Status Script::AddPragmas(std::string_view program) {
  constexpr std::string_view kPragma = "pragma ";
  while (!program.empty()) {
    const size_t end = std::min(program.find('\n'), program.size());
    const std::string_view line = Trim(program.substr(0, end));
    if (line.starts_with(kPragma)) {
      if (absl::Status bad = AddSetting(Trim(line.substr(kPragma.size()))); !bad.ok()) return bad;
    }
    program.remove_prefix(std::min(end + 1, program.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Script>> Script::FromEnvironment() {
  auto script = std::make_shared<Script>();
  for (const char* name : {"KCACHE_BACKEND_FAKE_SCRIPT", "KCACHE_FAKE_SCRIPT"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    if (absl::Status bad = script->Add(text); !bad.ok()) return bad;
  }
  return script;
}

absl::Status Script::AddSetting(std::string_view setting) {
  const size_t equals = setting.find('=');
  if (equals == setting.npos) return NotUnderstood(setting);
  const std::string_view left = Trim(setting.substr(0, equals));
  const std::string_view right = Trim(setting.substr(equals + 1));
  uint64_t number = 0;
  if (left == "unavailable" || left == "node") {
    (left == "node" ? node_ : unavailable_) = std::string(right);
    return absl::OkStatus();
  }
  if (left == "devices" || left == "memory") {
    if (!ToNumber(right, &number)) return NotUnderstood(setting);
    if (left == "memory") memory_ = number;
    if (left == "devices") devices_ = static_cast<uint32_t>(number);
    return absl::OkStatus();
  }
  if (absl::Status bad = AddRule(left, right); !bad.ok()) return NotUnderstood(setting);
  return absl::OkStatus();
}

absl::Status Script::AddRule(std::string_view left, std::string_view right) {
  Rule rule;
  const size_t at = left.rfind('@');
  if (at == left.npos) return NotUnderstood(left);
  std::string_view when = left.substr(at + 1);
  std::string_view what = left.substr(0, at);
  if (const size_t open = what.find('['); open != what.npos && what.ends_with("]")) {
    rule.subject = std::string(what.substr(open + 1, what.size() - open - 2));
    what = what.substr(0, open);
  }
  rule.function = std::string(what);
  if (when != "*") {
    rule.only_first = !when.ends_with("+");
    if (!rule.only_first) when.remove_suffix(1);
    if (!ToNumber(when, &rule.first) || rule.first == 0) return NotUnderstood(left);
  }
  const size_t space = right.find(' ');
  rule.verb = std::string(right.substr(0, space));
  if (space != right.npos) rule.operand = std::string(Trim(right.substr(space + 1)));

  uint64_t number = 0;
  v1::ErrorReason reason;
  const bool is_number = ToNumber(rule.operand, &number);
  const bool is_reason = v1::ErrorReason_Parse(rule.operand, &reason);
  const bool known =
      ((rule.verb == "fail" || rule.verb == "late") && is_reason) ||
      ((rule.verb == "sleep" || rule.verb == "exit" || rule.verb == "memory" ||
        rule.verb == "log" || rule.verb == "jit") &&
       is_number) ||
      ((rule.verb == "hang" || rule.verb == "abort" || rule.verb == "segv" ||
        rule.verb == "fault") &&
       rule.operand.empty()) ||
      (rule.verb == "attempt" && IsAttempt(rule.operand));
  if (!known) return NotUnderstood(right);
  MutexLock lock(&mutex_);
  rules_.push_back(std::move(rule));
  return absl::OkStatus();
}

Action Script::Call(std::string_view function, std::string_view subject) {
  std::string verb, operand;
  uint64_t call = 0;
  {
    MutexLock lock(&mutex_);
    for (Rule& rule : rules_) {
      if (rule.function != function) continue;
      if (!rule.subject.empty() && rule.subject != subject) continue;
      ++rule.calls;
      const bool applies = rule.only_first ? rule.calls == rule.first : rule.calls >= rule.first;
      if (!applies || !verb.empty()) continue;
      verb = rule.verb;
      operand = rule.operand;
      call = rule.calls;
    }
  }
  Action action;
  if (verb.empty()) return action;
  uint64_t number = 0;
  ToNumber(operand, &number);
  if (verb == "hang") Hang();
  if (verb == "abort") std::abort();
  if (verb == "segv") raise(SIGSEGV);
  if (verb == "exit") _exit(static_cast<int>(number));
  if (verb == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(number));
  if (verb == "memory") TakeMemory(number);
  if (verb == "attempt") {
    action.status = Attempt(operand);
    if (!action.status.ok()) action.kind = Action::Kind::kFail;
    return action;
  }
  action.number = number;
  if (verb == "log") action.kind = Action::Kind::kLog;
  if (verb == "jit") action.kind = Action::Kind::kJit;
  if (verb == "fail" || verb == "late" || verb == "fault") {
    v1::ErrorReason reason = v1::KERNEL_FAULT;
    if (verb != "fault") v1::ErrorReason_Parse(operand, &reason);
    action.kind = verb == "fail" ? Action::Kind::kFail : Action::Kind::kLate;
    action.status = MakeError(reason, "the script says so: call " + std::to_string(call) + " of " +
                                          std::string(function) +
                                          (subject.empty() ? "" : " for " + std::string(subject)));
  }
  return action;
}

}  // namespace kcache::backend::fake
