#include "tests/unit/opencl/fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "backends/opencl/context.h"
#include "backends/opencl/device_catalog.h"
#include "backends/opencl/device_description.h"

namespace kcache::backend::opencl {
namespace {

int CountLibraries(const std::filesystem::path& directory) {
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    count += entry.path().extension() == ".so" ? 1 : 0;
  }
  return count;
}

}  // namespace

namespace {
std::unique_ptr<Backend>& Shared() {
  static auto* const backend = new std::unique_ptr<Backend>;
  return *backend;
}
}  // namespace

Backend& TheBackend() {
  std::unique_ptr<Backend>& shared = Shared();
  if (shared != nullptr) return *shared;
  setenv("POCL_DEVICES", "pthread pthread", 1);
  absl::StatusOr<DriverCaches> caches = DriverCaches::Isolate();
  if (!caches.ok()) {
    std::fprintf(stderr, "%s\n", std::string(caches.status().message()).c_str());
    std::exit(1);
  }
  shared.reset(new Backend{*std::move(caches), std::make_unique<OpenClFamily>(), nullptr});
  absl::StatusOr<std::unique_ptr<Compiler>> compiler = shared->family->MakeCompiler();
  if (!compiler.ok()) {
    std::fprintf(stderr, "%s\n", std::string(compiler.status().message()).c_str());
    std::exit(1);
  }
  shared->compiler = *std::move(compiler);
  return *shared;
}

void ReleaseBackend() { Shared().reset(); }

int CompiledInFreshProcess(const v1::Artifact& artifact, const std::string& entry, Extent local,
                           const std::vector<uint32_t>& groups) {
  absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make("kcache-test-");
  if (!directory.ok()) return -1;
  const std::string file = (directory->path() / "artifact").string();
  std::ofstream out(file, std::ios::binary);
  if (!artifact.SerializeToOstream(&out)) return -1;
  out.close();
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (length < 0) return -1;
  program[length] = '\0';
  std::ostringstream line;
  line << "'" << program << "' --launch " << file << " " << entry << " " << local.x << " "
       << local.y << " " << local.z;
  for (const uint32_t count : groups) line << " " << count;
  std::FILE* pipe = popen(line.str().c_str(), "r");
  if (pipe == nullptr) return -1;
  int compiled = -1;
  const int fields = std::fscanf(pipe, "compiled %d", &compiled);
  const int status = pclose(pipe);
  return fields == 1 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? compiled : -1;
}

int RunFreshProcess(int argc, char** argv) {
  if (argc < 7) return 2;
  v1::Artifact artifact;
  std::ifstream in(argv[2], std::ios::binary);
  if (!artifact.ParseFromIstream(&in)) return 3;
  const std::string entry = argv[3];
  const auto number = [&](int i) {
    return static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10));
  };
  const Extent local{number(4), number(5), number(6)};
  absl::StatusOr<std::unique_ptr<Context>> context = TheBackend().family->OpenContext({});
  if (!context.ok()) return 4;
  LoadStatistics statistics;
  absl::StatusOr<ModuleHandle> module = (*context)->LoadModule(artifact, &statistics);
  absl::StatusOr<QueueHandle> queue = (*context)->CreateQueue();
  if (!module.ok() || !queue.ok()) return 5;
  v1::KernelInfo info;
  for (const v1::KernelInfo& kernel : artifact.kernels()) {
    if (kernel.entry() == entry) info = kernel;
  }
  absl::StatusOr<KernelHandle> kernel = (*context)->ResolveKernel(*module, {}, &info, &statistics);
  if (!kernel.ok()) return 6;
  std::vector<KernelArgument> arguments;
  for (int i = 0; i < info.arguments_size(); ++i) {
    absl::StatusOr<MemoryHandle> memory = (*context)->Allocate(16 << 20, MemoryKind::kDevice);
    if (!memory.ok()) return 7;
    arguments.push_back(BufferArgument(*memory));
  }
  const int before = CountLibraries(TheBackend().caches.pocl());
  for (int i = 7; i < argc; ++i) {
    if (!(*context)->Launch(*queue, LaunchOf(*kernel, {number(i), 1, 1}, local, arguments)).ok())
      return 8;
  }
  absl::StatusOr<MarkerHandle> marker = (*context)->RecordMarker(*queue);
  if (!marker.ok() || !(*context)->WaitMarker(*marker).ok()) return 9;
  std::printf("compiled %d\n", CountLibraries(TheBackend().caches.pocl()) - before);
  return 0;
}

