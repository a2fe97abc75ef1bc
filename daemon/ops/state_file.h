// core::DurableState in one small file: "kcached-state 1", then a line "down DEVICE REASON" a device,
// then "end" with a checksum. Written beside itself, synced, renamed over, and the directory synced,
// so that a crash leaves the old or the new one. A file that is not whole is moved aside
// (state.damaged) and reported; the daemon starts with an empty state.
//
// Threads: one at a time. Save blocks for the disk, as its contract says.

#ifndef KCACHE_DAEMON_OPS_STATE_FILE_H_
#define KCACHE_DAEMON_OPS_STATE_FILE_H_

#include <string>

#include "daemon/core/dependencies.h"

namespace kcache::ops {

class StateFile : public core::StateStore {
 public:
  // `directory` exists. `events` outlives this object.
  StateFile(std::string directory, core::EventSink* events);

  core::DurableState Load() override;
  absl::Status Save(const core::DurableState& state) override;

 private:
  const std::string directory_;
  const std::string file_;
  core::EventSink* const events_;
};

std::string EncodeState(const core::DurableState& state);
absl::StatusOr<core::DurableState> DecodeState(std::string_view text);

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_STATE_FILE_H_
