// SPDX-License-Identifier: MIT
#include "core/render/llvm_ir.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/render/gated_index.h"
#include "core/render/lines.h"
#include "core/render/spelling.h"

namespace uopd::render {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

std::string_view Scalar(Dtype d) {
  const TypeSpelling* type = SpellingOf(d);
  return type == nullptr ? std::string_view() : type->llvm;
}
std::string_view InMemory(Dtype d) { return d == Dtype::Bool ? "i8" : Scalar(d); }
std::string Type(std::string_view scalar, int64_t lanes) {
  return lanes == 0 ? std::string(scalar) : Cat("<", lanes, " x ", scalar, ">");
}
// A type as it is written in the name of an intrinsic.
std::string Mangled(Dtype d, int64_t lanes) {
  const std::string s(SpellingOf(d)->llvm_mangled);
  return lanes == 0 ? s : Cat("v", lanes, s);
}

constexpr int64_t kStreamed = 1;        // the tag of a STORE around the caches (docs/ir_linear.md)
constexpr int64_t kLeastStreamed = 16;  // bytes of a vector that is stored around the caches
constexpr int64_t kMostZeroBytes = 16384;  // of the zeros that loads read whose gate is false
constexpr int64_t kBufferAlignment = 64;   // of every buffer whose size is a multiple of it

class LlvmWriter {
 public:
  LlvmWriter(ir::UOpContext& ctx, std::span<const std::string> variables)
      : ctx_(ctx), variables_(variables) {}

  absl::StatusOr<std::string> Run(UOp linear, std::string_view name) {
    for (UOp u : linear.srcs()) {
      if (u.Is(Op::PARAM)) slots_.push_back(u);
    }
    std::sort(slots_.begin(), slots_.end(), [](UOp a, UOp b) { return a.slot() < b.slot(); });
    FindArrays(linear);
    FindLanes(linear);
    for (UOp u : linear.srcs()) {
      if (ctx_.Interrupted(8)) return ctx_.CheckInterrupt();
      if (absl::Status s = Line(u); !s.ok())
        return WithFrame(std::move(s), Cat("rendering ", Name(u.op()), " as LLVM IR"));
    }
    return Module(name);
  }

 private:
  static absl::Status NoRendering(UOp u) {
    return absl::UnimplementedError(
        Cat("the renderer of LLVM IR does not support ", Name(u.op()), " of ", Name(u.dtype())));
  }

  // Fills arrays_: the BUFFERs that need memory. A BUFFER that is always accessed as a whole is an
  // accumulator instead.
  void FindArrays(UOp linear) {
    for (UOp u : linear.srcs()) {
      if (!u.Is(Op::INDEX)) continue;
      const UOp base = ir::MaybeBaseOf(u.src(0));
      if (!IsRegister(base)) continue;
      const int64_t lanes = std::max<int64_t>(1, u.arg().AsInt());
      if (!u.src(1).IsConstInt(0) || lanes != (*ctx_.ShapeOf(base))[0].const_int())
        arrays_.insert(base.id());
    }
  }
  // Fills lanes_: the GEPs that something reads as a scalar. A STACK of lanes of two vectors becomes
  // one shuffle of the vectors.
  void FindLanes(UOp linear) {
    for (UOp u : linear.srcs()) {
      const bool shuffles = u.Is(Op::STACK) && !IsSplat(u) && !ShuffledVectors(u).empty();
      for (UOp s : u.srcs()) {
        if (s.Is(Op::GEP) && !shuffles) lanes_.insert(s.id());
      }
    }
  }
  bool IsAccumulator(UOp index) const {
    const UOp base = ir::MaybeBaseOf(index.src(0));
    return IsRegister(base) && !arrays_.contains(base.id());
  }

