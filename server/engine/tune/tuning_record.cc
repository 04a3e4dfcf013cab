// SPDX-License-Identifier: MIT
#include "server/engine/tune/tuning_record.h"

#include "core/base/bytes.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

constexpr uint64_t kMaxOpts = 256;

bool GetOpts(ByteReader& in, Opts& out) {
  uint64_t n;
  if (!in.Varint(n) || n > kMaxOpts) return false;
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t kind, axis;
    codegen::Opt opt;
    if (!in.Varint(kind) || !in.Varint(axis) || !in.Signed(opt.amount)) return false;
    if (kind >= codegen::kOptKinds || axis > 1 << 16) return false;
    opt.kind = static_cast<codegen::OptKind>(kind);
    opt.axis = static_cast<int>(axis);
    out.push_back(opt);
  }
  return true;
}

}  // namespace

std::string Text(const Opts& opts) {
  std::string out = "[";
  for (const codegen::Opt& opt : opts) Append(out, out.size() > 1 ? ", " : "", codegen::Text(opt));
  return out + "]";
}

std::string TuningRecord::Encode() const {
  std::string out;
  PutVarint(out, opts.size());
  for (const codegen::Opt& opt : opts) {
    PutVarint(out, static_cast<uint64_t>(opt.kind));
    PutVarint(out, static_cast<uint64_t>(opt.axis));
    PutSigned(out, opt.amount);
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
  if (!GetOpts(in, out.opts) || !in.Double(out.seconds) || !in.Double(out.heuristic_seconds) ||
      !in.Signed(out.measured) || !in.Signed(out.failed) || !in.done()) {
    return absl::DataLossError("tuning record is damaged");
  }
  return out;
}

}  // namespace uopd::engine
