// SPDX-License-Identifier: MIT
#include "server/engine/compile/kernel_record.h"

#include "core/base/bytes.h"
#include "core/ir/dtype.h"

namespace uopd::engine {
namespace {

constexpr uint64_t kMaxBuffers = 1 << 16;

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

bool Get(ByteReader& in, KernelRecord& out) {
  if (!in.String(out.name) || !in.String(out.object) || !GetBuffers(in, out.buffers) ||
      !GetNames(in, out.variables)) {
    return false;
  }
  return codegen::LaunchGeometry::Decode(in, out.variables.size(), out.launch) &&
         in.Double(out.flops) && in.Double(out.bytes) && in.Double(out.estimate_ns) &&
         in.Bool(out.polls) && in.done();
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
  PutDouble(out, flops);
  PutDouble(out, bytes);
  PutDouble(out, estimate_ns);
  PutBool(out, polls);
  return out;
}

absl::StatusOr<KernelRecord> KernelRecord::Decode(std::string_view bytes) {
  ByteReader in(bytes);
  KernelRecord out;
  if (!Get(in, out)) return absl::DataLossError("kernel record is damaged");
  return out;
}

}  // namespace uopd::engine