  // The external function unpacks its arrays and calls an internal function, whose noalias
  // parameters tell LLVM that buffers do not overlap.
  std::string Module(std::string_view name) const {
    std::string params, unpack, args;
    for (UOp p : slots_) {
      const int64_t k = p.slot();
      Append(params, "ptr noalias %b", k, ", ");
      Append(unpack, "  %p", k, " = getelementptr ptr, ptr %buffers, i64 ", k, "\n  %b", k,
             " = load ptr, ptr %p", k, "\n");
      Append(args, "ptr %b", k, ", ");
    }
    for (size_t i = 0; i < variables_.size(); ++i) {
      Append(params, "i64 %var", i, ", ");
      Append(unpack, "  %q", i, " = getelementptr i64, ptr %vars, i64 ", i, "\n  %var", i,
             " = load i64, ptr %q", i, "\n");
      Append(args, "i64 %var", i, ", ");
    }
    if (polls_) {
      params += "ptr %stop, ";
      unpack += "  %ps = getelementptr ptr, ptr %buffers, i64 -1\n  %stop = load ptr, ptr %ps\n";
      args += "ptr %stop, ";
    }
    // What was stored around the caches is seen by other threads after a fence only.
    const std::string_view end = streams_ ? "  fence seq_cst\n" : "";
    std::string out = Cat("@zeros = internal unnamed_addr constant [", zero_bytes_,
                          " x i8] zeroinitializer, align 8\n\n");
    Append(out, "define internal void @", name, ".body(", params, "i64 %thread) #0 {\nentry:\n",
           registers_, body_, end, "  ret void\n",
           polls_ ? Cat("stopped:\n", end, "  ret void\n") : "", "}\n\n");
    Append(out, "define void @", name, "(ptr %buffers, ptr %vars, i64 %thread) #0 {\n", unpack,
           "  call void @", name, ".body(", args, "i64 %thread)\n  ret void\n}\n\n");
    for (const std::string& d : declared_) Append(out, "declare ", d, "\n");
    Append(out, "\nattributes #0 = { nounwind \"prefer-vector-width\"=\"",
           widest_bytes_ >= 64 ? 512 : 256, "\"", widest_bytes_ > 0 ? " \"uopd-in-vectors\"" : "",
           " }\n");
    if (streams_) out += "!0 = !{i32 1}\n";
    return out;
  }

  template <class... T>
  void Put(const T&... parts) {
    Append(body_, "  ");
    Append(body_, parts...);
    body_ += '\n';
  }
  std::string Temporary() { return Cat("%t", next_temporary_++); }

  static std::string ScalarConstant(UOp u) {
    if (u.dtype() == Dtype::Bool) return u.const_int() != 0 ? "true" : "false";
    if (!ir::IsFloat(u.dtype())) return Cat(u.const_int());
    // LLVM writes float constants as hexadecimal bits; f32 as the bits of a double.
    const bool half = u.dtype() == Dtype::F16;
    const uint64_t bits = half ? ir::EncodeFloat(Dtype::F16, u.const_float())
                               : std::bit_cast<uint64_t>(u.const_float());
    std::string out = half ? "0xH" : "0x";
    for (int i = half ? 3 : 15; i >= 0; --i) out += "0123456789ABCDEF"[bits >> (4 * i) & 15];
    return out;
  }
  static std::string Constant(UOp u, int64_t lanes) {
    if (lanes == 0) return ScalarConstant(u);
    std::string out = "<";
    for (int64_t i = 0; i < lanes; ++i)
      Append(out, i ? ", " : "", Scalar(u.dtype()), " ", ScalarConstant(u));
    return out + ">";
  }

  // The text of u as a value with `lanes` lanes.
  std::string Operand(UOp u, int64_t lanes) {
    if (u.Is(Op::CONST)) return Constant(u, lanes);
    const std::string& name = names_.at(u.id());
    if (lanes == 0 || Lanes(ctx_, u) > 0) return name;
    return Splat(name, Scalar(u.dtype()), lanes);
  }
  std::string Splat(std::string_view value, std::string_view scalar, int64_t lanes) {
    const std::string one = Temporary(), all = Temporary(), type = Type(scalar, lanes);
    Put(one, " = insertelement ", type, " poison, ", scalar, " ", value, ", i64 0");
    Put(all, " = shufflevector ", type, " ", one, ", ", type, " poison, <", lanes,
        " x i32> zeroinitializer");
    return all;
  }
  std::string TypeOf(UOp u) {
    const int64_t lanes = Lanes(ctx_, u);
    widest_bytes_ = std::max(widest_bytes_, lanes * ir::ByteSize(u.dtype()));
    return Type(Scalar(u.dtype()), lanes);
  }
  const std::string& Fresh(UOp u) { return names_[u.id()] = Cat("%v", next_value_++); }

