#include "kcache/cuda_module.h"

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/src/cuda_driver.h"
#include "contract/error_reason.h"
#include "contract/mutex.h"
#include "contract/strings.h"

namespace kcache {
namespace internal {
namespace {

absl::Status DriverError(const CudaDriver& driver, int result, std::string_view what) {
  const char* name = nullptr;
  if (driver.get_error_name(result, &name) != 0 || name == nullptr) name = "unknown CUDA error";
  return MakeError(v1::COMPILE_FAILED, absl::StrCat(AbslView(what), ": ", name, " (", result, ")"));
}

}  // namespace

// What CudaModules and its listeners share.
class CudaModulesState : public std::enable_shared_from_this<CudaModulesState> {
 public:
  CudaModulesState(std::shared_ptr<Client> client, absl::StatusOr<const CudaDriver*> driver)
      : client_(std::move(client)), driver_(std::move(driver)) {}

  absl::StatusOr<std::shared_ptr<const CudaModule>> Acquire(const Program& program,
                                                            const DeviceId& device) {
    if (!driver_.ok()) return driver_.status();
    DropRetired();
    void* context = nullptr;
    int result = (*driver_)->context_get_current(&context);
    if (result != 0) return DriverError(**driver_, result, "cuCtxGetCurrent");
    if (context == nullptr) {
      return absl::FailedPreconditionError("no CUDA context is current on this thread");
    }
    absl::StatusOr<Artifact> artifact = client_->AcquireArtifact(program, device);
    if (!artifact.ok()) return artifact.status();
    const Key key = {artifact->key(), context};
    if (auto known = Find(key)) return known;
    absl::StatusOr<std::shared_ptr<const CudaModule>> module = Load(*artifact, context);
    if (!module.ok()) return module;
    return Memoize(key, *artifact, *std::move(module));
  }

  size_t size() const {
    MutexLock lock(&mutex_);
    return entries_.size();
  }

  // The memo's end: nothing is memoized from here on.
  void Close() {
    std::map<Key, Entry> entries;
    {
      MutexLock lock(&mutex_);
      entries.swap(entries_);
    }
    entries.clear();  // unregisters, which waits for a listener, so not under the lock
    DropRetired();
  }

 private:
  using Key = std::pair<std::string, void*>;  // artifact, context
  struct Entry {
    std::shared_ptr<const CudaModule> module;
    std::shared_ptr<Registration> registration;
  };

  std::shared_ptr<const CudaModule> Find(const Key& key) const {
    MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second.module;
  }

  absl::StatusOr<std::shared_ptr<const CudaModule>> Load(const Artifact& artifact, void* context) {
    const auto bytes = artifact.Bytes();
    if (artifact.format() != "cubin" && artifact.format() != "ptx") {
      return MakeError(v1::BAD_REQUEST,
                       absl::StrCat("an artifact of format ", Quoted(artifact.format()),
                                    " cannot be loaded into a CUDA context"));
    }
    // A copy: PTX needs a NUL behind it, which a mapped file does not have.
    const std::string image(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    void* module = nullptr;
    const int result = (*driver_)->module_load_data(&module, image.c_str());
    if (result != 0) {
      return DriverError(
          **driver_, result,
          absl::StrCat("loading a ", artifact.format(), " for ", artifact.architecture()));
    }
    return std::shared_ptr<const CudaModule>(new CudaModule(**driver_, artifact, context, module));
  }

  // The listener is registered before the entry is there, so that no revocation falls in between;
  // one that came first has marked the artifact.
  std::shared_ptr<const CudaModule> Memoize(const Key& key, const Artifact& artifact,
                                            std::shared_ptr<const CudaModule> module) {
    auto registration = std::make_shared<Registration>(
        artifact.OnRevoked([weak = weak_from_this(), key](const InvalidationEvent&) {
          if (auto self = weak.lock()) self->Retire(key);
          return absl::OkStatus();
        }));
    // Destroyed, if it is not wanted, after the lock: its end waits for a listener that wants the
    // lock.
    Entry entry{module, std::move(registration)};
    MutexLock lock(&mutex_);
    if (artifact.revoked()) return module;  // usable once, by this caller
    // Somebody else's, when two loaded at once; ours then unloads by itself.
    return entries_.try_emplace(key, std::move(entry)).first->second.module;
  }

  // Called by listeners: moves, and unloads nothing.
  void Retire(const Key& key) {
    MutexLock lock(&mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    retired_.push_back(std::move(found->second));
    entries_.erase(found);
  }

  void DropRetired() {
    std::vector<Entry> retired;
    {
      MutexLock lock(&mutex_);
      retired.swap(retired_);
    }
  }

  const std::shared_ptr<Client> client_;
  const absl::StatusOr<const CudaDriver*> driver_;
  mutable Mutex mutex_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<Entry> retired_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace internal

CudaModule::~CudaModule() {
  // A failure has nobody to go to; the context's own end frees what is left.
  if (driver_.context_push(context_) != 0) return;
  (void)driver_.module_unload(module_);
  void* popped = nullptr;
  (void)driver_.context_pop(&popped);
}

absl::StatusOr<void*> CudaModule::Function(const std::string& entry) const {
  std::string known;
  for (const KernelInfo& kernel : artifact_.kernels()) {
    if (kernel.entry != entry) {
      absl::StrAppend(&known, known.empty() ? "" : ", ", kernel.entry);
      continue;
    }
    const std::string& name = kernel.lowered_name.empty() ? kernel.entry : kernel.lowered_name;
    void* function = nullptr;
    const int result = driver_.module_get_function(&function, module_, name.c_str());
    if (result != 0) {
      return internal::DriverError(driver_, result,
                                   absl::StrCat("cuModuleGetFunction(", name, ")"));
    }
    return function;
  }
  return MakeError(v1::UNKNOWN_ENTRY,
                   absl::StrCat("no entry point ", Quoted(entry), "; there are: ", known));
}

CudaModules::CudaModules(std::shared_ptr<Client> client)
    : state_(std::make_shared<internal::CudaModulesState>(std::move(client),
                                                          internal::LoadCudaDriver())) {}

CudaModules::CudaModules(std::shared_ptr<Client> client, const internal::CudaDriver* driver)
    : state_(std::make_shared<internal::CudaModulesState>(std::move(client), driver)) {}

CudaModules::~CudaModules() { state_->Close(); }

absl::StatusOr<std::shared_ptr<const CudaModule>> CudaModules::Acquire(const Program& program,
                                                                       const DeviceId& device) {
  return state_->Acquire(program, device);
}

size_t CudaModules::size() const { return state_->size(); }

}  // namespace kcache
