// The real kcache-backend-fake as a process: command line, probe, compile and device roles over their sockets,
// and how it ends.

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/sdk/exit_codes.h"
#include "contract/error_reason.h"
#include "contract/grpc_status.h"
#include "contract/lease_token.h"
#include "kcache/v1/backend.grpc.pb.h"
#include "kcache/v1/execution.grpc.pb.h"

namespace kcache::backend {
namespace {

const std::string kInstance(kInstanceBytes, 'i');
const std::string kKey(kTokenKeyBytes, 'k');
constexpr char kProgram[] =
    "kernel add(buffer a, buffer b, buffer out, scalar u32 n) { out[i] = a[i] + b[i] }\n"
    "kernel bad(buffer out) { fault }\n"
    "kernel hold(buffer flag) { await flag[0] }\n";

std::string Program() {
  return std::string(std::getenv("KCACHE_BINARY_DIR")) + "/backends/fake/kcache-backend-fake";
}

// A child process that is ended with the test.
class Child {
 public:
  Child(std::vector<std::string> arguments, const std::string& script, std::vector<int> inherit,
        int output_fd = -1) {
    arguments.insert(arguments.begin(), Program());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::string environment = "KCACHE_FAKE_SCRIPT=" + script;
    char* envp[] = {environment.data(), nullptr};
    pid_ = fork();
    if (pid_ == 0) {
      for (const int fd : inherit) fcntl(fd, F_SETFD, 0);
      if (output_fd >= 0) dup2(output_fd, STDOUT_FILENO);
      execve(argv[0], argv.data(), envp);
      _exit(127);
    }
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }
  // The wait status.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
};

struct Sockets {
  int ours = -1, theirs = -1;
  Sockets() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    ours = fds[0];
    theirs = fds[1];
  }
};

std::shared_ptr<grpc::Channel> ChannelOn(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return grpc::CreateInsecureChannelFromFd("backend", fd);
}

class CompileWorker {
 public:
  explicit CompileWorker(const std::string& script = "") {
    Sockets sockets;
    child_ = std::make_unique<Child>(
        std::vector<std::string>{"--role=compile", "--control-fd=" + std::to_string(sockets.theirs)},
        script, std::vector<int>{sockets.theirs});
    close(sockets.theirs);
    channel_ = ChannelOn(sockets.ours);
    stub_ = v1::Compile::NewStub(channel_);
  }

  grpc::Status Run(const std::string& source, v1::CompileReply* reply,
                   const std::function<void(v1::CompileRequest*)>& change = nullptr) {
    v1::CompileRequest request;
    request.set_framework("Fake");
    request.mutable_manifest()->set_language("fake");
    request.set_source(source);
    if (change) change(&request);
    grpc::ClientContext context;
    return stub_->Run(&context, request, reply);
  }

  Child& child() { return *child_; }
 private:
  std::unique_ptr<Child> child_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Compile::Stub> stub_;
};

TEST(ProbeRole, PrintsAReport) {
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  Child child({"--role=probe"}, "devices = 3", {}, pipe_fds[1]);
  close(pipe_fds[1]);
  std::string json;
  char buffer[4096];
  for (ssize_t n; (n = read(pipe_fds[0], buffer, sizeof(buffer))) > 0;) json.append(buffer, n);
  close(pipe_fds[0]);
  EXPECT_EQ(child.Wait(), 0);
  v1::ProbeReport report;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &report).ok()) << json;
  EXPECT_EQ(report.family(), "Fake");
  EXPECT_EQ(report.devices_size(), 3);
  EXPECT_EQ(report.devices(2).device().index(), 2u);
}

TEST(CommandLine, IsChecked) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, {"--role=other"}, {"--role=compile"},
        {"--role=device", "--control-fd=0"}, {"--role=compile", "--control-fd=999"}, {"--nonsense"}}) {
    EXPECT_EQ(WEXITSTATUS(Child(arguments, "", {}).Wait()), kExitUsage);
  }
}

TEST(CompileRole, CompilesAndReflects) {
  CompileWorker role;
  v1::CompileReply reply;
  ASSERT_TRUE(role.Run(kProgram, &reply).ok());
  EXPECT_EQ(reply.error().message(), "");
  ASSERT_EQ(reply.artifact().kernels_size(), 3);
  EXPECT_EQ(reply.artifact().kernels(0).entry(), "add");
  EXPECT_EQ(reply.artifact().kernels(0).arguments(3).bytes(), 4u);
}

TEST(CompileRole, SaysWhatIsWrongByLine) {
  CompileWorker role;
  v1::CompileReply reply;
  ASSERT_TRUE(role.Run("kernel k(buffer a) {\n  a[i] = b\n  a[i] = 1 +\n}\n", &reply).ok());
  EXPECT_EQ(reply.error().reason(), v1::COMPILE_FAILED);
  EXPECT_EQ(reply.error().message(),
            "2: error: \"b\" is not declared\n3: error: the expression ends too early\n");
}