  std::string Call(std::string_view name, std::string_view type,
                   std::initializer_list<std::pair<std::string, std::string>> args) {
    std::string values, types;
    for (const auto& [t, v] : args) {
      Append(values, values.empty() ? "" : ", ", t, " ", v);
      Append(types, types.empty() ? "" : ", ", t);
    }
    declared_.insert(Cat(type, " ", name, "(", types, ")"));
    return Cat("call ", type, " ", name, "(", values, ")");
  }

  absl::Status Line(UOp u) {
    switch (u.op()) {
      case Op::PARAM:
        if (Scalar(u.dtype()).empty()) return NoRendering(u);
        names_[u.id()] = Cat("%b", u.slot());
        return absl::OkStatus();
      case Op::BUFFER: {
        if (!IsRegister(u)) return NoRendering(u);
        const int64_t n = (*ctx_.ShapeOf(u))[0].const_int();
        const std::string name = names_[u.id()] = Cat("%acc", u.slot());
        if (arrays_.contains(u.id())) {
          Append(registers_, "  ", name, " = alloca [", n, " x ", InMemory(u.dtype()),
                 "], align 64\n");
        } else {
          Append(registers_, "  ", name, " = alloca ", Type(Scalar(u.dtype()), n == 1 ? 0 : n),
                 "\n");
        }
        return absl::OkStatus();
      }
      case Op::DEFINE_VAR: {
        const auto it = std::find(variables_.begin(), variables_.end(), u.text());
        if (it == variables_.end())
          return UOPD_BUG(Cat("variable ", u.text(), " is not in the kernel's list"));
        names_[u.id()] = Cat("%var", it - variables_.begin());
        return absl::OkStatus();
      }
      case Op::SPECIAL:
        names_[u.id()] = "%thread";
        return absl::OkStatus();
      case Op::AFTER:
        names_[u.id()] = std::string(names_.at(u.src(0).id()));  // a copy: the table may grow
        return absl::OkStatus();
      case Op::GROUP:
        return absl::OkStatus();
      case Op::INDEX:
        return Index(u);
      case Op::RANGE:
        return OpenLoop(u);
      case Op::END:
        for (size_t i = 1; i < u.n_src(); ++i) CloseLoop(u.src(i));
        return absl::OkStatus();
      case Op::LOAD:
        return Load(u);
      case Op::STORE:
        return Store(u);
      case Op::GEP:
        return Lane(u);
      case Op::STACK:
        return Stack(u);
      case Op::CAST:
        return Cast(u);
      case Op::BITCAST:
        return Bitcast(u);
      case Op::WHERE:
        return Select(u);
      case Op::NEG:
        return Negate(u);
      case Op::WMMA:
        return Wmma(u);
      default:
        return Alu(u);
    }
  }

  // AVX512-BF16 and AVX512-VNNI, with 4, 8 or 16 lanes of 32 bits.
  absl::Status Wmma(UOp u) {
    const int64_t n = Lanes(ctx_, u);
    if (n != 4 && n != 8 && n != 16) return NoRendering(u);
    const std::string type = TypeOf(u), words = Type("i32", n),
                      pairs = Cat("<", 2 * n, " x bfloat>");
    const bool floats = ir::IsFloat(u.dtype());
    std::string operands[2];
    for (size_t i = 0; i < 2; ++i) {
      operands[i] = Operand(u.src(i), n);
      if (!floats) continue;
      const std::string as_pairs = Temporary();
      Put(as_pairs, " = bitcast ", words, " ", operands[i], " to ", pairs);
      operands[i] = as_pairs;
    }
    const std::string sum = u.n_src() == 3 ? Operand(u.src(2), n) : "zeroinitializer";
    const std::string name =
        Cat(floats ? "@llvm.x86.avx512bf16.dpbf16ps." : "@llvm.x86.avx512.vpdpbusd.", 32 * n);
    const std::string& of = floats ? pairs : words;
    const std::string call = Call(name, type, {{type, sum}, {of, operands[0]}, {of, operands[1]}});
    Put(Fresh(u), " = ", call);
    return absl::OkStatus();
  }

