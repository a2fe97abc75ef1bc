// The admin socket, blocking: one call after the other.
//
// Threads: one. Failures are typed: DAEMON_UNREACHABLE names the socket and why.

#ifndef KCACHE_CLIENT_CTL_ADMIN_CLIENT_H_
#define KCACHE_CLIENT_CTL_ADMIN_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/v1/admin.grpc.pb.h"

namespace kcache::ctl {

class AdminClient {
 public:
  // Empty: $KCACHE_ADMIN_SOCKET, else beside the private daemon's socket under $XDG_RUNTIME_DIR if
  // that exists, else /run/kcached/admin.sock. `timeout_ms` is for calls that answer at once.
  AdminClient(std::string socket, int timeout_ms);

  const std::string& socket() const { return socket_; }
  v1::Admin::Stub* operator->() { return stub_.get(); }

  // A call that answers at once.
  template <class Request, class Reply>
  absl::StatusOr<Reply> Call(grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*,
                                                                     const Request&, Reply*),
                             const Request& request) {
    grpc::ClientContext context;
    SetDeadline(&context);
    Reply reply;
    if (absl::Status failed = Failure(((*stub_).*method)(&context, request, &reply));
        !failed.ok()) {
      return failed;
    }
    return reply;
  }

  // A call that answers until it is over; `each` may stop it by answering false.
  template <class Request, class Reply>
  absl::Status Stream(std::unique_ptr<grpc::ClientReader<Reply>> (v1::Admin::Stub::*method)(
                          grpc::ClientContext*, const Request&),
                      const Request& request, const std::function<bool(const Reply&)>& each) {
    grpc::ClientContext context;
    auto reader = ((*stub_).*method)(&context, request);
    Reply reply;
    while (reader->Read(&reply)) {
      if (!each(reply)) {
        context.TryCancel();
        reader->Finish();
        return absl::OkStatus();
      }
    }
    return Failure(reader->Finish());
  }

 private:
  void SetDeadline(grpc::ClientContext* context) const;
  absl::Status Failure(const grpc::Status& status) const;

  const std::string socket_;
  const int timeout_ms_;
  std::unique_ptr<v1::Admin::Stub> stub_;
};

}  // namespace kcache::ctl

#endif  // KCACHE_CLIENT_CTL_ADMIN_CLIENT_H_