TEST(CompileRole, LimitsAreKept) {
  CompileWorker role("Compile@1 = log 100000");
  v1::CompileReply reply;
  ASSERT_TRUE(role.Run(kProgram, &reply, [](v1::CompileRequest* request) {
                    request->set_max_log_bytes(100);
                  }).ok());
  EXPECT_LT(reply.artifact().build_log().size(), 200u);
  ASSERT_TRUE(role.Run(kProgram, &reply, [](v1::CompileRequest* request) {
                    request->set_max_output_bytes(10);
                  }).ok());
  EXPECT_EQ(reply.error().reason(), v1::LIMIT_EXCEEDED);
}

TEST(CompileRole, DiesAsTheProgramSays) {
  CompileWorker role;
  v1::CompileReply reply;
  EXPECT_EQ(role.Run("pragma Compile@1 = exit 3\n", &reply).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(WEXITSTATUS(role.child().Wait()), 3);
}

TEST(CompileRole, EndsWithItsControlSocketEvenInTheMiddleOfAJob) {
  Sockets sockets;
  Child child({"--role=compile", "--control-fd=" + std::to_string(sockets.theirs)},
              "Compile@1 = hang", {sockets.theirs});
  close(sockets.theirs);
  auto channel = ChannelOn(sockets.ours);
  auto stub = v1::Compile::NewStub(channel);
  grpc::ClientContext context;
  v1::CompileRequest request;
  request.mutable_manifest()->set_language("fake");
  grpc::CompletionQueue done;
  v1::CompileReply reply;
  grpc::Status status;
  auto call = stub->AsyncRun(&context, request, &done);
  call->Finish(&reply, &status, nullptr);
  shutdown(sockets.ours, SHUT_RDWR);
  EXPECT_EQ(WEXITSTATUS(child.Wait()), kExitOrphaned);
  void* tag = nullptr;
  bool ok = false;
  done.Next(&tag, &ok);
}

class DeviceRoleTest : public ::testing::Test {
 protected:
  void Start(const std::string& script = "", bool check_uid = true, uint32_t uid = getuid()) {
    directory_ = std::filesystem::temp_directory_path() /
                 ("kcache-role-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    path_ = (directory_ / "x").string();
    const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    unlink(path_.c_str());
    ASSERT_EQ(bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listening, 16), 0);
    Sockets sockets;
    child_ = std::make_unique<Child>(
        std::vector<std::string>{"--role=device", "--control-fd=" + std::to_string(sockets.theirs),
                                 "--execution-fd=" + std::to_string(listening)},
        script, std::vector<int>{sockets.theirs, listening});
    close(sockets.theirs);
    close(listening);
    control_fd_ = sockets.ours;
    device_ = v1::Device::NewStub(ChannelOn(sockets.ours));
    grpc::ClientContext context;
    v1::OpenContextRequest request;
    *request.mutable_context() = Ref();
    request.set_instance(kInstance);
    request.set_token_key(kKey);
    request.set_check_peer_uid(check_uid);
    request.set_peer_uid(uid);
    v1::HostLimits* limits = request.mutable_limits();
    limits->set_max_queues_per_session(4);
    limits->set_max_commands_in_flight(1000);
    limits->set_max_device_bytes_per_session(1 << 20);
    limits->set_max_pinned_bytes_per_session(1 << 20);
    limits->set_max_buffers_per_session(100);
    limits->set_max_message_bytes(1 << 20);
    v1::OpenContextReply reply;
    ASSERT_TRUE(device_->OpenContext(&context, request, &reply).ok());
    ASSERT_EQ(reply.error().message(), "");
    EXPECT_EQ(reply.device().name(), "fake device 1");
  }
  ~DeviceRoleTest() override { std::filesystem::remove_all(directory_); }

  static v1::ContextRef Ref() {
    v1::ContextRef ref;
    ref.set_context_id(5);
    ref.mutable_device()->set_framework("Fake");
    ref.mutable_device()->set_index(1);
    ref.set_generation(1);
    return ref;
  }

  void Load(const std::vector<std::string>& entries) {
    CompileWorker compiler;
    v1::CompileReply compiled;
    ASSERT_TRUE(compiler.Run(kProgram, &compiled).ok());
    v1::LoadRequest request;
    request.set_artifact_key("key");
    *request.mutable_artifact() = compiled.artifact();
    uint32_t slot = 0;
    for (const std::string& entry : entries) {
      v1::LoadItem* item = request.add_items();
      item->set_slot(slot++);
      item->set_incarnation(1);
      for (const v1::KernelInfo& kernel : compiled.artifact().kernels()) {
        if (kernel.entry() == entry) *item->mutable_kernel() = kernel;
      }
    }
    grpc::ClientContext context;
    v1::LoadReply reply;
    ASSERT_TRUE(device_->Load(&context, request, &reply).ok());
    for (const v1::LoadResult& result : reply.results()) EXPECT_EQ(result.error().message(), "");
  }

  using Stream = grpc::ClientReaderWriter<v1::ExecutionRequest, v1::ExecutionReply>;

  // A client's stream; the reply to its Attach has been read.
  struct Client {
    std::unique_ptr<v1::Execution::Stub> stub;
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream;
    std::vector<v1::Reply> pending;

    v1::Reply Next() {
      v1::ExecutionReply reply;
      while (pending.empty() && stream->Read(&reply)) {
        pending.assign(reply.replies().rbegin(), reply.replies().rend());
      }
      if (pending.empty()) return {};
      v1::Reply next = pending.back();
      pending.pop_back();
      return next;
    }
  };

  // The first one that the watch tells; empty when it ended without.
  v1::SecurityEvent NextSecurityEvent() {
    grpc::ClientContext context;
    auto events = device_->Watch(&context, v1::WatchRequest());
    v1::HostEvent event;
    while (events->Read(&event) && !event.has_security()) {
    }
    context.TryCancel();
    return event.security();
  }

  std::unique_ptr<Client> Connect(uint64_t session_id, const std::string& token = "") {
    auto client = std::make_unique<Client>();
    client->stub = v1::Execution::NewStub(
        grpc::CreateChannel("unix:" + path_, grpc::InsecureChannelCredentials()));
    client->stream = client->stub->Attach(&client->context);
    v1::ExecutionRequest request;
    v1::AttachSession* attach = request.add_commands()->mutable_attach();
    attach->set_instance(kInstance);
    attach->set_session_id(session_id);
    *attach->mutable_context() = Ref();
    attach->set_token(token.empty() ? Authority().SignSession(Identity(session_id)).str() : token);
    client->stream->Write(request);
    return client;
  }

  static SessionIdentity Identity(uint64_t session_id) {
    return {.context_id = 5, .generation = 1, .session_id = session_id};
  }
  static TokenAuthority Authority() { return *TokenAuthority::Create(kKey, kInstance); }

  static void AddBind(v1::ExecutionRequest* request, uint64_t session_id, uint32_t slot) {
    v1::LeaseRef* lease = request->add_commands()->mutable_bind()->mutable_lease();
    lease->set_slot(slot);
    lease->set_incarnation(1);
    lease->set_mac(
        Authority()
            .SignLease({.session = Identity(session_id), .slot = slot, .incarnation = 1})
            .str());
  }
  static void AddCreate(v1::ExecutionRequest* request, uint64_t buffer, uint64_t bytes) {
    request->add_commands()->mutable_create_buffer()->set_buffer(buffer);
    request->mutable_commands()->rbegin()->mutable_create_buffer()->set_bytes(bytes);
  }
  static v1::Launch* AddLaunch(v1::ExecutionRequest* request, uint32_t slot, uint32_t grid) {
    v1::Launch* launch = request->add_commands()->mutable_launch();
    launch->set_slot(slot);
    launch->set_incarnation(1);
    launch->mutable_grid()->set_x(grid);
    launch->mutable_local()->set_x(1);
    return launch;
  }

  std::filesystem::path directory_;
  std::string path_;
  std::unique_ptr<Child> child_;
  int control_fd_ = -1;
  std::unique_ptr<v1::Device::Stub> device_;
};

TEST_F(DeviceRoleTest, ExecutesThenTearsDownAndExits) {
  Start();
  Load({"add"});
  auto client = Connect(9);
  EXPECT_TRUE(client->Next().has_attached());
  v1::ExecutionRequest request;
  AddBind(&request, 9, 0);
  for (uint64_t buffer : {1, 2, 3}) AddCreate(&request, buffer, 8);
  const std::string ones(8, '\1');
  for (uint64_t buffer : {1, 2}) {
    v1::WriteBuffer* write = request.add_commands()->mutable_write();
    write->set_buffer(buffer);
    write->set_data(ones);
  }
  v1::Launch* launch = AddLaunch(&request, 0, 2);
  for (uint64_t buffer : {1, 2, 3}) launch->add_arguments()->set_buffer(buffer);
  launch->add_arguments()->set_scalar(std::string("\2\0\0\0", 4));
  v1::ReadBuffer* read = request.add_commands()->mutable_read();
  read->set_request_id(4);
  read->set_buffer(3);
  read->set_bytes(8);
  client->stream->Write(request);
  const v1::Reply reply = client->Next();
  ASSERT_TRUE(reply.has_read_data()) << reply.DebugString();
  EXPECT_EQ(reply.read_data().data(), std::string(8, '\2'));

  v1::TeardownRequest teardown;
  teardown.set_finish_ms(60000);
  v1::TeardownReply torn_down;
  grpc::ClientContext context;
  ASSERT_TRUE(device_->Teardown(&context, teardown, &torn_down).ok());
  EXPECT_TRUE(torn_down.finished());
  EXPECT_EQ(torn_down.failures_size(), 0);
  EXPECT_EQ(torn_down.released_size(), 7) << "a queue, three buffers, kernel, module, context";
  const int status = child_->Wait();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kExitOk);
}

