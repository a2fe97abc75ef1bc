// The compile workers with real processes of the fake backend.

#include "daemon/workers/worker_pool.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "daemon/ops/event_log.h"
#include "process_fixture.h"

namespace kcache::workers {
namespace {

using core::CompileOutcome;
using testing::HasSubstr;
using End = CompileOutcome::End;

class WorkerPoolTest : public ProcessTest {
 protected:
  void SetUp() override {
    // As in the daemon, a server with callback services outlives every channel.
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    ProcessTest::SetUp();
    config_.compile_workers = 2;
    config_.backend_directories = {BinaryDirectory() + "/backends/fake"};
    config_.sandbox = "auto";
    config_.runtime_dir = directory_ / "run";
    config_.state_dir = directory_ / "state";
    std::filesystem::create_directories(directory_ / "run/work");
    std::filesystem::permissions(directory_.path(), std::filesystem::perms(0755));
    isolation_ = std::make_unique<Isolation>(&config_);
    ASSERT_TRUE(isolation_->ChooseSandbox(Launcher(), directory_ / "run/work").ok());
    programs_ = std::make_unique<BackendPrograms>(config_.backend_directories);
    ASSERT_NE(programs_->Find("Fake"), nullptr);
  }

  void MakePool() {
    pool_ = std::make_unique<WorkerPool>(WorkerParts{.config = &config_,
                                                     .clock = &clock_,
                                                     .executor = &executor_,
                                                     .events = &events_,
                                                     .supervisor = supervisor_.get(),
                                                     .programs = programs_.get(),
                                                     .isolation = isolation_.get(),
                                                     .work_directory = directory_ / "run/work"});
  }

  void TearDown() override {
    std::promise<void> stopped;
    executor_.Run([&] {
      if (pool_ != nullptr) pool_->Stop();
      stopped.set_value();
    });
    stopped.get_future().wait();
    ProcessTest::TearDown();
    pool_.reset();
    server_->Shutdown();
  }

  struct Job {
    std::shared_ptr<std::atomic<core::JobId>> id = std::make_shared<std::atomic<core::JobId>>(0);
    std::future<CompileOutcome> outcome;
  };

  Job Compile(const std::string& text, const std::string& family = "Fake") {
    auto request = std::make_shared<v1::CompileRequest>();
    request->set_framework(family);
    request->set_architecture("fake-1");
    request->mutable_manifest()->set_language("fake");
    request->set_source(text);
    request->set_max_output_bytes(1 << 20);
    request->set_max_log_bytes(1 << 20);
    auto promise = std::make_shared<std::promise<CompileOutcome>>();
    Job job;
    job.outcome = promise->get_future();
    executor_.Run([this, family, request, promise, id = job.id] {
      *id = pool_->Compile(family, request, [promise](CompileOutcome outcome) {
        promise->set_value(std::move(outcome));
      });
    });
    return job;
  }

  // A child of this process that is a compile worker; 0: none yet.
  static pid_t FindWorker() {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream children(thread.path() / "children");
      for (pid_t pid = 0; children >> pid;) {
        const std::string command = ReadText("/proc/" + std::to_string(pid) + "/cmdline");
        if (command.find("--role=compile") != std::string::npos) return pid;
      }
    }
    return 0;
  }

  static constexpr char kGood[] = "kernel one(buffer x) {\n  x[i] = 1\n}\n";