v1::CompileRequest OpenClTest::Source(std::string_view source) {
  v1::CompileRequest request;
  request.set_framework("OpenCL");
  request.mutable_manifest()->set_language("opencl-c");
  request.set_source(std::string(source));
  request.set_max_log_bytes(64 << 10);
  request.set_max_output_bytes(256 << 20);
  return request;
}

v1::Artifact OpenClTest::MustCompile(const v1::CompileRequest& request) {
  absl::StatusOr<v1::Artifact> artifact = Compile(request);
  if (!artifact.ok()) {
    ADD_FAILURE() << artifact.status();
    return {};
  }
  return *std::move(artifact);
}

OpenClTest::Host OpenClTest::Open(const v1::Artifact& artifact, uint32_t device) {
  ContextOptions options;
  options.index = device;
  return HostOf(TheBackend().family->OpenContext(options), artifact);
}

OpenClTest::Host OpenClTest::OpenAligned(const v1::Artifact& artifact, uint32_t alignment) {
  TheBackend();
  const absl::StatusOr<CatalogDevice> device = FindDevice(0);
  if (!device.ok()) return HostOf(device.status(), artifact);
  v1::DeviceInfo info = DescribeDevice(*device, 0);
  info.mutable_limits()->set_buffer_offset_alignment(alignment);
  return HostOf(OpenClContext::Open(*device, info), artifact);
}

OpenClTest::Host OpenClTest::HostOf(absl::StatusOr<std::unique_ptr<Context>> context,
                                    const v1::Artifact& artifact) {
  Host host;
  host.artifact = artifact;
  if (!context.ok()) {
    ADD_FAILURE() << context.status();
    return host;
  }
  host.context = *std::move(context);
  absl::StatusOr<QueueHandle> queue = host.context->CreateQueue();
  EXPECT_TRUE(queue.ok()) << queue.status();
  host.queue = queue.value_or(0);
  absl::StatusOr<ModuleHandle> module = host.context->LoadModule(artifact, &host.statistics);
  EXPECT_TRUE(module.ok()) << module.status();
  host.module = module.value_or(0);
  return host;
}

KernelHandle OpenClTest::Host::Kernel(const std::string& entry) {
  v1::KernelInfo info;
  info.set_entry(entry);
  for (const v1::KernelInfo& kernel : artifact.kernels()) {
    if (kernel.entry() == entry) info = kernel;
  }
  absl::StatusOr<KernelHandle> kernel = context->ResolveKernel(module, {}, &info, &statistics);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.value_or(0);
}

MemoryHandle OpenClTest::Host::Memory(uint64_t bytes) {
  absl::StatusOr<MemoryHandle> memory = context->Allocate(bytes, MemoryKind::kDevice);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return memory.value_or(0);
}

absl::Status OpenClTest::Host::Finish() {
  absl::StatusOr<MarkerHandle> marker = context->RecordMarker(queue);
  if (!marker.ok()) return marker.status();
  return context->WaitMarker(*marker);
}

KernelArgument BufferArgument(MemoryHandle memory, uint64_t offset, uint64_t bytes) {
  KernelArgument argument;
  argument.kind = KernelArgument::Kind::kBuffer;
  argument.memory = memory;
  argument.offset = offset;
  argument.bytes = bytes;
  return argument;
}

KernelArgument LocalArgument(uint64_t bytes) {
  KernelArgument argument;
  argument.kind = KernelArgument::Kind::kLocalMemory;
  argument.bytes = bytes;
  return argument;
}

LaunchCommand LaunchOf(KernelHandle kernel, Extent groups, Extent local,
                       const std::vector<KernelArgument>& arguments) {
  LaunchCommand command;
  command.kernel = kernel;
  command.grid = groups;
  command.local = local;
  command.global = {groups.x * local.x, groups.y * local.y, groups.z * local.z};
  command.arguments = arguments;
  return command;
}

}  // namespace kcache::backend::opencl