TEST_F(DeviceRoleTest, AFaultIsToldToEverybodyBeforeTheExit) {
  Start();
  Load({"bad"});
  grpc::ClientContext watch_context;
  v1::WatchRequest watch;
  watch.set_heartbeat_ms(50);
  auto events = device_->Watch(&watch_context, watch);
  v1::HostEvent event;
  ASSERT_TRUE(events->Read(&event)) << "the first heartbeat comes at once";
  EXPECT_TRUE(event.has_heartbeat());
  auto client = Connect(9);
  v1::ExecutionRequest request;
  AddBind(&request, 9, 0);
  AddCreate(&request, 1, 4);
  AddLaunch(&request, 0, 1)->add_arguments()->set_buffer(1);
  client->stream->Write(request);
  bool lost = false;
  std::vector<std::string> labels;
  while (events->Read(&event)) {
    if (event.has_label()) labels.push_back(event.label().label());
    if (event.has_lost()) {
      lost = true;
      EXPECT_EQ(event.lost().error().reason(), v1::KERNEL_FAULT);
      EXPECT_NE(event.lost().error().message().find("kernel bad"), std::string::npos);
    }
  }
  EXPECT_TRUE(lost);
  EXPECT_TRUE(std::any_of(labels.begin(), labels.end(), [](const std::string& label) {
    return label.starts_with("buffer");
  }));
  EXPECT_EQ(WEXITSTATUS(child_->Wait()), kExitContextLost);
}