  grpc::CallbackGenericService service_;
  std::unique_ptr<grpc::Server> server_;
  ops::Config config_;
  ops::EventLog events_{64};
  std::unique_ptr<Isolation> isolation_;
  std::unique_ptr<BackendPrograms> programs_;
  std::unique_ptr<WorkerPool> pool_;
};

TEST_F(WorkerPoolTest, AGoodProgramIsAnArtifact) {
  MakePool();
  const CompileOutcome outcome = Compile(kGood).outcome.get();
  ASSERT_EQ(outcome.end, End::kReplied) << outcome.what;
  ASSERT_FALSE(outcome.reply.has_error()) << outcome.reply.error().message();
  ASSERT_EQ(outcome.reply.artifact().kernels_size(), 1);
  EXPECT_EQ(outcome.reply.artifact().kernels(0).entry(), "one");
}

TEST_F(WorkerPoolTest, TheCompilersOwnErrorIsAReply) {
  MakePool();
  const CompileOutcome outcome = Compile("kernel ( nonsense").outcome.get();
  ASSERT_EQ(outcome.end, End::kReplied) << outcome.what;
  EXPECT_EQ(outcome.reply.error().reason(), v1::COMPILE_FAILED);
}

TEST_F(WorkerPoolTest, G9ACrashFailsItsOwnJobAndSaysHow) {
  MakePool();
  Job crash = Compile(std::string("pragma Compile@* = segv\n") + kGood);
  Job good = Compile(kGood);
  const CompileOutcome outcome = crash.outcome.get();
  EXPECT_EQ(outcome.end, End::kCrashed);
  EXPECT_THAT(outcome.what, HasSubstr("SIGSEGV"));
  EXPECT_EQ(good.outcome.get().end, End::kReplied);
  EXPECT_EQ(Compile(kGood).outcome.get().end, End::kReplied);
}

TEST_F(WorkerPoolTest, G9AnAbortIsToldAsOne) {
  MakePool();
  const CompileOutcome outcome =
      Compile(std::string("pragma Compile@* = abort\n") + kGood).outcome.get();
  EXPECT_EQ(outcome.end, End::kCrashed);
  EXPECT_THAT(outcome.what, HasSubstr("SIGABRT"));
}

TEST_F(WorkerPoolTest, G9AHangEndsAtTheWallTime) {
  config_.compile_wall = absl::Milliseconds(300);
  MakePool();
  const CompileOutcome outcome =
      Compile(std::string("pragma Compile@* = hang\n") + kGood).outcome.get();
  EXPECT_EQ(outcome.end, End::kTimedOut);
  EXPECT_THAT(outcome.what, HasSubstr("compile.wall_time = 300ms"));
}

TEST_F(WorkerPoolTest, G9MemoryIsLimited) {
  config_.compile_memory = 200 << 20;
  MakePool();
  const CompileOutcome outcome =
      Compile(std::string("pragma Compile@* = memory 4000\n") + kGood).outcome.get();
  EXPECT_EQ(outcome.end, End::kOutOfMemory) << outcome.what;
}

// Its processes share their memory: counted for each, it would reach this limit long before the other.
TEST_F(WorkerPoolTest, G9AForkBombIsEndedForItsProcesses) {
  config_.compile_memory = 256 << 20;
  config_.processes_per_compile = 64;
  MakePool();
  const CompileOutcome outcome =
      Compile(std::string("pragma Compile@* = attempt fork\n") + kGood).outcome.get();
  EXPECT_EQ(outcome.end, End::kProcessLimit) << outcome.what;
  EXPECT_THAT(outcome.what, HasSubstr("more processes than the limit of 64"));
}

TEST_F(WorkerPoolTest, G9AForkBombFailsNoCompileBesideIt) {
  if (isolation_->compile_user() && !isolation_->counts_apart()) {
    GTEST_SKIP() << "the kernel counts the processes of all compiles here";
  }
  MakePool();
  Job bomb = Compile(std::string("pragma Compile@* = attempt fork\n") + kGood);
  int beside = 0;
  while (bomb.outcome.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const CompileOutcome outcome = Compile(kGood).outcome.get();
    EXPECT_EQ(outcome.end, End::kReplied) << outcome.what;
    ++beside;
  }
  EXPECT_GT(beside, 0);
  EXPECT_EQ(bomb.outcome.get().end, End::kProcessLimit);
}

TEST_F(WorkerPoolTest, S3AWorkerKilledFromOutsideIsNotHeldAgainstTheProgram) {
  MakePool();
  Job job = Compile(std::string("pragma Compile@* = hang\n") + kGood);
  pid_t worker = 0;
  while ((worker = FindWorker()) == 0) std::this_thread::yield();
  ASSERT_EQ(kill(worker, SIGKILL), 0);
  const CompileOutcome outcome = job.outcome.get();
  EXPECT_EQ(outcome.end, End::kNotCounted) << outcome.what;
  EXPECT_THAT(outcome.what, HasSubstr("SIGKILL"));
}

TEST_F(WorkerPoolTest, AFamilyWithoutAProgramIsUnavailable) {
  MakePool();
  const CompileOutcome outcome = Compile(kGood, "Nothing").outcome.get();
  EXPECT_EQ(outcome.end, End::kUnavailable);
  EXPECT_THAT(outcome.what, HasSubstr("Nothing"));
}

TEST_F(WorkerPoolTest, ACancelledJobIsNeverAnsweredAndItsSlotIsFree) {
  MakePool();
  Job job = Compile(std::string("pragma Compile@* = hang\n") + kGood);
  std::promise<void> cancelled;
  executor_.Post([&] {
    pool_->Cancel(*job.id);
    cancelled.set_value();
  });
  cancelled.get_future().wait();
  const CompileOutcome next = Compile(kGood).outcome.get();
  EXPECT_EQ(next.end, End::kReplied) << next.what;
  EXPECT_THROW(job.outcome.get(), std::future_error);  // its promise went unanswered
}

// A worker has its driver's libraries loaded as they were when it started.
TEST_F(WorkerPoolTest, RenewEndsIdleWorkersAndLetsBusyOnesFinish) {
  config_.jobs_per_worker = 100;
  MakePool();
  ASSERT_EQ(Compile(kGood).outcome.get().end, End::kReplied);
  const pid_t idle = FindWorker();
  ASSERT_NE(idle, 0);
  Job first = Compile(std::string("pragma Compile@* = sleep 100\n") + kGood);
  Job second = Compile(std::string("pragma Compile@* = sleep 100\n") + kGood);
  executor_.Post([this] { pool_->Renew(); });
  EXPECT_EQ(first.outcome.get().end, End::kReplied);
  EXPECT_EQ(second.outcome.get().end, End::kReplied);
  // Both were busy and have ended after their jobs; who compiles now is new.
  while (std::filesystem::exists("/proc/" + std::to_string(idle))) std::this_thread::yield();
  ASSERT_EQ(Compile(kGood).outcome.get().end, End::kReplied);
  const pid_t last = FindWorker();
  ASSERT_NE(last, 0);
  executor_.Post([this] { pool_->Renew(); });
  while (std::filesystem::exists("/proc/" + std::to_string(last))) std::this_thread::yield();
  EXPECT_EQ(Compile(kGood).outcome.get().end, End::kReplied);
}

TEST_F(WorkerPoolTest, PrivateDirectoriesAreRemoved) {
  MakePool();
  EXPECT_EQ(Compile(std::string("pragma Compile@* = segv\n") + kGood).outcome.get().end,
            End::kCrashed);
  std::promise<void> removed;
  // Removed on the supervisor's own threads, behind what the exit queued there.
  while (!std::filesystem::is_empty(directory_ / "run/work")) std::this_thread::yield();
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "run/work"));
}

}  // namespace
}  // namespace kcache::workers
