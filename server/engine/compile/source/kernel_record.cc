// SPDX-License-Identifier: MIT
#include "server/engine/compile/source/kernel_record.h"

#include "core/base/bytes.h"
#include "core/ir/dtype.h"

namespace uopd::engine {
namespace {

constexpr uint64_t kMaxBuffers = 1 << 16;
constexpr uint64_t kMaxOpts = 1 << 10;

bool GetBuffers(ByteReader& in, std::vector<codegen::BufferUse>& out) {
  uint64_t n;
  if (!in.Varint(n) || n > kMaxBuffers) return false;
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t dtype, use;
    codegen::BufferUse buffer;
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

bool GetOpts(ByteReader& in, std::vector<codegen::Opt>& out) {
  uint64_t n;
  if (!in.Varint(n) || n > kMaxOpts) return false;
  for (uint64_t i = 0; i < n; ++i) {
    codegen::StoredOpt stored;
    if (!in.Varint(stored.kind) || !in.Signed(stored.axis) || !in.Signed(stored.amount))
      return false;
    const auto opt = codegen::FromStored(stored);
    if (!opt.ok()) return false;
    out.push_back(*opt);
  }
  return true;
}

bool Get(ByteReader& in, KernelRecord& out) {
  if (!in.String(out.name) || !in.String(out.object) || !GetBuffers(in, out.buffers) ||
      !GetNames(in, out.variables)) {
    return false;
  }
  uint64_t dtype;
  if (!codegen::LaunchGeometry::Decode(in, out.variables.size(), out.launch) ||
      !GetOpts(in, out.opts) || !in.Double(out.flops) || !in.Double(out.bytes) ||
      !in.Double(out.estimate_ns) || !in.Varint(dtype) || !ir::DtypeByWire(dtype)) {
    return false;
  }
  out.dtype = static_cast<DtypeNumber>(dtype);
  return in.Bool(out.polls) && in.done();
}

}  // namespace

std::string KernelRecord::Encode() const {
  std::string out;
  PutString(out, name);
  PutString(out, object);
  PutVarint(out, buffers.size());
  for (const codegen::BufferUse& buffer : buffers) {
    PutVarint(out, ir::Info(buffer.dtype).wire);
    PutSigned(out, buffer.elements);
    PutVarint(out, (buffer.read ? 1u : 0u) | (buffer.written ? 2u : 0u));
  }
  PutVarint(out, variables.size());
  for (const std::string& variable : variables) PutString(out, variable);
  launch.Encode(out);
  PutVarint(out, opts.size());
  for (const codegen::Opt& opt : opts) {
    const codegen::StoredOpt stored = codegen::Stored(opt);
    PutVarint(out, stored.kind);
    PutSigned(out, stored.axis);
    PutSigned(out, stored.amount);
  }
  PutDouble(out, flops);
  PutDouble(out, bytes);
  PutDouble(out, estimate_ns);
  PutVarint(out, static_cast<uint64_t>(dtype));
  PutBool(out, polls);
  return out;
}

absl::StatusOr<KernelRecord> KernelRecord::Decode(std::string_view bytes) {
  ByteReader in(bytes);
  KernelRecord out;
  if (!Get(in, out)) return absl::DataLossError("kernel record is damaged");
  return out;
}

Digest KernelSource::digest() const {
  std::string all;
  PutString(all, record.Encode());
  PutString(all, text);
  return HashBytes(all);
}

}  // namespace uopd::engine
