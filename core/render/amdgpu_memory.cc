// SPDX-License-Identifier: MIT
#include "core/render/amdgpu_memory.h"

#include <algorithm>

#include "core/render/lines.h"

namespace uopd::render {

using ir::Dtype;
using ir::Op;
using ir::UOp;

namespace {

std::string PointerTo(UOp base) {
  const int space = base.Is(Op::PARAM) ? 1 : IsShared(base) ? 3 : 5;
  return Cat("ptr addrspace(", space, ")");
}

}  // namespace

absl::Status AmdgpuMemory::Buffer(UOp u) {
  if (LlvmScalar(u.dtype()).empty()) return NoLlvmRendering(u);
  const int64_t n = (*ctx_.ShapeOf(u))[0].const_int();
  const std::string name = text_.names[u.id()] = Cat("%acc", u.slot());
  if (IsShared(u)) {
    Append(text_.registers, "  ", name,
           " = getelementptr inbounds i8, ptr addrspace(3) @shared, i32 ", shared_.Place(ctx_, u),
           "\n");
    return absl::OkStatus();
  }
  if (!IsRegister(u)) return NoLlvmRendering(u);
  if (accumulators_.IsArray(u)) {
    Append(text_.registers, "  ", name, " = alloca [", n, " x ", LlvmInMemory(u.dtype()),
           "], align ", kWideBytes, ", addrspace(5)\n");
  } else {
    Append(text_.registers, "  ", name, " = alloca ",
           LlvmType(LlvmScalar(u.dtype()), n == 1 ? 0 : n), ", addrspace(5)\n");
  }
  return absl::OkStatus();
}

// An address. With a gate it may lie outside of its buffer, so it must not be "inbounds".
void AmdgpuMemory::Index(UOp u) {
  const std::string from = text_.names.at(u.src(0).id());
  if (accumulators_.Contain(u)) {
    text_.names[u.id()] = from;
    return;
  }
  const std::string at = text_.Operand(u.src(1), 0);
  text_.Put(text_.Fresh(u), " = getelementptr ", u.n_src() == 3 ? "" : "inbounds ",
            LlvmInMemory(u.dtype()), ", ", PointerTo(ir::MaybeBaseOf(u.src(0))), " ", from, ", ",
            LlvmScalar(u.src(1).dtype()), " ", at);
}

AmdgpuMemory::Access AmdgpuMemory::AccessOf(UOp index, int64_t lanes) {
  const UOp base = ir::MaybeBaseOf(index.src(0));
  const int64_t bytes = ir::ByteSize(index.dtype());
  Access out;
  out.type = LlvmType(LlvmInMemory(index.dtype()), lanes);
  out.pointer = PointerTo(base);
  out.bytes = std::max<int64_t>(1, lanes) * bytes;
  out.align = lanes == 0 ? bytes : std::min(kWideBytes, bytes * alignment_.Of(index.src(1)));
  out.global = base.Is(Op::PARAM);
  return out;
}

std::string AmdgpuMemory::LaneOf(const std::string& type, const std::string& vector, int64_t lane) {
  const std::string out = text_.Temporary();
  text_.Put(out, " = extractelement ", type, " ", vector, ", i64 ", lane);
  return out;
}

std::string AmdgpuMemory::Further(const Access& access, const std::string& at, int64_t lane) {
  if (lane == 0) return at;
  const std::string out = text_.Temporary();
  text_.Put(out, " = getelementptr ", access.type, ", ", access.pointer, " ", at, ", i32 ", lane);
  return out;
}

std::string AmdgpuMemory::Loaded(const Access& access, const std::string& at,
                                 const std::string& gate) {
  std::string from = at;
  const std::string out = text_.Temporary();
  if (!gate.empty() && access.global) {
    zero_bytes_ = std::max(zero_bytes_, access.bytes);
    from = text_.Temporary();
    text_.Put(from, " = select i1 ", gate, ", ", access.pointer, " ", at, ", ", access.pointer,
              " @zeros");
  } else if (!gate.empty()) {
    const int64_t k = next_block_++;
    const std::string before = text_.block, value = text_.Temporary();
    text_.Put("br i1 ", gate, ", label %load", k, ", label %loaded", k);
    text_.Label(Cat("load", k));
    text_.Put(value, " = load ", access.type, ", ", access.pointer, " ", at, ", align ",
              access.align);
    text_.Put("br label %loaded", k);
    text_.Label(Cat("loaded", k));
    text_.Put(out, " = phi ", access.type, " [ ", value, ", %load", k, " ], [ zeroinitializer, %",
              before, " ]");
    return out;
  }
  text_.Put(out, " = load ", access.type, ", ", access.pointer, " ", from, ", align ",
            access.align);
  return out;
}

void AmdgpuMemory::Load(UOp u) {
  const UOp index = u.src(0), gate = index.n_src() == 3 ? index.src(2) : UOp();
  const int64_t n = Lanes(ctx_, u);
  const std::string at = text_.names.at(index.id());
  if (accumulators_.Contain(index)) {
    const std::string held = gate ? text_.Temporary() : text_.Fresh(u);
    text_.Put(held, " = load ", text_.TypeOf(u), ", ptr addrspace(5) ", at);
    if (gate) text_.PutSelect(text_.Fresh(u), gate, n, text_.TypeOf(u), held, "zeroinitializer");
    return;
  }
  std::string loaded;
  const std::string type = AccessOf(index, n).type;
  if (gate && Lanes(ctx_, gate) > 0) {
    const Access one = AccessOf(index, 0);
    const std::string gates = text_.Operand(gate, n);
    loaded = "poison";
    for (int64_t i = 0; i < n; ++i) {
      const std::string open = LaneOf(LlvmType("i1", n), gates, i);
      const std::string value = Loaded(one, Further(one, at, i), open);
      const std::string next = text_.Temporary();
      text_.Put(next, " = insertelement ", type, " ", loaded, ", ", one.type, " ", value, ", i64 ",
                i);
      loaded = next;
    }
  } else {
    loaded = Loaded(AccessOf(index, n), at, gate ? text_.Operand(gate, 0) : std::string());
  }
  if (u.dtype() == Dtype::Bool) {
    text_.Put(text_.Fresh(u), " = icmp ne ", type, " ", loaded, ", zeroinitializer");
  } else {
    text_.names[u.id()] = loaded;
  }
}

void AmdgpuMemory::Stored(const Access& access, const std::string& at, const std::string& gate,
                          const std::string& value) {
  const int64_t k = gate.empty() ? 0 : next_block_++;
  if (!gate.empty()) {
    text_.Put("br i1 ", gate, ", label %store", k, ", label %stored", k);
    text_.Label(Cat("store", k));
  }
  text_.Put("store ", access.type, " ", value, ", ", access.pointer, " ", at, ", align ",
            access.align);
  if (gate.empty()) return;
  text_.Put("br label %stored", k);
  text_.Label(Cat("stored", k));
}

void AmdgpuMemory::Store(UOp u) {
  const UOp index = u.src(0), value = u.src(1), gate = index.n_src() == 3 ? index.src(2) : UOp();
  const int64_t n = index.arg().AsInt();
  const std::string at = text_.names.at(index.id());
  std::string x = text_.Operand(value, n);
  const std::string type = LlvmType(LlvmScalar(value.dtype()), n);
  if (accumulators_.Contain(index)) {
    if (index.n_src() == 3) {
      const std::string old = text_.Temporary(), given = x;
      text_.Put(old, " = load ", type, ", ptr addrspace(5) ", at);
      text_.PutSelect(x = text_.Temporary(), index.src(2), n, type, given, old);
    }
    text_.Put("store ", type, " ", x, ", ptr addrspace(5) ", at);
    return;
  }
  const Access access = AccessOf(index, n);
  if (value.dtype() == Dtype::Bool) {
    const std::string bytes = text_.Temporary();
    text_.Put(bytes, " = zext ", type, " ", x, " to ", access.type);
    x = bytes;
  }
  if (!gate || Lanes(ctx_, gate) == 0) {
    Stored(access, at, gate ? text_.Operand(gate, 0) : std::string(), x);
    return;
  }
  const Access one = AccessOf(index, 0);
  const std::string gates = text_.Operand(gate, n);
  for (int64_t i = 0; i < n; ++i) {
    const std::string open = LaneOf(LlvmType("i1", n), gates, i), lane = LaneOf(access.type, x, i);
    Stored(one, Further(one, at, i), open, lane);
  }
}

}  // namespace uopd::render
