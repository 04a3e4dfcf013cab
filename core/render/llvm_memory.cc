// SPDX-License-Identifier: MIT
#include "core/render/llvm_memory.h"

#include <algorithm>

#include "core/render/lines.h"

namespace uopd::render {

using ir::Op;
using ir::UOp;

int64_t GatedIndices::DepthOf(UOp u) {
  if (u.Is(Op::CONST)) return 0;
  if (const auto it = depths_.find(u.id()); it != depths_.end()) return it->second;
  int64_t out = 0;
  if (u.Is(Op::RANGE)) {
    const auto at = std::find(open_.begin(), open_.end(), u);
    out = at == open_.end() ? 0 : at - open_.begin() + 1;
  } else if (!u.Is({Op::LOAD, Op::PARAM, Op::BUFFER, Op::AFTER, Op::END})) {
    for (UOp s : u.srcs()) out = std::max(out, DepthOf(s));
  } else {
    out = static_cast<int64_t>(open_.size());
  }
  return depths_[u.id()] = out;
}

GatedIndex GatedIndices::PartsOf(UOp index, int64_t limit) {
  GatedIndex out;
  const int64_t depth = DepthOf(index.src(2));
  std::vector<UOp> todo = {index.src(1)};
  while (!todo.empty()) {
    const UOp u = todo.back();
    todo.pop_back();
    if (u.Is(Op::CONST)) {
      out.offset += u.const_int();
    } else if (u.Is(Op::ADD) && (u.src(1).Is(Op::CONST) || DepthOf(u) > depth)) {
      todo.push_back(u.src(1));
      todo.push_back(u.src(0));
    } else if (DepthOf(u) <= depth) {
      out.starts.push_back(u);
    } else {
      const auto bounds = ctx_.BoundsOf(u);
      const bool fits = bounds.known() && bounds.min >= 0 && out.most + bounds.max < limit;
      if (fits) out.most += std::max<int64_t>(0, static_cast<int64_t>(bounds.max));
      (fits ? out.steps : out.starts).push_back(u);
    }
  }
  return out;
}

namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr int64_t kStreamed = 1;        // the tag of a STORE around the caches (docs/ir_linear.md)
constexpr int64_t kLeastStreamed = 16;  // bytes of a vector that is stored around the caches
constexpr int64_t kMostZeroBytes = 16384;  // of the zeros that loads read whose gate is false
constexpr int64_t kPatience = 4096;        // polls of a thread that waits, before it yields
constexpr int64_t kBufferAlignment = 64;   // of every buffer whose size is a multiple of it

}  // namespace

void LlvmMemory::OpenLoop(UOp range) {
  gated_.clear();
  gated_indices_.Open(range);
}

void LlvmMemory::CloseLoop() {
  gated_.clear();
  gated_indices_.Close();
}

absl::Status LlvmMemory::Buffer(UOp u) {
  const int64_t n = (*ctx_.ShapeOf(u))[0].const_int();
  const std::string name = text_.names[u.id()] = Cat("%acc", u.slot());
  if (IsShared(u)) {
    Append(text_.registers, "  ", name, " = getelementptr inbounds i8, ptr %shared, i64 ",
           shared_bytes_, "\n");
    shared_bytes_ += n * kSharedElement;
    return absl::OkStatus();
  }
  if (!IsRegister(u)) return NoLlvmRendering(u);
  if (accumulators_.IsArray(u)) {
    Append(text_.registers, "  ", name, " = alloca [", n, " x ", LlvmInMemory(u.dtype()),
           "], align 64\n");
  } else {
    Append(text_.registers, "  ", name, " = alloca ",
           LlvmType(LlvmScalar(u.dtype()), n == 1 ? 0 : n), "\n");
  }
  return absl::OkStatus();
}