TEST_F(DeviceRoleTest, ABadTokenIsRefusedAndReported) {
  Start();
  auto client = Connect(9, std::string(kTokenBytes, 'x'));
  client->Next();
  EXPECT_EQ(ReasonOf(FromGrpc(client->stream->Finish())), v1::PERMISSION_DENIED);
  const v1::SecurityEvent event = NextSecurityEvent();
  EXPECT_EQ(event.what(), "bad execution token");
  EXPECT_EQ(event.pid(), getpid());
}

TEST_F(DeviceRoleTest, AForeignUidIsRefusedAndReported) {
  Start("", true, getuid() + 1);
  auto client = Connect(9);
  client->Next();
  EXPECT_EQ(ReasonOf(FromGrpc(client->stream->Finish())), v1::PERMISSION_DENIED);
  const v1::SecurityEvent event = NextSecurityEvent();
  EXPECT_EQ(event.what(), "foreign uid");
  EXPECT_EQ(event.uid(), getuid());
}

TEST_F(DeviceRoleTest, EndsWithItsControlSocketEvenWhileADriverHangs) {
  Start("Launch@1 = hang");
  Load({"add"});
  auto client = Connect(9);
  EXPECT_TRUE(client->Next().has_attached());
  v1::ExecutionRequest request;
  AddBind(&request, 9, 0);
  AddCreate(&request, 1, 4);
  v1::Launch* launch = AddLaunch(&request, 0, 1);
  for (int i = 0; i < 3; ++i) launch->add_arguments()->set_buffer(1);
  launch->add_arguments()->set_scalar(std::string("\1\0\0\0", 4));
  client->stream->Write(request);
  shutdown(control_fd_, SHUT_RDWR);
  EXPECT_EQ(WEXITSTATUS(child_->Wait()), kExitOrphaned);
}

TEST_F(DeviceRoleTest, HeartbeatsGoOnWhileADriverHangs) {
  Start("Launch@1 = hang");
  Load({"add"});
  auto client = Connect(9);
  v1::ExecutionRequest request;
  AddBind(&request, 9, 0);
  AddCreate(&request, 1, 4);
  v1::Launch* launch = AddLaunch(&request, 0, 1);
  for (int i = 0; i < 3; ++i) launch->add_arguments()->set_buffer(1);
  launch->add_arguments()->set_scalar(std::string("\1\0\0\0", 4));
  client->stream->Write(request);
  grpc::ClientContext context;
  v1::WatchRequest watch;
  watch.set_heartbeat_ms(5);
  auto events = device_->Watch(&context, watch);
  v1::HostEvent event;
  int beats = 0;
  while (beats < 5 && events->Read(&event)) {
    beats += event.has_heartbeat() && event.heartbeat().buffers() == 1;
  }
  EXPECT_EQ(beats, 5);
  context.TryCancel();
}

}  // namespace
}  // namespace kcache::backend
