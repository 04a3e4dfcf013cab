// SPDX-License-Identifier: MIT
// Contents of buffers in pieces, also of devices whose memory the host cannot reach. Each function
// waits for its copies. Thread-safe; no run may write the buffer meanwhile.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "core/base/work_limits.h"
#include "server/engine/base/device_set.h"

namespace uopd::engine {

// Calls take(offset, piece) for all of the buffer, in order. An error of it, or that nobody wants
// the result any more, ends the call.
absl::Status ReadPieces(
    DeviceState& device, devices::Buffer& buffer, const WorkLimits& limits,
    absl::FunctionRef<absl::Status(uint64_t offset, std::string_view piece)> take);

// Takes pieces of a buffer that nobody else uses yet. Not thread-safe.
class PieceWriter {
 public:
  static absl::StatusOr<PieceWriter> Begin(DeviceState& device,
                                           std::shared_ptr<devices::Buffer> buffer);
  absl::Status Write(uint64_t offset, std::string_view piece);
  absl::Status Finish() { return stream_.Finish(); }

 private:
  PieceWriter(StreamLease stream, std::shared_ptr<devices::Buffer> buffer)
      : stream_(std::move(stream)), buffer_(std::move(buffer)) {}
  StreamLease stream_;
  std::shared_ptr<devices::Buffer> buffer_;
};

}  // namespace uopd::engine
