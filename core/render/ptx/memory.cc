// SPDX-License-Identifier: MIT
#include "core/render/ptx/memory.h"

#include "core/render/ptx/bulk.h"
#include "core/render/ptx/matrix.h"

#include "core/render/ptx/values.h"
#include "core/render/spelling.h"

namespace uopd::render {

using ir::Op;
using ir::UOp;

namespace {

// Offsets beyond this are added to the address: those of an instruction have 32 bits.
constexpr int64_t kMostOffset = int64_t{1} << 24;

UOp PtxBase(UOp index) { return ir::MaybeBaseOf(index.src(0)); }

// An index as a value and a constant that is added to it. The value is null if all of it is
// constant.
struct PtxIndexParts {
  UOp maybe_value;
  int64_t constant = 0;
};
PtxIndexParts PtxPartsOf(UOp index) {
  PtxIndexParts out{index};
  // Modulo 2^64, as addresses are.
  const auto add = [&out](UOp constant) {
    out.constant = static_cast<int64_t>(static_cast<uint64_t>(out.constant) +
                                        static_cast<uint64_t>(constant.const_int()));
  };
  while (out.maybe_value.Is(Op::ADD) && out.maybe_value.src(1).Is(Op::CONST)) {
    add(out.maybe_value.src(1));
    out.maybe_value = out.maybe_value.src(0);
  }
  if (!out.maybe_value.Is(Op::CONST)) return out;
  add(out.maybe_value);
  out.maybe_value = UOp();
  return out;
}

}  // namespace

void PtxMemory::FindArrays(UOp linear) {
  for (UOp u : linear.srcs()) {
    if (u.Is(Op::INDEX) && PtxPartsOf(u.src(1)).maybe_value) indexed_.insert(PtxBase(u).id());
  }
}

absl::Status PtxMemory::Param(UOp u, const std::string& parameter) {
  if (SpellingOf(u.dtype()) == nullptr) return NoPtx(u);
  const std::string pointer = text_.New(kPtxLong, "ld.param.u64", Cat("[", parameter, "]"));
  bases_[u.id()] = text_.New(kPtxLong, "cvta.to.global.u64", pointer);
  return absl::OkStatus();
}

absl::Status PtxMemory::Array(UOp u) {
  if (SpellingOf(u.dtype()) == nullptr) return NoPtx(u);
  const int64_t n = (*text_.ctx().ShapeOf(u))[0].const_int();
  if (IsShared(u)) {
    const int64_t at = shared_.Place(text_.ctx(), u);
    const std::string start = text_.New(kPtxWord, "mov.u32", "shared");
    bases_[u.id()] = at == 0 ? start : text_.New(kPtxWord, "add.s32", start, ", ", at);
    return absl::OkStatus();
  }
  if (!IsRegister(u)) return NoPtx(u);
  if (indexed_.contains(u.id())) {
    const std::string name = Cat("acc", u.slot());
    text_.Declare(".local .align 16 .b8 ", name, "[", n * ir::ByteSize(u.dtype()), "]");
    bases_[u.id()] = text_.New(kPtxLong, "mov.u64", name);
    return absl::OkStatus();
  }
  std::vector<std::string> elements;
  for (int64_t i = 0; i < n; ++i) elements.push_back(text_.Fresh(u.dtype()));
  elements_[u.id()] = std::move(elements);
  return absl::OkStatus();
}

std::string_view PtxMemory::Space(UOp base) const {
  return base.Is(Op::PARAM) ? "global" : IsShared(base) ? "shared" : "local";
}

const std::vector<std::string>* PtxMemory::Elements(UOp base) const {
  const auto found = elements_.find(base.id());
  return found == elements_.end() ? nullptr : &found->second;
}

std::string PtxMemory::At(const Place& place, int64_t bytes) const {
  const int64_t offset = place.offset + bytes;
  return offset == 0 ? Cat("[", place.address, "]") : Cat("[", place.address, "+", offset, "]");
}

std::string PtxMemory::Scaled(UOp base, UOp x, int64_t bytes) {
  const std::pair<uint32_t, uint32_t> key{base.id(), x.id()};
  for (const Addresses& scope : scopes_) {
    if (const auto found = scope.find(key); found != scope.end()) return found->second;
  }
  const std::string& start = bases_.at(base.id());
  const std::string index = text_.Register(x);
  const bool is_long = IsLongInPtx(x.dtype());
  std::string out;
  if (!IsShared(base)) {
    out = text_.New(kPtxLong, is_long ? "mad.lo.s64" : "mad.wide.s32", index, ", ", bytes, ", ",
                    start);
  } else {
    // Addresses of shared memory have 32 bits.
    const std::string low = is_long ? text_.New(kPtxWord, "cvt.u32.u64", index) : index;
    out = text_.New(kPtxWord, "mad.lo.s32", low, ", ", bytes, ", ", start);
  }
  return scopes_.back()[key] = out;
}

// An index x + c is the address of x with the offset c: indices of the same x share one register.
// This is exact, as index arithmetic of 32 bits does not wrap.
void PtxMemory::Index(UOp u) {
  Place place;
  place.base = PtxBase(u);
  const auto [x, constant] = PtxPartsOf(u.src(1));
  const int64_t bytes = ir::ByteSize(place.base.dtype());
  if (Elements(place.base) != nullptr) {
    place.first = constant;
  } else if (constant > -kMostOffset && constant < kMostOffset) {
    place.offset = constant * bytes;
    place.address = x ? Scaled(place.base, x, bytes) : bases_.at(place.base.id());
  } else {
    place.address = Scaled(place.base, u.src(1), bytes);
  }
  places_[u.id()] = std::move(place);
}

void PtxMemory::Load(UOp u) {
  const UOp index = u.src(0), gate = index.n_src() == 3 ? index.src(2) : UOp();
  const int64_t n = std::max<int64_t>(index.arg().AsInt(), 1);
  const bool gate_per_lane = gate && Lanes(text_.ctx(), gate) > 0;
  const int64_t wide = gate_per_lane ? 1 : WideLanes(index, kWideBytes, alignment_);
  const Place& place = places_.at(index.id());
  std::vector<std::string> lanes;
  for (int64_t i = 0; i < n; i += wide) {
    const std::string predicate = gate ? text_.Register(gate, i) : std::string();
    if (wide == 1) {
      LoadLane(u, place, i, predicate, lanes);
    } else {
      LoadWide(u, place, i, wide, predicate, lanes);
    }
  }
  text_.Set(u, std::move(lanes));
}

void PtxMemory::MatrixLoad(UOp u) {
  std::vector<std::string> words;
  std::string list;
  for (int64_t i = 0; i < u.ints()[0]; ++i) {
    words.push_back(text_.Fresh(u.dtype()));
    Append(list, i == 0 ? "" : ", ", words.back());
  }
  text_.Put(PtxMatrixLoad(u), " {", list, "}, ", At(places_.at(u.src(0).id()), 0));
  text_.Set(u, std::move(words));
}

void PtxMemory::AsyncCopy(UOp u) {
  const UOp to = u.src(0), from = u.src(1);
  // A copy of no bytes writes zeros.
  std::string bytes = "16";
  if (from.n_src() == 3)
    bytes = text_.New(kPtxWord, "selp.b32", "16, 0, ", text_.Register(from.src(2)));
  text_.PutIf(to.n_src() == 3 ? text_.Register(to.src(2)) : std::string(), PtxAsync(u), " ",
              At(places_.at(to.id()), 0), ", ", At(places_.at(from.id()), 0), ", 16, ", bytes);
}

void PtxMemory::Bulk(UOp u, const std::string& maybe_map) {
  const UOp first = u.src(0);
  const std::string gate = first.n_src() == 3 ? text_.Register(first.src(2)) : std::string();
  const Place& place = places_.at(first.id());
  if (u.Is(Op::BULK_INIT)) {
    std::vector<std::string> barriers;
    for (int64_t i = 0; i < std::max<int64_t>(1, first.arg().AsInt()); ++i)
      barriers.push_back(At(place, i * ir::ByteSize(first.dtype())));
    PtxBulkInit(text_, u, gate, barriers);
  } else if (u.Is(Op::BULK_EXPECT)) {
    PtxBulkExpect(text_, u, gate, At(place, 0));
  } else if (u.Is(Op::BULK_ARRIVE)) {
    PtxBulkArrive(text_, u, gate, At(place, 0));
  } else if (u.Is(Op::BULK_WAIT)) {
    PtxBulkWait(text_, u, At(place, 0));
  } else {
    PtxBulkCopy(text_, u, gate, At(place, 0), maybe_map, At(places_.at(u.src(2).id()), 0));
  }
}

std::string PtxMemory::Descriptor(UOp index, const ir::SharedMatrix& matrix) {
  const Place& place = places_.at(index.id());
  const std::string pieces = text_.New(kPtxWord, "shr.u32", place.address, ", 4");
  const std::string start = text_.New(kPtxLong, "cvt.u64.u32", pieces);
  return text_.New(kPtxLong, "add.s64", start, ", ",
                   static_cast<int64_t>(PtxDescriptor(matrix)) + place.offset / 16);
}

absl::Status PtxMemory::GroupMma(const Target& target, UOp u) {
  UOPD_ASSIGN(const PtxGroupInstruction instruction, PtxGroupMma(target, u));
  const ir::GroupMma mma = ir::GroupMma::Of(u);
  const Place& sums = places_.at(u.src(0).id());
  const std::vector<std::string>* elements = Elements(sums.base);
  if (elements == nullptr) return absl::UnimplementedError("an accumulator is no registers");
  const std::string a = Descriptor(u.src(1), mma.a_matrix), b = Descriptor(u.src(2), mma.b_matrix);
  std::string list;
  for (int64_t e = 0; e < mma.results(); ++e)
    Append(list, e == 0 ? "{" : ", ", (*elements)[static_cast<size_t>(sums.first + e)]);
  text_.Put(instruction.name, " ", list, "}, ", a, ", ", b, instruction.after_operands);
  return absl::OkStatus();
}

void PtxMemory::Store(UOp u) {
  const UOp index = u.src(0), gate = index.n_src() == 3 ? index.src(2) : UOp();
  const int64_t n = std::max<int64_t>(index.arg().AsInt(), 1);
  const bool gate_per_lane = gate && Lanes(text_.ctx(), gate) > 0;
  const int64_t wide = gate_per_lane ? 1 : WideLanes(index, kWideBytes, alignment_);
  const Place& place = places_.at(index.id());
  for (int64_t i = 0; i < n; i += wide) {
    const std::string predicate = gate ? text_.Register(gate, i) : std::string();
    if (wide == 1) {
      StoreLane(u, place, i, predicate);
    } else {
      StoreWide(u, place, i, wide, predicate);
    }
  }
}

}  // namespace uopd::render
