#include "daemon/ops/event_log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/systemd_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"

namespace kcache::ops {
namespace {

constexpr size_t kLoggerQueue = 8192;

spdlog::level::level_enum LevelOf(std::string_view kind) {
  if (kind == "bug" || kind == "stuck") return spdlog::level::err;
  if (kind.ends_with("-lost") || kind.ends_with("-died") || kind.ends_with("-failed") ||
      kind.ends_with("-unavailable") || kind.ends_with("-on-hold") || kind == "refused-by-host" ||
      kind.starts_with("foreign-") || kind == "daemon-stalled" || kind == "state-quarantined" ||
      kind == "sandbox-weak") {
    return spdlog::level::warn;
  }
  if (kind.starts_with("session-") || kind == "compile-done") return spdlog::level::debug;
  return spdlog::level::info;
}

// One line whatever a message contains: a compiler's log has many.
std::string OneLine(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      line += c;
    }
  }
  return line;
}

}  // namespace

void EventLog::Emit(std::string_view kind, std::string message, core::EventFields fields) {
  v1::Event event;
  event.set_kind(std::string(kind));
  event.set_message(ToValidUtf8(message));
  event.set_unix_ms(static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                              std::chrono::system_clock::now().time_since_epoch())
                                              .count()));
  std::string line = absl::StrCat(AbslView(kind), ": ", OneLine(event.message()));
  for (const auto& [key, value] : fields) {
    absl::StrAppend(&line, " ", key, "=", OneLine(value));
    (*event.mutable_fields())[key] = ToValidUtf8(value);
  }
  spdlog::log(LevelOf(kind), "{}", line);

  std::vector<std::shared_ptr<std::function<void()>>> followers;
  {
    MutexLock lock(&mutex_);
    event.set_number(next_++);
    ++counts_[event.kind()];
    ring_.push_back(std::move(event));
    if (ring_.size() > history_) ring_.pop_front();
    followers.reserve(followers_.size());
    for (const auto& [id, follower] : followers_) followers.push_back(follower);
  }
  for (const auto& follower : followers) (*follower)();
}

void EventLog::Audit(std::string_view who, std::string_view what, std::string_view result) {
  Emit("audit", absl::StrCat(AbslView(who), ": ", AbslView(what), ": ", AbslView(result)),
       {{"who", std::string(who)}, {"what", std::string(what)}, {"result", std::string(result)}});
}

std::vector<v1::Event> EventLog::Read(uint64_t since, size_t limit) const {
  MutexLock lock(&mutex_);
  std::vector<v1::Event> events;
  // Numbers in the ring are consecutive.
  size_t first = 0;
  if (!ring_.empty() && since >= ring_.front().number()) {
    first = static_cast<size_t>(since - ring_.front().number()) + 1;
  }
  for (size_t i = first; i < ring_.size() && events.size() < limit; ++i) events.push_back(ring_[i]);
  return events;
}

uint64_t EventLog::Follow(std::function<void()> wake) {
  MutexLock lock(&mutex_);
  const uint64_t id = next_follower_++;
  followers_.emplace(id, std::make_shared<std::function<void()>>(std::move(wake)));
  return id;
}

void EventLog::Unfollow(uint64_t follower) {
  std::shared_ptr<std::function<void()>> dropped;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const auto found = followers_.find(follower);
  if (found == followers_.end()) return;
  dropped = std::move(found->second);
  followers_.erase(found);
}

uint64_t EventLog::emitted() const {
  MutexLock lock(&mutex_);
  return next_ - 1;
}

std::map<std::string, uint64_t> EventLog::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

void StartLogging(const std::string& level) {
  spdlog::init_thread_pool(kLoggerQueue, 1);
  std::shared_ptr<spdlog::logger> logger;
  if (std::getenv("JOURNAL_STREAM") != nullptr) {
    logger = spdlog::create_async_nb<spdlog::sinks::systemd_sink_mt>("kcached");
    logger->set_pattern("%v");
  } else {
    logger = spdlog::create_async_nb<spdlog::sinks::stderr_sink_mt>("kcached");
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  }
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void StopLogging() { spdlog::shutdown(); }

}  // namespace kcache::ops
