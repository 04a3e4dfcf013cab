// SPDX-License-Identifier: MIT
#include "core/codegen/kernel_info.h"

namespace uopd::codegen {
namespace {

constexpr uint64_t kMaxBuffers = 1 << 16;
constexpr uint64_t kMaxOpts = 1 << 10;

bool GetBuffers(ByteReader& in, std::vector<BufferUse>& out) {
  uint64_t n;
  if (!in.Varint(n) || n > kMaxBuffers) return false;
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t dtype, use;
    BufferUse buffer;
    if (!in.Varint(dtype) || !in.Signed(buffer.elements) || !in.Varint(use)) return false;
    const auto known = ir::DtypeByWire(dtype);
    if (!known || buffer.elements < 0 || use > 3) return false;
    buffer.dtype = *known;
    buffer.read = (use & 1) != 0;
    buffer.written = (use & 2) != 0;
    out.push_back(buffer);
  }
  return true;
}

bool GetNames(ByteReader& in, std::vector<std::string>& out) {
  uint64_t n;
  if (!in.Varint(n) || n > kMaxBuffers) return false;
  for (uint64_t i = 0; i < n; ++i) {
    if (!in.String(out.emplace_back())) return false;
  }
  return true;
}

bool GetOpts(ByteReader& in, std::vector<Opt>& out, absl::Status& later) {
  uint64_t n;
  if (!in.Varint(n) || n > kMaxOpts) return false;
  for (uint64_t i = 0; i < n; ++i) {
    StoredOpt stored;
    if (!in.Varint(stored.kind) || !in.Signed(stored.axis) || !in.Signed(stored.amount))
      return false;
    if (!TakeStored(stored, out, later)) return false;
  }
  return true;
}

}  // namespace

void KernelInfo::Encode(std::string& out) const {
  PutVarint(out, buffers.size());
  for (const BufferUse& buffer : buffers) {
    PutVarint(out, ir::Info(buffer.dtype).wire);
    PutSigned(out, buffer.elements);
    PutVarint(out, (buffer.read ? 1u : 0u) | (buffer.written ? 2u : 0u));
  }
  PutVarint(out, variables.size());
  for (const std::string& variable : variables) PutString(out, variable);
  launch.Encode(out);
  PutVarint(out, opts.size());
  for (const Opt& opt : opts) {
    const StoredOpt stored = Stored(opt);
    PutVarint(out, stored.kind);
    PutSigned(out, stored.axis);
    PutSigned(out, stored.amount);
  }
  PutDouble(out, flops);
  PutDouble(out, bytes);
  PutDouble(out, estimate_ns);
  PutVarint(out, static_cast<uint64_t>(dtype));
  PutBool(out, polls);
}

absl::Status KernelInfo::Decode(ByteReader& in, KernelInfo& out) {
  absl::Status later;
  uint64_t dtype;
  if (!GetBuffers(in, out.buffers) || !GetNames(in, out.variables) ||
      !LaunchGeometry::Decode(in, out.variables.size(), out.launch) ||
      !GetOpts(in, out.opts, later) || !in.Double(out.flops) || !in.Double(out.bytes) ||
      !in.Double(out.estimate_ns) || !in.Varint(dtype) || !ir::DtypeByWire(dtype) ||
      !in.Bool(out.polls)) {
    return absl::DataLossError("facts about a kernel are damaged");
  }
  out.dtype = static_cast<DtypeNumber>(dtype);
  return later;
}

}  // namespace uopd::codegen