  absl::Status Lane(UOp u) {
    if (!lanes_.contains(u.id())) return absl::OkStatus();
    const std::string type = TypeOf(u.src(0)), from = Operand(u.src(0), 0);
    Put(Fresh(u), " = extractelement ", type, " ", from, ", i64 ", u.arg().AsInt());
    return absl::OkStatus();
  }

  absl::Status Bitcast(UOp u) {
    const std::string from = TypeOf(u.src(0)), to = TypeOf(u), x = Operand(u.src(0), 0);
    if (from == to) {
      names_[u.id()] = x;
    } else {
      Put(Fresh(u), " = bitcast ", from, " ", x, " to ", to);
    }
    return absl::OkStatus();
  }

  absl::Status Select(UOp u) {
    const int64_t n = Lanes(ctx_, u);
    const std::string c = Operand(u.src(0), n), a = Operand(u.src(1), n), b = Operand(u.src(2), n),
                      type = TypeOf(u);
    Put(Fresh(u), " = select ", Type("i1", n), " ", c, ", ", type, " ", a, ", ", type, " ", b);
    return absl::OkStatus();
  }

  absl::Status Negate(UOp u) {
    const std::string type = TypeOf(u), x = Operand(u.src(0), Lanes(ctx_, u));
    if (ir::IsFloat(u.dtype())) {
      Put(Fresh(u), " = fneg ", type, " ", x);
    } else {
      Put(Fresh(u), " = sub ", type, Lanes(ctx_, u) > 0 ? " zeroinitializer, " : " 0, ", x);
    }
    return absl::OkStatus();
  }

  absl::Status Alu(UOp u) {
    const OpSpelling* op = SpellingOf(u.op());
    if (op == nullptr) return NoRendering(u);
    const Dtype d = u.src(0).dtype();
    const std::string_view name = op->Llvm(d);
    if (name.empty() || Scalar(d).empty()) return NoRendering(u);
    TypeOf(u);
    const int64_t n = Lanes(ctx_, u);
    std::vector<std::string> x;
    for (UOp s : u.srcs()) x.push_back(Operand(s, n));
    const std::string type = Type(Scalar(d), n);
    if (name[0] != '@') {
      Put(Fresh(u), " = ", name, " ", type, " ", x[0], ", ", x[1]);
      return absl::OkStatus();
    }
    const std::string full = Cat(name, ".", Mangled(d, n));
    const std::string call = x.size() == 1 ? Call(full, type, {{type, x[0]}})
                             : x.size() == 2
                                 ? Call(full, type, {{type, x[0]}, {type, x[1]}})
                                 : Call(full, type, {{type, x[0]}, {type, x[1]}, {type, x[2]}});
    Put(Fresh(u), " = ", call);
    return absl::OkStatus();
  }

  // An address. With a gate it may lie outside of its buffer, so it must not be "inbounds".
  absl::Status Index(UOp u) {
    const std::string from = names_.at(u.src(0).id());
    if (IsAccumulator(u)) {
      names_[u.id()] = from;
      return absl::OkStatus();
    }
    const std::string at = Operand(u.src(1), 0);
    Put(Fresh(u), " = getelementptr ", u.n_src() == 3 ? "" : "inbounds ", InMemory(u.dtype()),
        ", ptr ", from, ", ", Scalar(u.src(1).dtype()), " ", at);
    return absl::OkStatus();
  }

