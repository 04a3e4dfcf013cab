// SPDX-License-Identifier: MIT
// Constants in the memory of devices, by their contents and their device, for all sessions.
//
// A content stays as long as there is room: also when no session uses it, so that the next one
// finds it. It is charged once, to "content.memory_bytes" within limits.total_bytes. Those that
// nobody uses go when others need the room, the least recently used first, and all at once when
// memory for anything else is short (Drop).
//
// What runs keep that was computed from contents lies here too, under names that no client can know
// (kept/shared_values.h). A use of it ends when memory is short, so it counts as memory that can be
// freed.
//
// Thread-safe. Outlives every ContentUse.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "core/base/mutex.h"
#include "core/base/possession.h"
#include "server/engine/session/buffer_store.h"
#include "server/engine/session/quota.h"

namespace uopd::engine {

class ContentMemory;

// A content in the memory of one device.
struct HeldContent {
  ContentHasher::Names names;
  Allocation allocation;
  std::atomic<int> users{0};    // of all kinds
  std::atomic<int> buffers{0};  // users that are buffers of sessions
  std::atomic<int64_t> last_use_ns{0};
};

// One use of a content. While there is one, the content stays where it is.
class ContentUse {
 public:
  enum Kind : uint8_t {
    kBuffer,  // of a session, or what is being written to the disk
    kKept,    // by runs, until memory is short
  };

  ContentUse(ContentMemory& memory, std::shared_ptr<HeldContent> held, Kind kind);
  ~ContentUse();
  ContentUse(const ContentUse&) = delete;
  ContentUse& operator=(const ContentUse&) = delete;

  const std::shared_ptr<devices::Buffer>& buffer() const { return held_->allocation.buffer; }
  DeviceState& device() const { return *held_->allocation.device; }

 private:
  ContentMemory& memory_;
  const std::shared_ptr<HeldContent> held_;
  const Kind kind_;
};

class ContentMemory {
 public:
  // The most contents that the memories of all devices have together. It bounds the tables: a
  // client could otherwise make them large by many small contents.
  static constexpr size_t kMostContents = 1 << 14;

  struct Usage {
    int64_t bytes = 0, used_bytes = 0, most_bytes = 0;
    size_t contents = 0;
  };

  // `total` outlives this object.
  ContentMemory(int64_t max_bytes, Quota& total)
      : quota_("content.memory_bytes", max_bytes, &total) {}

  // The tag of a content that is on any device. Nothing: there is none of this size.
  std::optional<Digest> TagOf(const Digest& sha256, uint64_t bytes) const UOPD_EXCLUDES(mu_);
  // Null: the device does not have it.
  std::shared_ptr<const ContentUse> Find(const Digest& sha256, DeviceState& device,
                                         ContentUse::Kind kind = ContentUse::kBuffer)
      UOPD_EXCLUDES(mu_);
  // Takes a buffer with the contents. If there is one already, that is returned, and the buffer is
  // not needed. RESOURCE_EXHAUSTED: no room, or what is there is in use.
  absl::StatusOr<std::shared_ptr<const ContentUse>> Add(const ContentHasher::Names& names,
                                                        DeviceState& device,
                                                        std::shared_ptr<devices::Buffer> buffer,
                                                        ContentUse::Kind kind = ContentUse::kBuffer)
      UOPD_EXCLUDES(mu_);
  // Frees all that nobody uses. True if there was any.
  bool Drop() UOPD_EXCLUDES(mu_);
  // Forgets what is on devices that are lost.
  void NoteLosses() UOPD_EXCLUDES(mu_);
  // Contents that are in memory stay, also above the new limit, until the next one is added.
  void set_max_bytes(int64_t most) { quota_.set_limit(most); }
  Usage usage() const UOPD_EXCLUDES(mu_);

 private:
  friend class ContentUse;
  using Taken = std::vector<std::shared_ptr<HeldContent>>;

  std::shared_ptr<HeldContent> FindLocked(const Digest& sha256, const DeviceState& device) const
      UOPD_REQUIRES(mu_);
  // Frees contents that nobody uses until there is room for one more of `bytes`, or none is left.
  void MakeRoom(int64_t bytes) UOPD_EXCLUDES(mu_);
  // Takes the contents for which which(HeldContent&) is true out of the table.
  Taken Take(absl::FunctionRef<bool(const HeldContent&)> which) UOPD_REQUIRES(mu_);

  Quota quota_;
  mutable Mutex mu_;
  // By SHA-256; one for each device that has the content.
  absl::flat_hash_map<Digest, absl::InlinedVector<std::shared_ptr<HeldContent>, 1>> table_
      UOPD_GUARDED_BY(mu_);
  size_t held_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::engine
