// SPDX-License-Identifier: MIT
// The constants that the daemon keeps by their contents, for all sessions: in the memory of devices
// (content_memory.h), and in files (content_files.h).
//
//   uploaded by a session --Share--> in memory, in use --written behind the answer--> also on disk
//   in memory or on disk  --Open: the SHA-256, and a proof--> in memory, in use
//   in use --the last session frees it--> in memory --room is needed--> on disk --room--> gone
//
// A content that has no room in memory, because others are in use, is the session's own: a constant
// that nobody else has.
//
// What Open tells depends on the proof alone, and takes the same time, whether there is no such
// content or the proof is wrong: the daemon has the tags in memory, and compares one in any case.
//
// Thread-safe. Outlives the sessions.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/work_limits.h"
#include "server/engine/base/device_set.h"
#include "server/engine/base/task_pool.h"
#include "server/engine/content/content_files.h"
#include "server/engine/content/content_memory.h"
#include "server/engine/session/buffer_store.h"

namespace uopd::engine {

class ContentStore {
 public:
  struct Limits {
    int64_t memory_bytes = 0, disk_bytes = 0;
  };
  struct Usage {
    ContentMemory::Usage memory;
    ContentFiles::Usage files;
  };
  // What becomes a buffer of a session.
  struct Bound {
    Allocation allocation;  // without a buffer: the memory that was given stays
    Constant constant;
  };

  // `folder`: of the files; empty: there are none. `total` outlives this object.
  ContentStore(std::string folder, const Limits& limits, Quota& total)
      : files_(std::move(folder), limits.disk_bytes), memory_(limits.memory_bytes, total) {}
  // Ends what is being written.
  ~ContentStore() { ending_.store(true); }

  // HelloResponse.content_key.
  const Digest& key() const { return files_.key(); }

  // A content in the memory of the device, charged to the quota of a session. Nothing: it is not
  // there, or the proof is wrong. RESOURCE_EXHAUSTED: a limit.
  absl::StatusOr<std::optional<Bound>> Open(const Digest& sha256, uint64_t bytes,
                                            const Digest& proof, std::string_view session_id,
                                            DeviceState& device, Quota& of_session,
                                            const WorkLimits& limits);
  // Takes a buffer of a session, which nobody writes any more. INVALID_ARGUMENT: it has another
  // SHA-256.
  absl::StatusOr<Bound> Share(const Digest& sha256, std::shared_ptr<devices::Buffer> buffer,
                              DeviceState& device, Quota& of_session, const WorkLimits& limits);

  // For values that are computed from contents (kept/shared_values.h).
  ContentMemory& memory() { return memory_; }

  // Frees what nobody uses. True if there was any.
  bool Drop() { return memory_.Drop(); }
  void NoteLosses() { memory_.NoteLosses(); }
  void set_limits(const Limits& limits) {
    memory_.set_max_bytes(limits.memory_bytes);
    files_.set_max_bytes(limits.disk_bytes);
  }
  Usage usage() const { return {memory_.usage(), files_.usage()}; }
  // Writes the gauges.
  void Publish() const;

 private:
  // Nothing: the file is gone, or was damaged.
  absl::StatusOr<std::optional<Bound>> Load(const Digest& sha256, const Digest& tag, uint64_t bytes,
                                            DeviceState& device, Quota& of_session,
                                            const WorkLimits& limits);
  absl::StatusOr<Bound> BoundTo(const Digest& sha256, std::shared_ptr<const ContentUse> use,
                                Quota& of_session) const;
  void WriteBehind(const ContentHasher::Names& names, std::shared_ptr<const ContentUse> use);

  ContentFiles files_;
  ContentMemory memory_;
  std::atomic<bool> ending_{false};
  // Declared last: its thread uses the members above, and ends first.
  TaskPool writer_{1, {}, {}, devices::ThreadPriority::kBackground};
};

}  // namespace uopd::engine
