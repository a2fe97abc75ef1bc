// Cubins of the daemon's cache in a CUDA context of the application's own: one compile a node, and
// launches without the daemon.
//
//   kcache::CudaModules modules(client);
//   auto module = modules.Acquire(program, {"CUDA", 0});     // the context current on this thread
//   auto function = (*module)->Function("axpy");             // a CUfunction
//   cuLaunchKernel(static_cast<CUfunction>(*function), …);
//
// A module is loaded once for each (artifact, CUDA context). When the daemon says that artifacts
// are cleared or the device is destroyed, the memo drops the module and the next Acquire loads
// anew; what the application still holds stays loaded and valid, and is unloaded when its last
// share goes. Nothing of this delays the daemon: a listener only moves shares, it never unloads.
//
// Needs no CUDA header; libcuda.so.1 is opened at run time, and the context is the application's:
// it outlives every share of a module that was loaded in it.
//
// Threads: any thread. Ownership: a CudaModule is shared by the memo and by whoever acquired it.

#ifndef KCACHE_CUDA_MODULE_H_
#define KCACHE_CUDA_MODULE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kcache/artifact.h"
#include "kcache/client.h"
#include "kcache/program.h"

namespace kcache {

namespace internal {
struct CudaDriver;
class CudaModulesState;
}  // namespace internal

class CudaModule {
 public:
  // Unloads the module in its context, on the thread that drops the last share.
  ~CudaModule();
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  // A CUfunction, valid as long as the module. `entry` is a kernel's own name or the name
  // expression that it was instantiated by. UNKNOWN_ENTRY lists the entries that there are.
  absl::StatusOr<void*> Function(const std::string& entry) const;
  const Artifact& artifact() const { return artifact_; }

 private:
  friend class internal::CudaModulesState;
  CudaModule(const internal::CudaDriver& driver, Artifact artifact, void* context, void* module)
      : driver_(driver), artifact_(std::move(artifact)), context_(context), module_(module) {}

  const internal::CudaDriver& driver_;
  const Artifact artifact_;
  void* const context_;
  void* const module_;
};

class CudaModules {
 public:
  explicit CudaModules(std::shared_ptr<Client> client);
  // With another driver than libcuda.so.1, for tests.
  CudaModules(std::shared_ptr<Client> client, const internal::CudaDriver* driver);
  // Drops the memo's shares; modules that the application holds live on.
  ~CudaModules();
  CudaModules(const CudaModules&) = delete;
  CudaModules& operator=(const CudaModules&) = delete;

  // The module of `program`, compiled for `device`, in the context that is current on the calling
  // thread. FAILED_PRECONDITION without a context; BACKEND_UNAVAILABLE without a driver;
  // COMPILE_FAILED when the driver does not take the binary.
  absl::StatusOr<std::shared_ptr<const CudaModule>> Acquire(const Program& program,
                                                            const DeviceId& device);

  // Modules that the next Acquire would not load again.
  size_t size() const;

 private:
  std::shared_ptr<internal::CudaModulesState> state_;
};

}  // namespace kcache

#endif  // KCACHE_CUDA_MODULE_H_