  absl::Status Load(UOp u) {
    const UOp index = u.src(0);
    const int64_t n = Lanes(ctx_, u), align = ir::ByteSize(u.dtype());
    std::string at = names_.at(index.id());
    const std::string value_type = TypeOf(u);
    if (IsAccumulator(index)) {
      Put(Fresh(u), " = load ", value_type, ", ptr ", at);
      return absl::OkStatus();
    }
    const bool is_bool = u.dtype() == Dtype::Bool;
    const std::string type = Type(is_bool ? "i8" : Scalar(u.dtype()), n);
    // To the second-level cache: the first one holds what the kernel works on.
    if (u.tag() != 0 && n > 0) {
      const std::string ahead = Temporary();
      Put(ahead, " = getelementptr ", InMemory(u.dtype()), ", ptr ", at, ", i64 ", u.tag());
      Put(Call("@llvm.prefetch.p0", "void",
               {{"ptr", ahead}, {"i32", "0"}, {"i32", "2"}, {"i32", "1"}}));
    }
    std::string loaded;
    if (index.n_src() == 3 && Lanes(ctx_, index.src(2)) > 0) {
      const std::string mask = Operand(index.src(2), n);
      const std::string name =
          Cat("@llvm.masked.load.", Mangled(is_bool ? Dtype::U8 : u.dtype(), n), ".p0");
      const std::string call = Call(
          name, type,
          {{"ptr", at}, {"i32", Cat(align)}, {Type("i1", n), mask}, {type, "zeroinitializer"}});
      Put(loaded = Temporary(), " = ", call);
    } else {
      if (index.n_src() == 3) at = Gated(index, std::max<int64_t>(1, n));
      Put(loaded = Temporary(), " = load ", type, ", ptr ", at, ", align ", align);
    }
    if (is_bool) {
      Put(Fresh(u), " = icmp ne ", type, " ", loaded, n > 0 ? ", zeroinitializer" : ", 0");
    } else {
      names_[u.id()] = loaded;
    }
    return absl::OkStatus();
  }

  // The address of an element that is loaded under a gate: its own, or one of zeros. LLVM moves the
  // choice between the two out of the loops that the gate does not depend on. Elements with the same
  // gate at constant distances share one choice, so LLVM can join the loads of neighbours.
  std::string Gated(UOp index, int64_t elements) {
    const GatedIndex parts = gated_indices_.PartsOf(index, kMostZeroBytes);
    std::vector<uint32_t> key = {index.src(0).id(), index.src(2).id()};
    for (const auto* list : {&parts.starts, &parts.steps}) {
      for (UOp u : *list) key.push_back(u.id());
      key.push_back(UINT32_MAX);
    }
    const int64_t bytes = ir::ByteSize(index.dtype());
    const std::string_view type = Scalar(index.src(1).dtype()), element = InMemory(index.dtype());
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
      for (UOp u : parts.starts) at = Sum(type, at, Operand(u, 0));
      const std::string own = Temporary();
      Put(own, " = getelementptr ", element, ", ptr ", names_.at(index.src(0).id()), ", ", type,
          " ", at);
      chosen = Temporary();
      Put(chosen, " = select i1 ", Operand(index.src(2), 0), ", ptr ", own, ", ptr @zeros");
      known.emplace_back(start, chosen);
    }
    zero_bytes_ = std::max(zero_bytes_, (needed(start) + 7) / 8 * 8);
    if (parts.steps.empty() && start == parts.offset) return chosen;
    std::string step = Cat(parts.offset - start);
    for (UOp u : parts.steps) step = Sum(type, step, Operand(u, 0));
    const std::string out = Temporary();
    Put(out, " = getelementptr ", element, ", ptr ", chosen, ", ", type, " ", step);
    return out;
  }
  std::string Sum(std::string_view type, const std::string& a, const std::string& b) {
    const std::string out = Temporary();
    Put(out, " = add ", type, " ", b, ", ", a);
    return out;
  }