// An address. With a gate it may lie outside of its buffer, so it must not be "inbounds".
absl::Status LlvmMemory::Index(UOp u) {
  const std::string from = text_.names.at(u.src(0).id());
  if (accumulators_.Contain(u)) {
    text_.names[u.id()] = from;
    return absl::OkStatus();
  }
  const std::string at = text_.Operand(u.src(1), 0);
  const bool shared = IsShared(ir::MaybeBaseOf(u.src(0)));
  text_.Put(text_.Fresh(u), " = getelementptr ", u.n_src() == 3 ? "" : "inbounds ",
            shared ? Cat("[", kSharedElement, " x i8]") : std::string(LlvmInMemory(u.dtype())),
            ", ptr ", from, ", ", LlvmScalar(u.src(1).dtype()), " ", at);
  return absl::OkStatus();
}

absl::Status LlvmMemory::Load(UOp u) {
  const UOp index = u.src(0);
  const int64_t n = Lanes(ctx_, u), align = ir::ByteSize(u.dtype());
  std::string at = text_.names.at(index.id());
  const std::string value_type = text_.TypeOf(u);
  // Where the gate of an element of a shared array is false, it is element 0, which holds 0.
  const bool shared = IsShared(ir::MaybeBaseOf(index.src(0)));
  if (shared) Wait(index);
  if (accumulators_.Contain(index)) {
    const std::string held = index.n_src() < 3 ? text_.Fresh(u) : text_.Temporary();
    text_.Put(held, " = load ", value_type, ", ptr ", at);
    if (index.n_src() == 3)
      text_.PutSelect(text_.Fresh(u), index.src(2), n, value_type, held, "zeroinitializer");
    return absl::OkStatus();
  }
  const bool is_bool = u.dtype() == Dtype::Bool;
  const std::string type = LlvmType(is_bool ? "i8" : LlvmScalar(u.dtype()), n);
  // To the second-level cache: the first one holds what the kernel works on.
  if (u.tag() != 0 && n > 0) {
    const std::string ahead = text_.Temporary();
    text_.Put(ahead, " = getelementptr ", LlvmInMemory(u.dtype()), ", ptr ", at, ", i64 ", u.tag());
    text_.Put(text_.Call("@llvm.prefetch.p0", "void",
                         {{"ptr", ahead}, {"i32", "0"}, {"i32", "2"}, {"i32", "1"}}));
  }
  std::string loaded;
  if (index.n_src() == 3 && Lanes(ctx_, index.src(2)) > 0) {
    const std::string mask = text_.Operand(index.src(2), n);
    const std::string name =
        Cat("@llvm.masked.load.", LlvmMangled(is_bool ? Dtype::U8 : u.dtype(), n), ".p0");
    const std::string call = text_.Call(
        name, type,
        {{"ptr", at}, {"i32", Cat(align)}, {LlvmType("i1", n), mask}, {type, "zeroinitializer"}});
    text_.Put(loaded = text_.Temporary(), " = ", call);
  } else {
    if (index.n_src() == 3 && !shared) at = Gated(index, std::max<int64_t>(1, n));
    text_.Put(loaded = text_.Temporary(), " = load ", type, ", ptr ", at, ", align ", align);
  }
  if (is_bool) {
    text_.Put(text_.Fresh(u), " = icmp ne ", type, " ", loaded,
              n > 0 ? ", zeroinitializer" : ", 0");
  } else {
    text_.names[u.id()] = loaded;
  }
  return absl::OkStatus();
}

// Waits until the element of a shared array is stored, or leaves the kernel if the stop word is
// set. A thread that waits long lets others have its processor.
void LlvmMemory::Wait(UOp index) {
  waits_ = true;
  const std::string k = Cat(next_block_++);
  const std::string flag = text_.Temporary(), before = text_.block;
  text_.Put(flag, " = getelementptr i8, ptr ", text_.names.at(index.id()), ", i64 ", kSharedFlag);
  const std::string gate = index.n_src() == 3 ? text_.Operand(index.src(2), 0) : "true";
  text_.Put("br i1 ", gate, ", label %wait", k, ", label %ready", k);
  text_.Label(Cat("wait", k));
  text_.Put("%polled", k, " = phi i32 [ 0, %", before, " ], [ %polls", k, ", %unready", k,
            " ], [ %polled", k, ", %yield", k, " ]");
  text_.Put("%stored", k, " = load atomic i32, ptr ", flag, " acquire, align 8");
  text_.Put("%set", k, " = icmp ne i32 %stored", k, ", 0");
  text_.Put("br i1 %set", k, ", label %ready", k, ", label %ask", k);
  text_.Label(Cat("ask", k));
  text_.Put("%word", k, "w = load atomic i32, ptr %stop monotonic, align 4");
  text_.Put("%halt", k, "w = icmp ne i32 %word", k, "w, 0");
  text_.Put("br i1 %halt", k, "w, label %stopped, label %unready", k);
  text_.Label(Cat("unready", k));
  text_.Put("%polls", k, " = add i32 %polled", k, ", 1");
  text_.Put("%patient", k, " = icmp slt i32 %polls", k, ", ", kPatience);
  text_.Put("br i1 %patient", k, ", label %wait", k, ", label %yield", k);
  text_.Label(Cat("yield", k));
  text_.Put(text_.Temporary(), " = ", text_.Call("@sched_yield", "i32", {}));
  text_.Put("br label %wait", k);
  text_.Label(Cat("ready", k));
}

