// What sdk_execution_fuzzer has found, each by the name of what went wrong.

#include "backends/sdk/session_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/fake/family.h"
#include "contract/error_reason.h"
#include "contract/lease_token.h"

namespace kcache::backend {
namespace {

class RecordingSink : public ReplySink {
 public:
  void Send(v1::Reply reply) override {
    MutexLock lock(&mutex_);
    replies_.push_back(std::move(reply));
  }
  void Close(const absl::Status&) override {}
  std::vector<v1::Reply> replies() {
    MutexLock lock(&mutex_);
    return replies_;
  }

 private:
  Mutex mutex_;
  std::vector<v1::Reply> replies_ ABSL_GUARDED_BY(mutex_);
};

class SessionEngineTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSession = 11;
  static constexpr uint32_t kQueues = 2;

  SessionEngineTest() {
    v1::OpenContextRequest open;
    open.mutable_context()->set_context_id(7);
    open.mutable_context()->mutable_device()->set_framework("Fake");
    open.mutable_context()->set_generation(1);
    open.set_instance(std::string(kInstanceBytes, 'i'));
    open.set_token_key(std::string(kTokenKeyBytes, 'k'));
    open.mutable_limits()->set_max_queues_per_session(kQueues);
    open.mutable_limits()->set_max_commands_in_flight(64);
    open.mutable_limits()->set_max_buffers_per_session(4);
    EXPECT_FALSE(host_.OpenContext(open).has_error());
    auto authority = TokenAuthority::Create(open.token_key(), open.instance());
    v1::AttachSession attach;
    attach.set_session_id(kSession);
    *attach.mutable_context() = open.context();
    attach.set_token(
        authority->SignSession({.context_id = 7, .generation = 1, .session_id = kSession}).str());
    auto session = host_.Attach(attach, ExecutionPeer{}, sink_);
    EXPECT_TRUE(session.ok()) << session.status();
    if (session.ok()) session_ = *session;
  }

  std::shared_ptr<fake::Script> script_ = std::make_shared<fake::Script>();
  fake::FakeFamily family_{script_};
  Host host_{&family_, nullptr, [](const absl::Status&) {}};
  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  std::shared_ptr<SessionEngine> session_;
};

TEST_F(SessionEngineTest, AReadOfAQueueThatCannotBeIsAnswered) {
  auto request = std::make_shared<v1::ExecutionRequest>();
  v1::Command* command = request->add_commands();
  command->set_queue(kQueues);
  command->mutable_read()->set_request_id(5);
  command->mutable_read()->set_buffer(1);
  command->mutable_read()->set_bytes(4);
  session_->Handle(request);
  int answers = 0;
  for (const v1::Reply& reply : sink_->replies()) {
    if (!reply.has_read_data()) continue;
    ++answers;
    EXPECT_EQ(reply.read_data().request_id(), 5u);
    EXPECT_TRUE(reply.read_data().last());
    EXPECT_TRUE(reply.read_data().has_error());
  }
  EXPECT_EQ(answers, 1) << "who waits for the bytes would wait for ever";
}

}  // namespace
}  // namespace kcache::backend
