#include "tests/chaos/lawless_stream.h"

#include <poll.h>

#include <algorithm>

#include "tests/chaos/kernels.h"

namespace kcache::chaos {
namespace {

constexpr uint64_t kBuffer = 1;
constexpr int kPauseMs = 15;
constexpr size_t kMostLeases = 24;  // the newest, at a time

std::string Scalar(uint32_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

LawlessStream::LawlessStream(const std::string& instance, uint64_t session,
                             const v1::ContextInfo& context)
    : stub_(v1::Execution::NewStub(grpc::CreateChannel(context.execution_target(),
                                                       grpc::InsecureChannelCredentials()))),
      stream_(stub_->Attach(&context_)) {
  v1::ExecutionRequest request;
  v1::AttachSession* attach = request.add_commands()->mutable_attach();
  attach->set_instance(instance);
  attach->set_session_id(session);
  *attach->mutable_context() = context.context();
  attach->set_token(context.execution_token());
  v1::CreateBuffer* create = request.add_commands()->mutable_create_buffer();
  create->set_buffer(kBuffer);
  create->set_bytes(kElements * sizeof(uint32_t));
  if (!stream_->Write(request)) return;
  reading_ = std::thread([this] {
    v1::ExecutionReply reply;
    while (stream_->Read(&reply)) {
    }
  });
  launching_ = std::thread([this] { Launch(); });
}

LawlessStream::~LawlessStream() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  context_.TryCancel();
  if (launching_.joinable()) launching_.join();
  if (reading_.joinable()) reading_.join();
}

void LawlessStream::Use(const v1::LeaseRef& lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  leases_.push_back(lease);
}

void LawlessStream::Launch() {
  size_t bound = 0;
  while (true) {
    v1::ExecutionRequest request;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
      for (; bound < leases_.size(); ++bound) {
        *request.add_commands()->mutable_bind()->mutable_lease() = leases_[bound];
      }
      const size_t first = leases_.size() - std::min(leases_.size(), kMostLeases);
      for (size_t i = first; i < leases_.size(); ++i) {
        const v1::LeaseRef& lease = leases_[i];
        v1::Launch* launch = request.add_commands()->mutable_launch();
        launch->set_slot(lease.slot());
        launch->set_incarnation(lease.incarnation());
        launch->mutable_global()->set_x(kElements);
        launch->mutable_local()->set_x(kElements);
        launch->add_arguments()->set_buffer(kBuffer);
        launch->add_arguments()->set_scalar(Scalar(kElements));
        launch->add_arguments()->set_scalar(Scalar(1));
      }
    }
    if (request.commands_size() > 0 && !stream_->Write(request)) return;
    poll(nullptr, 0, kPauseMs);
  }
}

}  // namespace kcache::chaos
