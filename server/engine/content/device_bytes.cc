// SPDX-License-Identifier: MIT
#include "server/engine/content/device_bytes.h"

#include <algorithm>
#include <string>

#include "server/engine/session/buffer_store.h"

namespace uopd::engine {
namespace {

constexpr size_t kPieceOfDevice = 1 << 20;  // bytes between two looks at the limits

}  // namespace

absl::Status ReadPieces(
    DeviceState& device, devices::Buffer& buffer, const WorkLimits& limits,
    absl::FunctionRef<absl::Status(uint64_t offset, std::string_view piece)> take) {
  const bool direct = IsHostMemory(buffer);
  UOPD_ASSIGN(StreamLease stream, StreamLease::Take(device));
  std::string copy;
  for (size_t at = 0; at < buffer.size(); at += kPieceOfDevice) {
    UOPD_TRY(limits.Check());
    const size_t bytes = std::min(kPieceOfDevice, buffer.size() - at);
    std::string_view piece;
    if (direct) {
      piece = {reinterpret_cast<const char*>(buffer.host_data() + at), bytes};
    } else {
      copy.resize(bytes);
      UOPD_TRY(stream->CopyOut(buffer, at, std::as_writable_bytes(std::span(copy))));
      UOPD_TRY(stream->Synchronize());
      piece = copy;
    }
    UOPD_TRY(take(at, piece));
  }
  return stream.Finish();
}

absl::StatusOr<PieceWriter> PieceWriter::Begin(DeviceState& device,
                                               std::shared_ptr<devices::Buffer> buffer) {
  UOPD_ASSIGN(StreamLease stream, StreamLease::Take(device));
  return PieceWriter(std::move(stream), std::move(buffer));
}

absl::Status PieceWriter::Write(uint64_t offset, std::string_view piece) {
  UOPD_TRY(stream_->CopyIn(std::as_bytes(std::span(piece)), *buffer_, offset));
  return stream_->Synchronize();  // the caller uses the memory of the piece again
}

}  // namespace uopd::engine
