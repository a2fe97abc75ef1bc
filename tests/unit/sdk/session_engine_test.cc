// A session at its host: bounds of memory, and what sdk_execution_fuzzer has found, each by the name of what
// went wrong.

#include "backends/sdk/session_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
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
  static constexpr uint64_t kMostDeviceBytes = 1000;

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
    open.mutable_limits()->set_max_device_bytes(kMostDeviceBytes);
    EXPECT_FALSE(host_.OpenContext(open).has_error());
    open_ = open;
    session_ = Attach(kSession, sink_);
  }

  std::shared_ptr<SessionEngine> Attach(uint64_t id, std::shared_ptr<RecordingSink> sink) {
    auto authority = TokenAuthority::Create(open_.token_key(), open_.instance());
    v1::AttachSession attach;
    attach.set_session_id(id);
    *attach.mutable_context() = open_.context();
    attach.set_token(
        authority->SignSession({.context_id = 7, .generation = 1, .session_id = id}).str());
    auto session = host_.Attach(attach, ExecutionPeer{}, std::move(sink));
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *session : nullptr;
  }
  // OK, or what the session was told.
  static absl::Status Do(SessionEngine* session, RecordingSink* sink, v1::Command command) {
    auto request = std::make_shared<v1::ExecutionRequest>();
    *request->add_commands() = std::move(command);
    const size_t before = sink->replies().size();
    session->Handle(request);
    for (size_t i = before; i < sink->replies().size(); ++i) {
      const v1::Reply reply = sink->replies()[i];
      if (reply.has_done() && reply.done().has_error()) return FromProto(reply.done().error());
    }
    return absl::OkStatus();
  }
  static v1::Command NewBuffer(uint64_t id, uint64_t bytes) {
    v1::Command command;
    command.mutable_create_buffer()->set_buffer(id);
    command.mutable_create_buffer()->set_bytes(bytes);
    command.mutable_create_buffer()->set_request_id(id);
    return command;
  }
  static v1::Command NewScratch(uint64_t id, const std::string& tag, uint64_t bytes) {
    v1::Command command;
    command.mutable_scratch()->set_buffer(id);
    command.mutable_scratch()->set_tag(tag);
    command.mutable_scratch()->set_bytes(bytes);
    command.mutable_scratch()->set_request_id(id);
    return command;
  }

  v1::OpenContextRequest open_;
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

std::string LimitOf(const absl::Status& status) {
  if (ReasonOf(status) != v1::LIMIT_EXCEEDED) return status.ToString();
  return DetailsOf(status)["limit"] + " = " + DetailsOf(status)["value"];
}

TEST_F(SessionEngineTest, G11AllSessionsOfADomainShareItsDeviceMemory) {
  auto sink = std::make_shared<RecordingSink>();
  const auto other = Attach(kSession + 1, sink);
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(Do(session_.get(), sink_.get(), NewBuffer(1, 600)).ok());
  EXPECT_EQ(LimitOf(Do(other.get(), sink.get(), NewBuffer(1, 401))),
            "max_device_bytes_per_domain = 1000");
  EXPECT_TRUE(Do(other.get(), sink.get(), NewBuffer(1, 400)).ok());
  EXPECT_EQ(host_.Usage().device_bytes(), 1000u);
  v1::Command release;
  release.mutable_release_buffer()->set_buffer(1);
  EXPECT_TRUE(Do(session_.get(), sink_.get(), std::move(release)).ok());
  EXPECT_TRUE(Do(other.get(), sink.get(), NewBuffer(2, 600)).ok());
}

TEST_F(SessionEngineTest, G11ScratchIsDeviceMemoryToo) {
  EXPECT_TRUE(Do(session_.get(), sink_.get(), NewScratch(1, "a", 700)).ok());
  EXPECT_EQ(LimitOf(Do(session_.get(), sink_.get(), NewScratch(2, "b", 301))),
            "max_device_bytes_per_domain = 1000");
  EXPECT_TRUE(Do(session_.get(), sink_.get(), NewScratch(3, "a", 700)).ok()) << "the same block";
  EXPECT_TRUE(Do(session_.get(), sink_.get(), NewBuffer(4, 300)).ok());
}

TEST_F(SessionEngineTest, G11AnAllocationThatFailsTakesNothingOfTheBound) {
  ASSERT_TRUE(script_->Add("Allocate@1 = fail OUT_OF_DEVICE_MEMORY").ok());
  EXPECT_EQ(ReasonOf(Do(session_.get(), sink_.get(), NewBuffer(1, 1000))),
            v1::OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(host_.Usage().device_bytes(), 0u);
  EXPECT_TRUE(Do(session_.get(), sink_.get(), NewBuffer(1, 1000)).ok());
}

TEST_F(SessionEngineTest, G11TheBoundHoldsHoweverManyAskAtOnce) {
  constexpr int kSessions = 8;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<std::shared_ptr<SessionEngine>> sessions;
  for (int i = 0; i < kSessions; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    sessions.push_back(Attach(100 + static_cast<uint64_t>(i), sinks.back()));
  }
  std::vector<std::thread> threads;
  std::atomic<int> granted{0};
  for (size_t i = 0; i < kSessions; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t buffer = 1; buffer <= 4; ++buffer) {
        granted += Do(sessions[i].get(), sinks[i].get(), NewBuffer(buffer, 100)).ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 10);
  EXPECT_EQ(host_.Usage().device_bytes(), kMostDeviceBytes);
}

}  // namespace
}  // namespace kcache::backend
