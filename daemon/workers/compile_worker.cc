#include "daemon/workers/compile_worker.h"

#include <grpcpp/grpcpp.h>

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"
#include "daemon/workers/channel.h"
#include "daemon/workers/private_directory.h"

namespace kcache::workers {
namespace {

using core::CompileOutcome;
using Ending = core::CompileOutcome::End;

// The channel carries the artifact, the log and reflection.
constexpr uint64_t kReplySlack = 4 << 20;
// A call that failed because the process is dying: its exit says more than gRPC does.
constexpr absl::Duration kExitFollows = absl::Seconds(2);
constexpr int kControlFd = 3;

// How compilers say that memory is used up, when their allocation failed instead of being killed.
bool SoundsOutOfMemory(const std::string& last_words) {
  for (const char* words : {"std::bad_alloc", "out of memory", "Out of memory",
                            "Cannot allocate memory", "cannot allocate memory"}) {
    if (last_words.find(words) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

struct CompileWorker::Call {
  grpc::ClientContext context;
  v1::CompileReply reply;
  grpc::Status status;
  std::shared_ptr<const v1::CompileRequest> request;
};

CompileWorker::~CompileWorker() {
  if (child_ != nullptr) child_->Kill("kcached lets go of it");
}

void CompileWorker::Start(const BackendProgram& program) {
  idle_since_ = parts_->clock->Now();
  parts_->supervisor->RunDetached([self = shared_from_this(), program] { self->Launch(program); });
}

// On the spawner's thread: it touches nothing of this object but through the executor.
void CompileWorker::Launch(const BackendProgram& program) {
  const WorkerParts* parts = parts_;
  const auto fail = [&](const absl::Status& why) {
    parts->executor->Run([self = shared_from_this(), why] { self->OnStarted(why); });
  };
  auto socket = MakeControlSocket();
  if (!socket.ok()) return fail(socket.status());
  auto directory = MakePrivateDirectory(parts->work_directory, "compile-" + program.name,
                                        parts->isolation->compile_user());
  if (!directory.ok()) return fail(directory.status());
  LaunchSpec spec;
  spec.label = "compile worker of " + family_;
  spec.arguments = {"--role=compile", absl::StrCat("--control-fd=", kControlFd)};
  spec.descriptors.emplace_back(kControlFd, std::move(socket->theirs));
  parts->isolation->ForCompile(program, *directory, &spec);
  auto ours = std::make_shared<ops::UniqueFd>(std::move(socket->ours));
  parts->supervisor->Start(
      std::move(spec),
      [self = shared_from_this(), ours, path = *directory](absl::StatusOr<ChildPtr> child) {
        self->directory_ = path;
        self->socket_ = std::move(*ours);
        self->OnStarted(std::move(child));
      },
      [self = shared_from_this()](const ExitStatus& status) { self->OnExited(status); });
}

void CompileWorker::OnStarted(absl::StatusOr<ChildPtr> child) {
  if (!child.ok()) {
    CompileOutcome outcome;
    outcome.end = Ending::kUnavailable;
    outcome.what = absl::StrCat("its worker could not be started: ", child.status().message());
    End(std::move(outcome));
    return;
  }
  child_ = *std::move(child);
  if (state_ == State::kEnded) {  // abandoned meanwhile
    child_->Kill("no longer wanted");
    return;
  }
  const core::Limits& limits = parts_->config->core.limits;
  stub_ = v1::Compile::NewStub(MakeChannel(
      std::move(socket_), limits.max_artifact_bytes + limits.max_log_bytes + kReplySlack));
  state_ = State::kIdle;
  if (has_job()) {
    Begin();
  } else {
    owner_->OnIdle(this);
  }
}

void CompileWorker::Run(core::JobId job, std::shared_ptr<const v1::CompileRequest> request,
                        core::Function<void(CompileOutcome)> done) {
  job_ = job;
  request_ = std::move(request);
  done_ = std::move(done);
  if (state_ == State::kIdle) Begin();
}

void CompileWorker::Begin() {
  state_ = State::kBusy;
  timed_out_ = false;
  begun_ = parts_->clock->Now();
  auto self = shared_from_this();
  wall_timer_ = parts_->executor->RunAfter(parts_->config->compile_wall, [self] {
    self->timed_out_ = true;
    self->child_->Kill("the compile took too long");
  });
  auto call = std::make_shared<Call>();
  call->request = request_;
  call_ = call;
  stub_->async()->Run(&call->context, call->request.get(), &call->reply,
                      [self, call, job = job_](grpc::Status status) {
                        call->status = std::move(status);
                        self->parts_->executor->Run(
                            [self, call, job] { self->OnReply(job, call); });
                      });
}

void CompileWorker::OnReply(core::JobId job, const std::shared_ptr<Call>& call) {
  if (state_ != State::kBusy || job != job_) return;  // ended, and answered by its exit
  call_.reset();
  CompileOutcome outcome;
  if (call->status.ok()) {
    outcome.end = Ending::kReplied;
    outcome.reply = std::move(call->reply);
    parts_->executor->Cancel(wall_timer_);
    ++jobs_done_;
    idle_since_ = parts_->clock->Now();
    auto self = shared_from_this();
    // Idle first: the answer makes the core look for a free worker.
    state_ = State::kIdle;
    Answer(std::move(outcome));
    if (state_ == State::kIdle && !has_job()) owner_->OnIdle(this);
    return;
  }
  if (call->status.error_code() == grpc::StatusCode::UNAVAILABLE ||
      call->status.error_code() == grpc::StatusCode::CANCELLED) {
    auto self = shared_from_this();
    parts_->executor->RunAfter(kExitFollows, [self, job] {
      if (self->state_ == State::kBusy && self->job_ == job) {
        self->child_->Kill("it closed its control socket");
      }
    });
    return;
  }
  if (call->status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    outcome.end = Ending::kOutputLimit;
    outcome.what = absl::StrCat("its output is larger than limits.max_artifact_bytes = ",
                                parts_->config->core.limits.max_artifact_bytes, Took());
  } else {
    outcome.end = Ending::kCrashed;
    outcome.what = absl::StrCat("its worker answered \"", call->status.error_message(), "\"",
                                Took());
  }
  End(std::move(outcome));
}

void CompileWorker::Answer(CompileOutcome outcome) {
  if (job_ == 0) return;
  job_ = 0;
  request_.reset();
  core::Function<void(CompileOutcome)> done = std::move(done_);
  done(std::move(outcome));
}

std::string CompileWorker::Took() const {
  if (state_ != State::kBusy) return "";
  return absl::StrCat(" after ", absl::FormatDuration(absl::Trunc(
                                     parts_->clock->Now() - begun_, absl::Milliseconds(1))));
}

CompileOutcome CompileWorker::OutcomeOfExit(const ExitStatus& status) const {
  CompileOutcome outcome;
  const std::string last = LastWords(status.last_words);
  if (timed_out_) {
    outcome.end = Ending::kTimedOut;
    outcome.what = absl::StrCat("took longer than compile.wall_time = ",
                                absl::FormatDuration(parts_->config->compile_wall), last);
  } else if (status.ended_for == ExitStatus::EndedFor::kMemory) {
    outcome.end = Ending::kOutOfMemory;
    outcome.what = absl::StrCat(status.why, Took(), last);
  } else if (status.ended_for == ExitStatus::EndedFor::kOutput) {
    outcome.end = Ending::kOutputLimit;
    outcome.what = absl::StrCat(status.why, Took());
  } else if (status.ended_for == ExitStatus::EndedFor::kProcesses) {
    outcome.end = Ending::kProcessLimit;
    outcome.what = absl::StrCat(status.why, Took());
  } else if (status.signal == SIGXCPU) {
    outcome.end = Ending::kTimedOut;
    outcome.what = absl::StrCat("used more processor time than compile.cpu_time = ",
                                absl::FormatDuration(parts_->config->compile_cpu), last);
  } else if (status.signal == SIGXFSZ) {
    outcome.end = Ending::kOutputLimit;
    outcome.what = absl::StrCat("wrote a file larger than compile.disk = ",
                                parts_->config->compile_disk, last);
  } else if (SoundsOutOfMemory(status.last_words)) {
    outcome.end = Ending::kOutOfMemory;
    outcome.what = absl::StrCat("ran out of memory (compile.memory = ",
                                parts_->config->compile_memory, "): ", status.Describe(), Took(),
                                last);
  } else if (status.signal == SIGKILL || status.signal == SIGTERM || status.signal == SIGINT ||
             status.signal == SIGHUP) {
    // Nobody here sent it: the kernel's out-of-memory killer, or an operator.
    outcome.end = Ending::kNotCounted;
    outcome.what = absl::StrCat("its worker was ", status.Describe(), " from outside", Took(),
                                last);
  } else {
    outcome.end = Ending::kCrashed;
    outcome.what = absl::StrCat("its worker was ", status.Describe(), Took(), last);
  }
  if (status.signal == 0 && (status.code == 126 || status.code == 127) && jobs_done_ == 0) {
    outcome.end = Ending::kUnavailable;  // kcache-launch says why, and it is not the program's fault
  }
  return outcome;
}

void CompileWorker::OnExited(const ExitStatus& status) {
  parts_->supervisor->RunInBackground([directory = directory_] { RemoveTree(directory); });
  if (state_ == State::kEnded) return;
  if (!has_job()) {
    if (!status.clean() && status.ended_for == ExitStatus::EndedFor::kNothing) {
      parts_->events->Emit("worker-died",
                           absl::StrCat("an idle compile worker of ", family_, " was ",
                                        status.Describe(), LastWords(status.last_words)),
                           {{"family", family_}});
    }
    End({});
    return;
  }
  End(OutcomeOfExit(status));
}

void CompileWorker::End(CompileOutcome outcome_of_job) {
  if (state_ == State::kEnded) return;
  auto self = shared_from_this();  // the owner lets go in OnEnded
  state_ = State::kEnded;
  parts_->executor->Cancel(wall_timer_);
  if (call_ != nullptr) call_->context.TryCancel();
  call_.reset();
  if (child_ != nullptr) {
    child_->Kill("no longer wanted");
  } else if (!directory_.empty()) {
    parts_->supervisor->RunInBackground([directory = directory_] { RemoveTree(directory); });
  }
  Answer(std::move(outcome_of_job));
  owner_->OnEnded(this);
}

void CompileWorker::Abandon(std::string_view why) {
  if (state_ == State::kEnded) return;
  job_ = 0;
  request_.reset();
  done_ = nullptr;
  if (child_ != nullptr) child_->Kill(why);
  End({});
}

}  // namespace kcache::workers