// The address of an element that is loaded under a gate: its own, or one of zeros. LLVM moves the
// choice between the two out of the loops that the gate does not depend on. Elements with the same
// gate at constant distances share one choice, so LLVM can join the loads of neighbours.
std::string LlvmMemory::Gated(UOp index, int64_t elements) {
  const GatedIndex parts = gated_indices_.PartsOf(index, kMostZeroBytes);
  std::vector<uint32_t> key = {index.src(0).id(), index.src(2).id()};
  for (const auto* list : {&parts.starts, &parts.steps}) {
    for (UOp u : *list) key.push_back(u.id());
    key.push_back(UINT32_MAX);
  }
  const int64_t bytes = ir::ByteSize(index.dtype());
  const std::string_view type = LlvmScalar(index.src(1).dtype()),
                         element = LlvmInMemory(index.dtype());
  const auto needed = [&](int64_t start) {
    return (parts.offset - start + parts.most + elements) * bytes;
  };
  auto& known = gated_[key];
  const auto near = std::find_if(known.begin(), known.end(), [&](const auto& k) {
    return k.first <= parts.offset && needed(k.first) <= kMostZeroBytes;
  });
  int64_t start = parts.offset;
  std::string chosen;
  if (near != known.end()) {
    start = near->first;
    chosen = near->second;
  } else {
    std::string at = Cat(start);
    for (UOp u : parts.starts) at = Sum(type, at, text_.Operand(u, 0));
    const std::string own = text_.Temporary();
    text_.Put(own, " = getelementptr ", element, ", ptr ", text_.names.at(index.src(0).id()), ", ",
              type, " ", at);
    chosen = text_.Temporary();
    text_.Put(chosen, " = select i1 ", text_.Operand(index.src(2), 0), ", ptr ", own,
              ", ptr @zeros");
    known.emplace_back(start, chosen);
  }
  zero_bytes_ = std::max(zero_bytes_, (needed(start) + 7) / 8 * 8);
  if (parts.steps.empty() && start == parts.offset) return chosen;
  std::string step = Cat(parts.offset - start);
  for (UOp u : parts.steps) step = Sum(type, step, text_.Operand(u, 0));
  const std::string out = text_.Temporary();
  text_.Put(out, " = getelementptr ", element, ", ptr ", chosen, ", ", type, " ", step);
  return out;
}

std::string LlvmMemory::Sum(std::string_view type, const std::string& a, const std::string& b) {
  const std::string out = text_.Temporary();
  text_.Put(out, " = add ", type, " ", b, ", ", a);
  return out;
}

