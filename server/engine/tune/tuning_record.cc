// SPDX-License-Identifier: MIT
#include "server/engine/tune/tuning_record.h"

#include "core/base/bytes.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

constexpr uint64_t kMaxOpts = 256;
constexpr uint64_t kMaxAxis = 1 << 16;

bool GetOpts(ByteReader& in, Opts& out, absl::Status& later) {
  uint64_t n;
  if (!in.Varint(n) || n > kMaxOpts) return false;
  for (uint64_t i = 0; i < n; ++i) {
    codegen::StoredOpt stored;
    uint64_t axis;
    if (!in.Varint(stored.kind) || !in.Varint(axis) || !in.Signed(stored.amount) || axis > kMaxAxis)
      return false;
    stored.axis = static_cast<int64_t>(axis);
    if (!codegen::TakeStored(stored, out, later)) return false;
  }
  return true;
}

}  // namespace

std::string TuningRecord::Encode() const {
  std::string out;
  PutVarint(out, opts.size());
  for (const codegen::Opt& opt : opts) {
    const codegen::StoredOpt stored = codegen::Stored(opt);
    PutVarint(out, stored.kind);
    PutVarint(out, static_cast<uint64_t>(stored.axis));
    PutSigned(out, stored.amount);
  }
  PutDouble(out, seconds);
  PutDouble(out, heuristic_seconds);
  PutSigned(out, measured);
  PutSigned(out, failed);
  return out;
}

absl::StatusOr<TuningRecord> TuningRecord::Decode(std::string_view bytes) {
  ByteReader in(bytes);
  TuningRecord out;
  absl::Status later;
  if (!GetOpts(in, out.opts, later) || !in.Double(out.seconds) ||
      !in.Double(out.heuristic_seconds) || !in.Signed(out.measured) || !in.Signed(out.failed) ||
      !in.done()) {
    return absl::DataLossError("tuning record is damaged");
  }
  UOPD_TRY(later);
  return out;
}

}  // namespace uopd::engine