  absl::Status Store(UOp u) {
    const UOp index = u.src(0), value = u.src(1);
    const int64_t n = index.arg().AsInt(), align = ir::ByteSize(value.dtype());
    const std::string& at = names_.at(index.id());
    std::string x = Operand(value, n), type = Type(Scalar(value.dtype()), n);
    if (IsAccumulator(index)) {
      Put("store ", type, " ", x, ", ptr ", at);
      return absl::OkStatus();
    }
    const bool is_bool = value.dtype() == Dtype::Bool;
    if (is_bool) {
      const std::string bytes = Temporary(), byte_type = Type("i8", n);
      Put(bytes, " = zext ", type, " ", x, " to ", byte_type);
      x = bytes;
      type = byte_type;
    }
    if (const int64_t aligned = StreamedAlignment(u); aligned > 0) {
      streams_ = true;
      Put("store ", type, " ", x, ", ptr ", at, ", align ", aligned, ", !nontemporal !0");
    } else if (index.n_src() < 3) {
      Put("store ", type, " ", x, ", ptr ", at, ", align ", align);
    } else if (n > 0) {
      const std::string mask = Operand(index.src(2), n);
      const std::string name =
          Cat("@llvm.masked.store.", Mangled(is_bool ? Dtype::U8 : value.dtype(), n), ".p0");
      Put(Call(name, "void", {{type, x}, {"ptr", at}, {"i32", Cat(align)}, {Type("i1", n), mask}}));
    } else {
      const int64_t k = next_block_++;
      Put("br i1 ", Operand(index.src(2), 0), ", label %store", k, ", label %stored", k);
      Append(body_, "store", k, ":\n");
      Put("store ", type, " ", x, ", ptr ", at, ", align ", align);
      Put("br label %stored", k);
      Append(body_, "stored", k, ":\n");
      block_ = Cat("stored", k);
    }
    return absl::OkStatus();
  }

