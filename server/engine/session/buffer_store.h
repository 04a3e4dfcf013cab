// SPDX-License-Identifier: MIT
// The buffers of one session, by the handles that its client chose.
//
// Thread-safe. The session's strand orders the accesses to the contents. Buffers are charged to the
// session's quota, which outlives the store. New buffers are filled with zeroes, because memory of
// the pool may hold what another session left. A buffer that an upload makes and fills from its
// first byte on is not cleared before: what is missing is cleared when something else needs the
// buffer.
//
// Contents can be lost: a run that ended in the middle leaves buffers that it may have written in
// part. Reading such a buffer is DATA_LOSS until the whole buffer is overwritten: by a run that
// writes all of it, by data that a run brings, or by an upload in ascending order from its first
// byte to its last.
//
// A buffer can be lost with its device. Then its memory is given up at once. The next call of the
// session is told once, by TakeLoss, which devices and handles are lost. Every later use of such a
// handle is DATA_LOSS too, until the handle is freed; after that it may name a new buffer.
//
// A buffer can be a constant: its contents have a name, their SHA-256, and no call may write it.
// Its memory may belong to others, too (content/content_memory.h).
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/engine/base/device_set.h"
#include "server/engine/session/quota.h"

namespace uopd::engine {

// Device memory with its charge. It is not cleared: a user that reads it before writing it asks for
// zeroes.
struct Allocation {
  DeviceState* device = nullptr;
  std::shared_ptr<devices::Buffer> buffer;
  Charge charge;
};
// The charge for a buffer of this many bytes: whole cache lines, plus the daemon's own memory for
// the buffer.
inline constexpr int64_t kBufferCost = 256;
constexpr int64_t ChargedBytes(int64_t bytes) { return (bytes + 63) / 64 * 64 + kBufferCost; }
absl::StatusOr<Allocation> Allocate(DeviceState& device, int64_t bytes, Quota& quota,
                                    ByteClass what = ByteClass::kBuffers);
// Allocates memory that only work of `stream` uses.
absl::StatusOr<Allocation> Allocate(DeviceState& device, devices::Stream& stream, int64_t bytes,
                                    Quota& quota);
// Fills the bytes from `offset` to the end with zeroes.
absl::Status FillZero(devices::Stream& stream, devices::Buffer& buffer, size_t offset = 0);
// True if the host may copy from and to the buffer itself. Calls of a session come in turn, so no
// stream uses the buffer then.
bool IsHostMemory(const devices::Buffer& buffer);
// The handles for a message: the first eight, and how many more there are. "3, 5 and 7 more".
std::string NameHandles(std::span<const uint64_t> handles);

// What a buffer is that no call may write.
struct Constant {
  Digest sha256;  // of its contents
  // Keeps the memory for others that use it. Null: the memory is the session's own.
  std::shared_ptr<const void> maybe_shared;
};

class BufferStore {
 public:
  static constexpr size_t kMaxBuffers = 1 << 20;

  explicit BufferStore(Quota& quota, size_t max_buffers = kMaxBuffers)
      : quota_(quota), max_buffers_(max_buffers) {}
  ~BufferStore();

  Quota& quota() { return quota_; }
  // Buffers that exist stay, also above the new limit.
  void set_max_buffers(size_t most) { max_buffers_.store(most, std::memory_order_relaxed); }

  // Makes a zero-filled buffer. INVALID_ARGUMENT: the handle is 0 or in use.
  absl::Status Create(uint64_t handle, DeviceState& device, uint64_t bytes) UOPD_EXCLUDES(mu_);
  absl::Status Insert(uint64_t handle, Allocation allocation) UOPD_EXCLUDES(mu_);
  // Insert for a buffer that is a constant: no call may write it.
  absl::Status InsertConstant(uint64_t handle, Allocation allocation, Constant constant)
      UOPD_EXCLUDES(mu_);
  // Makes a buffer a constant. `allocation` has the same contents and takes the place of its
  // memory; without a buffer, the memory stays. NOT_FOUND: an unknown handle.
  absl::Status MakeConstant(uint64_t handle, Allocation allocation, Constant constant)
      UOPD_EXCLUDES(mu_);
  // The SHA-256 of the contents, if the buffer is a constant.
  std::optional<Digest> ConstantOf(uint64_t handle) const UOPD_EXCLUDES(mu_);
  // INVALID_ARGUMENT if the buffer is a constant. OK for unknown handles too.
  absl::Status CheckWritable(uint64_t handle) const UOPD_EXCLUDES(mu_);
  // Makes a buffer that reads as zeroes, for an upload. INVALID_ARGUMENT: as Create.
  absl::Status CreateForUpload(uint64_t handle, DeviceState& device, uint64_t bytes)
      UOPD_EXCLUDES(mu_);
  // The buffer, with all of its contents. Null if there is none.
  std::shared_ptr<devices::Buffer> Find(uint64_t handle) UOPD_EXCLUDES(mu_);
  // The same to look at its size and device. What an upload has not written yet may not be cleared.
  std::shared_ptr<devices::Buffer> Peek(uint64_t handle) const UOPD_EXCLUDES(mu_);
  // DATA_LOSS, with the reason, if the contents are lost. OK for unknown handles too.
  absl::Status CheckContents(uint64_t handle) const UOPD_EXCLUDES(mu_);
  void Lose(std::span<const uint64_t> handles, const std::string& why) UOPD_EXCLUDES(mu_);
  // A run wrote to `handles`. It wrote every byte of the buffers in `whole`.
  void Changed(std::span<const uint64_t> handles, std::span<const uint64_t> whole)
      UOPD_EXCLUDES(mu_);
  // A number that identifies the contents: no other contents of this store ever had it. 0 for an
  // unknown handle.
  uint64_t Version(uint64_t handle) const UOPD_EXCLUDES(mu_);
  // The version of each handle.
  std::vector<uint64_t> Versions(std::span<const uint64_t> handles) const UOPD_EXCLUDES(mu_);
  // Takes away the buffers of devices that are lost. True: there were some.
  bool NoteLosses() UOPD_EXCLUDES(mu_);
  // NoteLosses. DATA_LOSS names the devices and the buffers that were lost since the last call.
  absl::Status TakeLoss() UOPD_EXCLUDES(mu_);
  // Why `handle`, for which Find gives null, names no buffer. DATA_LOSS: TakeLoss, or the buffer
  // was lost with its device. Otherwise NOT_FOUND.
  absl::Status Missing(uint64_t handle) UOPD_EXCLUDES(mu_);
  // DATA_LOSS if the buffer was lost with its device. OK for all other handles.
  absl::Status CheckGone(uint64_t handle) const UOPD_EXCLUDES(mu_);
  // Unknown handles are ignored, so freeing a buffer twice is no error.
  void Free(std::span<const uint64_t> handles) UOPD_EXCLUDES(mu_);
  void Clear() UOPD_EXCLUDES(mu_);

