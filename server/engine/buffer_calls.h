// SPDX-License-Identifier: MIT
// BufferCalls: the calls about the buffers of a session. A call that finds no memory waits for work
// that gives way, and tries once more. After the loss of a device a call tells it (losses.h).
//
// Each call is made on the strand of its session. Thread-safe.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "server/engine/base/device_set.h"
#include "server/engine/base/preemptible.h"
#include "server/engine/losses.h"
#include "server/engine/session/session.h"

namespace uopd::engine {

// Bytes of the memory that a client shares with the daemon.
struct AreaRange {
  uint64_t area = 0, offset = 0, bytes = 0;
};

class BufferCalls {
 public:
  // The arguments outlive this object.
  BufferCalls(DeviceSet& devices, PreemptibleTable& preemptible, Losses& losses)
      : devices_(devices), preemptible_(preemptible), losses_(losses) {}

  absl::Status Create(Session& session, uint64_t handle, uint64_t bytes, std::string_view device);
  // If the handle is new and `bytes` gives a size, creates the buffer and returns true.
  absl::StatusOr<bool> OpenUpload(Session& session, uint64_t handle, uint64_t bytes,
                                  std::string_view device);
  absl::Status Write(Session& session, uint64_t handle, uint64_t offset, std::string_view data);
  absl::Status Read(Session& session, uint64_t handle, uint64_t offset, std::span<char> out);
  // Write and Read in shared memory. NOT_FOUND: no such area. INVALID_ARGUMENT: bytes outside it.
  absl::Status WriteFromArea(Session& session, uint64_t handle, uint64_t offset,
                             const AreaRange& range);
  absl::Status ReadToArea(Session& session, uint64_t handle, uint64_t offset,
                          const AreaRange& range);

  // Does `work` unless there is a loss to tell. Without memory it is done once more: it leaves
  // nothing behind then.
  absl::Status Do(Session& session, absl::FunctionRef<absl::Status()> work);

 private:
  DeviceSet& devices_;
  PreemptibleTable& preemptible_;
  Losses& losses_;
};

}  // namespace uopd::engine
