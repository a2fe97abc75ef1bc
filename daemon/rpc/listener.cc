#include "daemon/rpc/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"
#include "daemon/ops/system_error.h"

namespace kcache::rpc {
namespace {

// Between two looks at what else the loop has to do.
constexpr int kAcceptsARound = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(int listening, std::string path,
                                                           ops::EpollLoop* loop,
                                                           ConnectionTable* table,
                                                           core::EventSink* events, Adopt adopt) {
  std::unique_ptr<Listener> listener(
      new Listener(listening, std::move(path), loop, table, events, std::move(adopt)));
  auto watch =
      loop->Add(listening, EPOLLIN, [self = listener.get()](uint32_t) { self->OnReadable(); });
  if (!watch.ok()) return watch.status();
  listener->watch_ = *watch;
  return listener;
}

Listener::Listener(int listening, std::string path, ops::EpollLoop* loop, ConnectionTable* table,
                   core::EventSink* events, Adopt adopt)
    : listening_(listening),
      path_(std::move(path)),
      loop_(loop),
      table_(table),
      events_(events),
      adopt_(std::move(adopt)),
      reserve_(open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

Listener::~Listener() { Stop(); }

void Listener::Stop() { loop_->Remove(std::exchange(watch_, 0)); }

void Listener::OnReadable() {
  for (int i = 0; i < kAcceptsARound; ++i) {
    ops::UniqueFd socket(accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE) OnOutOfDescriptors();
      return;
    }
    const auto number = table_->Add(std::move(socket));
    if (number.ok()) {
      adopt_(*number);
    } else {
      Refused(number.status());
    }
  }
}

// A connection that cannot be accepted would keep the socket readable, and this thread busy.
void Listener::OnOutOfDescriptors() {
  const absl::Status why = ops::SystemError(errno, "accepting a connection");
  reserve_.Reset();
  ops::UniqueFd(accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC));
  reserve_.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Refused(why);
}

void Listener::Refused(const absl::Status& why) {
  ++refused_;
  // 1, 2, 4, 8, …: a flood of connections must not become a flood of events.
  if (!std::has_single_bit(refused_)) return;
  events_->Emit("connection-refused",
                absl::StrCat(path_, ": ", why.message(), " (", refused_, " so far)"),
                {{"socket", path_}});
}

}  // namespace kcache::rpc
