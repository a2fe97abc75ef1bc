// From an Acquire to its Grant.
//
//   Acquire ─► device, domain ─► source shown? ─► artifact? ─► context? ─► handle? ─► Grant
//                                   │ no            │ no         │ no        │ no
//                                   ▼               ▼            ▼           ▼
//                              NeedSource,      BuildQueue    start the    load it
//                              one uploader                     host
//                              at a time
//
// Each step checks what the next one relies on, in the same executor step in which it acts: a
// holder is registered before the Grant that makes it one leaves, in the step that checks the
// context's state. While a context drains, DEVICE_DRAINING comes back at once; nothing is parked.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_ACQUIRE_H_
#define KCACHE_DAEMON_CORE_ACQUIRE_H_

#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/core/context_table.h"
#include "daemon/core/core.h"
#include "kcache/v1/session.pb.h"

namespace kcache::core {

// One Acquire under way. Shared with every continuation; `done` once it has been answered.
struct AcquireRequest {
  Session* session = nullptr;  // null once the session has ended
  v1::Acquire acquire;
  DeviceName device;           // with the variant the caller named
  Digest program;
  Digest artifact;
  BuildSpec spec;              // but for the program
  std::string specialization;
  Digest handle;
  ArtifactPtr binary;
  v1::GrantOrigin origin = v1::GRANT_WARM;
  uint64_t compile_ms = 0;
  BuildQueue::WaiterId build = 0;
  int cleared = 0;  // how often a clear overtook it
  uint64_t probes = 0;  // Acquirer::OnProbed before its key was computed
  bool done = false;
};

using RequestPtr = std::shared_ptr<AcquireRequest>;

class Acquirer {
 public:
  Acquirer(Core* core, ContextTable* contexts) : core_(core), contexts_(contexts) {}

  void Acquire(Session* session, const v1::Acquire& acquire);
  void CancelRequest(Session* session, uint64_t request_id);
  void Release(Session* session, const v1::Release& release);

  // The domain has now shown this program: requests that waited for it go on.
  void SourceShown(const std::string& domain, const Digest& program);
  // The session's upload of the program makes progress; or has failed: the next uploader is asked.
  void UploadProgress(Session* session, const Digest& program);
  void UploadFailed(Session* session, const Digest& program);
  // Answers nothing more to this session, hands its uploads on.
  void SessionEnded(Session* session);

  // Devices and compilers have been probed anew: keys that were computed for them are void, and requests
  // under way ask with a new one from their next step on.
  void OnProbed() {
    specs_.clear();
    ++probes_;
  }

  absl::StatusOr<BuildSpec> SpecFor(const v1::Acquire& acquire, const TrustDomain& domain,
                                    const Digest& program, std::string_view language,
                                    DeviceRecord* device) const;

  // Takes every lease of the session on doomed or lost handles away.
  void DropLeases(Context* context, const std::vector<std::pair<uint32_t, uint32_t>>& slots);
  void DropAllLeases(Context* context);

 private:
  // Who uploads a program for a domain.
  struct Upload {
    std::vector<RequestPtr> waiting;
    SessionId uploader = 0;
    std::vector<SessionId> tried;
    TimerId stall = 0;
  };
  using UploadKey = std::pair<std::string, Digest>;

  absl::Status Prepare(Session* session, AcquireRequest* request);
  void NeedSource(const RequestPtr& request);
  void AskUploader(const UploadKey& key);
  void NextUploader(const UploadKey& key, SessionId failed);
  // Of what is asked for, with the devices and compilers that there are. Good until the next call.
  absl::StatusOr<const BuildSpec*> CachedSpec(const AcquireRequest& request, bool submitted);
  // Whether its key is that of the devices and compilers probed last.
  bool StillCurrent(AcquireRequest* request);
  void WithSource(const RequestPtr& request);
  void WithArtifact(const RequestPtr& request, ArtifactPtr artifact);
  void WithContext(const RequestPtr& request, const std::shared_ptr<Context>& context);
  void Introduce(Session* session, Context* context);
  void GrantHandle(const RequestPtr& request, Context* context, Handle* handle);
  void GrantArtifact(const RequestPtr& request);
  void GrantContext(const RequestPtr& request, Context* context);
  void Finish(const RequestPtr& request, v1::DaemonEvent event);
  void Fail(const RequestPtr& request, const absl::Status& status);
  void Drop(const RequestPtr& request);

  Core* const core_;
  ContextTable* const contexts_;
  std::map<UploadKey, Upload> uploads_;
  // Of the hot path. Cleared when anything they depend on changes.
  absl::flat_hash_map<std::string, BuildSpec> specs_;
  uint64_t probes_ = 0;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_ACQUIRE_H_