  // The alignment of a vector that is stored around the caches; 0: it cannot be. Processors do so
  // only with vectors at multiples of their size. The start of a buffer is a multiple of 64 bytes,
  // or of the largest power of two that divides the size of the buffer.
  int64_t StreamedAlignment(UOp store) {
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
  int64_t FactorOf(UOp u) {
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

  static bool IsSplat(UOp stack) {
    return std::ranges::all_of(stack.srcs(), [&](UOp s) { return s == stack.src(0); });
  }

  // The vectors that the sources of a STACK are lanes of, if these are one or two vectors of equal
  // length; else none.
  std::vector<UOp> ShuffledVectors(UOp stack) {
    std::vector<UOp> out;
    for (UOp s : stack.srcs()) {
      if (!s.Is(Op::GEP)) return {};
      if (std::find(out.begin(), out.end(), s.src(0)) != out.end()) continue;
      out.push_back(s.src(0));
      if (out.size() > 2 || Lanes(ctx_, out.back()) != Lanes(ctx_, out[0])) return {};
    }
    return out;
  }

  absl::Status Stack(UOp u) {
    const auto n = static_cast<int64_t>(u.n_src());
    const std::string_view scalar = Scalar(u.dtype());
    if (scalar.empty()) return NoRendering(u);
    const std::string type = TypeOf(u);
    const auto all = [&](auto holds) {
      return std::all_of(u.srcs().begin(), u.srcs().end(), holds);
    };
    if (all([](UOp s) { return s.Is(Op::CONST); })) {
      std::string out = "<";
      for (UOp s : u.srcs())
        Append(out, out.size() > 1 ? ", " : "", scalar, " ", ScalarConstant(s));
      names_[u.id()] = out + ">";
    } else if (IsSplat(u)) {
      names_[u.id()] = Splat(Operand(u.src(0), 0), scalar, n);
    } else if (const auto from = ShuffledVectors(u); !from.empty()) {
      const std::string type_of = TypeOf(from[0]), x = Operand(from[0], 0),
                        y = from.size() == 2 ? Operand(from[1], 0) : "poison";
      const int64_t lanes = Lanes(ctx_, from[0]);
      std::string mask;
      for (UOp s : u.srcs()) {
        Append(mask, mask.empty() ? "" : ", ", "i32 ",
               s.arg().AsInt() + (s.src(0) == from[0] ? 0 : lanes));
      }
      Put(Fresh(u), " = shufflevector ", type_of, " ", x, ", ", type_of, " ", y, ", <", n,
          " x i32> <", mask, ">");
    } else {
      std::string now = "poison";
      for (int64_t i = 0; i < n; ++i) {
        const std::string next = Temporary();
        Put(next, " = insertelement ", type, " ", now, ", ", scalar, " ",
            Operand(u.src(static_cast<size_t>(i)), 0), ", i64 ", i);
        now = next;
      }
      names_[u.id()] = now;
    }
    return absl::OkStatus();
  }

  absl::Status Cast(UOp u) {
    const Dtype from = u.src(0).dtype(), to = u.dtype();
    const int64_t n = Lanes(ctx_, u);
    const std::string x = Operand(u.src(0), n);
    if (from == Dtype::Index && to == Dtype::I64) {
      names_[u.id()] = x;
      return absl::OkStatus();
    }
    if (Scalar(from).empty() || Scalar(to).empty()) return NoRendering(u);
    const std::string a = Type(Scalar(from), n), b = Type(Scalar(to), n);
    TypeOf(u);
    if (to == Dtype::Bool) {
      Put(Fresh(u), ir::IsFloat(from) ? " = fcmp une " : " = icmp ne ", a, " ", x, ", ",
          n > 0 || !ir::IsFloat(from) ? (n > 0 ? "zeroinitializer" : "0") : "0.0");
      return absl::OkStatus();
    }
    if (from == Dtype::F16 && !ir::IsFloat(to)) {
      // Convert through float: the direct conversion of half vectors on x86 turns NaN into the
      // lowest integer.
      const std::string wide = Temporary(), f = Type("float", n);
      Put(wide, " = fpext ", a, " ", x, " to ", f);
      const std::string name = Cat(ir::IsSigned(to) ? "@llvm.fptosi.sat." : "@llvm.fptoui.sat.",
                                   Mangled(to, n), ".", Mangled(Dtype::F32, n));
      const std::string call = Call(name, b, {{f, wide}});
      Put(Fresh(u), " = ", call);
      return absl::OkStatus();
    }
    if (ir::IsFloat(from) && !ir::IsFloat(to)) {
      const std::string name = Cat(ir::IsSigned(to) ? "@llvm.fptosi.sat." : "@llvm.fptoui.sat.",
                                   Mangled(to, n), ".", Mangled(from, n));
      const std::string call = Call(name, b, {{a, x}});
      Put(Fresh(u), " = ", call);
      return absl::OkStatus();
    }
    const int wide = to == Dtype::Bool ? 1 : ir::Bits(to),
              narrow = from == Dtype::Bool ? 1 : ir::Bits(from);
    if (a == b) {
      names_[u.id()] = x;
      return absl::OkStatus();
    }
    std::string_view op;
    if (ir::IsFloat(from))
      op = wide > narrow ? "fpext" : "fptrunc";
    else if (ir::IsFloat(to))
      op = ir::IsSigned(from) ? "sitofp" : "uitofp";
    else
      op = wide < narrow ? "trunc" : ir::IsSigned(from) ? "sext" : "zext";
    Put(Fresh(u), " = ", op, " ", a, " ", x, " to ", b);
    return absl::OkStatus();
  }

  // A loop that polls every n iterations (n > 1) becomes two loops: the outer one over chunks
  // polls, the inner one runs over a chunk and has the same body as without polls. They share one
  // counter.
  absl::Status OpenLoop(UOp u) {
    gated_.clear();
    gated_indices_.Open(u);
    const int64_t k = u.axis_id();
    const std::string type(Scalar(u.dtype())), size = Operand(u.src(0), 0);
    std::string from = "0", to = size;
    names_[u.id()] = Cat("%r", k);
    if (u.tag() > 1) {
      Put("br label %chunk", k);
      Label(Cat("chunk", k), Cat("%from", k, " = phi ", type, " [ 0, %", block_, " ], [ %to", k,
                                 ", %exit", k, " ]"));
      Put("%any", k, " = icmp slt ", type, " %from", k, ", ", size);
      Put("br i1 %any", k, ", label %poll", k, ", label %done", k);
      Append(body_, "poll", k, ":\n");
      Poll(k);
      from = Cat("%from", k);
      to = Cat("%to", k);
      if (u.src(0).Is(Op::CONST) && u.src(0).const_int() % u.tag() == 0) {
        Put("%to", k, " = add nuw nsw ", type, " %from", k, ", ", u.tag());
      } else {
        Put("%left", k, " = sub nsw ", type, " ", size, ", %from", k);
        Put("%whole", k, " = icmp sgt ", type, " %left", k, ", ", u.tag());
        Put("%count", k, " = select i1 %whole", k, ", ", type, " ", u.tag(), ", ", type, " %left",
            k);
        Put("%to", k, " = add nuw nsw ", type, " %from", k, ", %count", k);
      }
    }
    Put("br label %head", k);
    Label(Cat("head", k), Cat("%r", k, " = phi ", type, " [ ", from, ", %", block_, " ], [ %next",
                              k, ", %latch", k, " ]"));
    Put("%more", k, " = icmp slt ", type, " %r", k, ", ", to);
    Put("br i1 %more", k, ", label %loop", k, ", label %exit", k);
    Append(body_, "loop", k, ":\n");
    block_ = Cat("loop", k);
    if (u.tag() == 1) Poll(k);
    return absl::OkStatus();
  }
  // Starts a block. `phi` is written first: it refers to the block before.
  void Label(const std::string& name, const std::string& phi) {
    Append(body_, name, ":\n");
    Put(phi);
    block_ = name;
  }
  // Returns from the kernel if the stop word is set.
  void Poll(int64_t k) {
    polls_ = true;
    Put("%word", k, " = load atomic i32, ptr %stop monotonic, align 4");
    Put("%halt", k, " = icmp ne i32 %word", k, ", 0");
    Put("br i1 %halt", k, ", label %stopped, label %go", k);
    Append(body_, "go", k, ":\n");
    block_ = Cat("go", k);
  }
  void CloseLoop(UOp range) {
    gated_.clear();
    gated_indices_.Close();
    const int64_t k = range.axis_id();
    Put("br label %latch", k);
    Append(body_, "latch", k, ":\n");
    Put("%next", k, " = add nuw nsw ", Scalar(range.dtype()), " %r", k, ", 1");
    Put("br label %head", k);
    Append(body_, "exit", k, ":\n");
    block_ = Cat("exit", k);
    if (range.tag() <= 1) return;
    Put("br label %chunk", k);
    Append(body_, "done", k, ":\n");
    block_ = Cat("done", k);
  }

  ir::UOpContext& ctx_;
  std::span<const std::string> variables_;
  std::vector<UOp> slots_;
  absl::flat_hash_map<uint32_t, std::string> names_;
  std::set<std::string> declared_;
  std::set<uint32_t> arrays_;
  absl::flat_hash_set<uint32_t> lanes_;
  std::string body_, registers_, block_ = "entry";  // block_: label of the current block
  int64_t next_temporary_ = 0, next_value_ = 0, next_block_ = 0, widest_bytes_ = 0;
  absl::flat_hash_map<uint32_t, int64_t> factors_;
  GatedIndices gated_indices_{ctx_};
  // Addresses in the innermost loop so far that are those of zeros if a gate is false, with the
  // offset of the element. By ids of the buffer, the gate and the parts of the index.
  std::map<std::vector<uint32_t>, std::vector<std::pair<int64_t, std::string>>> gated_;
  int64_t zero_bytes_ = 8;  // of @zeros: as many as one gated load reads
  bool polls_ = false, streams_ = false;
};

}  // namespace

absl::StatusOr<std::string> RenderLlvmIr(ir::UOpContext& ctx, UOp linear, std::string_view name,
                                         std::span<const std::string> variables) {
  return LlvmWriter(ctx, variables).Run(linear, name);
}

}  // namespace uopd::render