  // Copies into or out of a buffer, and waits. INVALID_ARGUMENT: bytes outside of the buffer.
  // INVALID_ARGUMENT also for writing a constant. NOT_FOUND: an unknown handle. DATA_LOSS: reading
  // lost contents.
  absl::Status Write(DeviceSet& devices, uint64_t handle, uint64_t offset, std::string_view data);
  absl::Status Read(DeviceSet& devices, uint64_t handle, uint64_t offset, std::span<char> out);
  // The same with a function that copies from or to other memory, which may be the buffer's own.
  // It is called once. If the copy into a buffer fails, its contents are lost.
  using CopyTo = std::function<absl::Status(std::span<std::byte> into)>;
  using CopyFrom = std::function<absl::Status(std::span<const std::byte> from)>;
  absl::Status WriteBy(DeviceSet& devices, uint64_t handle, uint64_t offset, uint64_t bytes,
                       const CopyTo& copy);
  absl::Status ReadBy(DeviceSet& devices, uint64_t handle, uint64_t offset, uint64_t bytes,
                      const CopyFrom& copy);

  // True if a write at `offset` only has to copy. False if it makes a large buffer, of `bytes`
  // bytes, or clears a large part of one.
  bool OnlyCopies(uint64_t handle, uint64_t offset, uint64_t bytes) const UOPD_EXCLUDES(mu_);
  // True if there is a large buffer that Find may have to clear.
  bool HasUnfilled() const { return unfilled_.load(std::memory_order_relaxed) > 0; }
  size_t size() const UOPD_EXCLUDES(mu_);

 private:
  static constexpr uint64_t kLittle = 1 << 20;  // bytes that are made and cleared in no time
  static constexpr uint64_t kAll = UINT64_MAX;
  struct Entry {
    Allocation allocation;
    uint64_t version = 0;
    uint64_t filled =
        kAll;          // bytes that have contents, from the first one on; the rest is not cleared
    std::string lost;  // why the contents are lost; empty: they are not
    uint64_t restored = 0;  // bytes uploaded since then, from the first one on
    std::optional<Constant> constant{};
  };
  absl::StatusOr<Allocation> AllocateNew(uint64_t handle, DeviceState& device, uint64_t bytes)
      UOPD_EXCLUDES(mu_);
  absl::Status Insert(uint64_t handle, Allocation allocation, uint64_t filled,
                      std::optional<Constant> constant = {}) UOPD_EXCLUDES(mu_);
  // The allocation of a buffer that a write at `offset` fills or overwrites. Clears what such a
  // write would leave out.
  absl::StatusOr<std::shared_ptr<devices::Buffer>> ForWrite(uint64_t handle, uint64_t offset,
                                                            uint64_t bytes) UOPD_EXCLUDES(mu_);
  // Clears what an upload has not filled.
  void Complete(uint64_t handle) UOPD_EXCLUDES(mu_);
  void Wrote(uint64_t handle, uint64_t offset, uint64_t bytes) UOPD_EXCLUDES(mu_);

  // Counts one buffer more (1) or less (-1) on the device. Shared memory is not counted: it is
  // somebody else's.
  void Count(const Entry& entry, int by) UOPD_REQUIRES(mu_);

  // Changes `filled`.
  void SetFilled(Entry& entry, uint64_t filled) UOPD_REQUIRES(mu_);

  Quota& quota_;
  std::atomic<size_t> max_buffers_;
  std::atomic<size_t> unfilled_{0};  // buffers larger than kLittle whose `filled` is not kAll
  mutable Mutex mu_;
  uint64_t clock_ UOPD_GUARDED_BY(mu_) = 0;  // the latest version given
  absl::flat_hash_map<uint64_t, Entry> buffers_ UOPD_GUARDED_BY(mu_);
  // The devices with buffers of this store, and the number of these buffers.
  absl::InlinedVector<std::pair<DeviceState*, int64_t>, 2> devices_ UOPD_GUARDED_BY(mu_);
  // Handles of buffers that were lost with their device -> the device and the reason.
  absl::flat_hash_map<uint64_t, std::shared_ptr<const std::string>> gone_ UOPD_GUARDED_BY(mu_);
  std::string untold_ UOPD_GUARDED_BY(mu_);  // losses that TakeLoss has not returned yet
};

}  // namespace uopd::engine
