// SPDX-License-Identifier: MIT
// The buffers of one session, by the handles that its client made.
//
// Thread-safe; the contents are ordered by the session's strand. Charged to the session's quota,
// which outlives the store. Buffers are zero-filled when made: memory of the pool may hold what
// another session left.
//
// Contents can be lost: a run that was ended in the middle leaves buffers that it may have written
// half. Reading one is DATA_LOSS until it is overwritten whole: by a run that writes all of it, by
// data given with a run, or by an upload in ascending order from its first byte to its last.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/engine/base/device_set.h"
#include "server/engine/session/quota.h"

namespace uopd::engine {

// Device memory with its charge. Whoever reads its contents before writing them asks for zeroes.
struct Allocation {
  DeviceState* device = nullptr;
  std::shared_ptr<devices::Buffer> buffer;
  Charge charge;
};
// What a buffer of so many bytes is charged: whole cache lines, and what the daemon needs to know
// it.
inline constexpr int64_t kBufferCost = 256;
constexpr int64_t ChargedBytes(int64_t bytes) { return (bytes + 63) / 64 * 64 + kBufferCost; }
absl::StatusOr<Allocation> Allocate(DeviceState& device, int64_t bytes, Quota& quota);
// Fills the bytes from `offset` to the end with zeroes.
absl::Status FillZero(devices::Stream& stream, devices::Buffer& buffer, size_t offset = 0);

class BufferStore {
 public:
  static constexpr size_t kMaxBuffers = 1 << 20;

  explicit BufferStore(Quota& quota, size_t max_buffers = kMaxBuffers)
      : quota_(quota), max_buffers_(max_buffers) {}
  ~BufferStore();

  Quota& quota() { return quota_; }

  // A zero-filled buffer. INVALID_ARGUMENT for handle 0 and one in use.
  absl::Status Create(uint64_t handle, DeviceState& device, uint64_t bytes) UOPD_EXCLUDES(mu_);
  absl::Status Insert(uint64_t handle, Allocation allocation) UOPD_EXCLUDES(mu_);
  // Null if there is none.
  std::shared_ptr<devices::Buffer> Find(uint64_t handle) const UOPD_EXCLUDES(mu_);
  // DATA_LOSS when the contents are lost, saying why; OK for unknown handles too.
  absl::Status CheckContents(uint64_t handle) const UOPD_EXCLUDES(mu_);
  void Lose(std::span<const uint64_t> handles, const std::string& why) UOPD_EXCLUDES(mu_);
  // A run wrote to these; of `whole` every byte.
  void Changed(std::span<const uint64_t> handles, std::span<const uint64_t> whole)
      UOPD_EXCLUDES(mu_);
  // A number that no other contents of this store ever had; 0 for an unknown handle.
  uint64_t Version(uint64_t handle) const UOPD_EXCLUDES(mu_);
  // Unknown handles are left out, so that freeing twice is no error.
  void Free(std::span<const uint64_t> handles) UOPD_EXCLUDES(mu_);
  void Clear() UOPD_EXCLUDES(mu_);

  // Copies into or out of a buffer and waits. INVALID_ARGUMENT for bytes outside of it, NOT_FOUND
  // for an unknown handle, DATA_LOSS for reading what is lost.
  absl::Status Write(DeviceSet& devices, uint64_t handle, uint64_t offset, std::string_view data);
  absl::Status Read(DeviceSet& devices, uint64_t handle, uint64_t offset, std::span<char> out);

  size_t size() const UOPD_EXCLUDES(mu_);

 private:
  struct Entry {
    Allocation allocation;
    uint64_t version = 0;
    std::string lost;       // why; empty: it is not
    uint64_t restored = 0;  // bytes from the first on that were uploaded since
  };
  void Wrote(uint64_t handle, uint64_t offset, uint64_t bytes) UOPD_EXCLUDES(mu_);

  Quota& quota_;
  const size_t max_buffers_;
  mutable Mutex mu_;
  uint64_t clock_ UOPD_GUARDED_BY(mu_) = 0;  // the latest version that was given
  absl::flat_hash_map<uint64_t, Entry> buffers_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