absl::Status LlvmMemory::Store(UOp u) {
  const UOp index = u.src(0), value = u.src(1);
  const int64_t n = index.arg().AsInt(), align = ir::ByteSize(value.dtype());
  const std::string& at = text_.names.at(index.id());
  std::string x = text_.Operand(value, n), type = LlvmType(LlvmScalar(value.dtype()), n);
  if (accumulators_.Contain(index)) {
    if (index.n_src() == 3) {
      const std::string old = text_.Temporary(), given = x;
      text_.Put(old, " = load ", type, ", ptr ", at);
      text_.PutSelect(x = text_.Temporary(), index.src(2), n, type, given, old);
    }
    text_.Put("store ", type, " ", x, ", ptr ", at);
    return absl::OkStatus();
  }
  const bool is_bool = value.dtype() == Dtype::Bool;
  if (is_bool) {
    const std::string bytes = text_.Temporary(), byte_type = LlvmType("i8", n);
    text_.Put(bytes, " = zext ", type, " ", x, " to ", byte_type);
    x = bytes;
    type = byte_type;
  }
  if (const int64_t aligned = StreamedAlignment(u); aligned > 0) {
    streams_ = true;
    text_.Put("store ", type, " ", x, ", ptr ", at, ", align ", aligned, ", !nontemporal !0");
  } else if (index.n_src() < 3) {
    text_.Put("store ", type, " ", x, ", ptr ", at, ", align ", align);
    if (IsShared(ir::MaybeBaseOf(index.src(0)))) {
      const std::string flag = text_.Temporary();
      text_.Put(flag, " = getelementptr i8, ptr ", at, ", i64 ", kSharedFlag);
      text_.Put("store atomic i32 1, ptr ", flag, " release, align 8");
    }
  } else if (n > 0) {
    const std::string mask = text_.Operand(index.src(2), n);
    const std::string name =
        Cat("@llvm.masked.store.", LlvmMangled(is_bool ? Dtype::U8 : value.dtype(), n), ".p0");
    text_.Put(text_.Call(name, "void",
                         {{type, x}, {"ptr", at}, {"i32", Cat(align)}, {LlvmType("i1", n), mask}}));
  } else {
    const int64_t k = next_block_++;
    text_.Put("br i1 ", text_.Operand(index.src(2), 0), ", label %store", k, ", label %stored", k);
    text_.Label(Cat("store", k));
    text_.Put("store ", type, " ", x, ", ptr ", at, ", align ", align);
    text_.Put("br label %stored", k);
    text_.Label(Cat("stored", k));
  }
  return absl::OkStatus();
}

// The alignment of a vector that is stored around the caches; 0: it cannot be. Processors do so
// only with vectors at multiples of their size. The start of a buffer is a multiple of 64 bytes,
// or of the largest power of two that divides the size of the buffer.
int64_t LlvmMemory::StreamedAlignment(UOp store) {
  const UOp index = store.src(0), base = index.src(0);
  if (store.tag() != kStreamed || index.n_src() > 2 || !base.Is(Op::PARAM)) return 0;
  const int64_t lanes = index.arg().AsInt(), bytes = ir::ByteSize(store.src(1).dtype());
  if (lanes * bytes < kLeastStreamed) return 0;
  const int64_t aligned = std::min<int64_t>(lanes * bytes, kBufferAlignment);
  const int64_t elements = (*ctx_.ShapeOf(base))[0].const_int();
  const bool fits =
      elements * bytes % aligned == 0 && FactorOf(index.src(1)) * bytes % aligned == 0;
  return fits ? aligned : 0;
}

// A power of two that divides the value, at most kBufferAlignment.
int64_t LlvmMemory::FactorOf(UOp u) {
  const auto [it, fresh] = factors_.try_emplace(u.id(), 1);
  if (!fresh) return it->second;
  int64_t factor = 1;
  if (u.Is(Op::CONST)) {
    const int64_t v = u.const_int();
    factor = v == 0 ? kBufferAlignment : v & -v;
  } else if (u.Is(Op::ADD)) {
    factor = std::min(FactorOf(u.src(0)), FactorOf(u.src(1)));
  } else if (u.Is(Op::MUL)) {
    factor = FactorOf(u.src(0)) * FactorOf(u.src(1));
  } else if (u.Is(Op::SHL) && u.src(1).Is(Op::CONST)) {
    factor = FactorOf(u.src(0)) << std::min<int64_t>(u.src(1).const_int(), 6);
  } else if (u.Is(Op::CAST) && !ir::IsFloat(u.src(0).dtype())) {
    factor = FactorOf(u.src(0));
  }
  return factors_[u.id()] = std::min(factor, kBufferAlignment);
}

}  // namespace uopd::render
