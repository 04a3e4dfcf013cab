// SPDX-License-Identifier: MIT
// Loads and stores of PtxMemory: of one element, and of up to 16 bytes at once.
//
// Several elements of 8 or 16 bits are words of 32 bits in a wide access; prmt picks bytes of two
// words: selector digit 0 to 3 is a byte of the first, 4 to 7 one of the second, and 8 more repeats
// the byte's sign.
#include "core/render/ptx/memory.h"

namespace uopd::render {

using ir::Dtype;
using ir::UOp;

namespace {

// Register lists: "{%r0, %r1}", or one register without braces.
std::string PtxList(const std::vector<std::string>& registers) {
  if (registers.size() == 1) return registers[0];
  std::string out;
  for (const std::string& r : registers) Append(out, out.empty() ? "{" : ", ", r);
  return out + "}";
}

// ".v4.b32": the type of an access of so many words of so many bytes.
std::string PtxVector(size_t n, int64_t bytes) {
  return Cat(n > 1 ? Cat(".v", n) : std::string(), ".b", bytes * 8);
}

std::string PtxBoolOfByte(PtxText& text, const std::string& byte) {
  return text.New(kPtxPredicate, "setp.ne.s32", byte, ", 0");
}

std::string PtxByteOfBool(PtxText& text, const std::string& predicate) {
  return text.New(kPtxWord, "selp.b32", "1, 0, ", predicate);
}

// Element `i` of a word of elements of 8 or 16 bits, extended.
std::string PtxElementOf(PtxText& text, Dtype d, const std::string& word, int64_t i) {
  std::string digits;  // the highest byte first
  const int64_t bytes = ir::ByteSize(d), last = i * bytes + bytes - 1;
  for (int64_t byte = 3; byte >= 0; --byte) {
    const int64_t filler = ir::IsSigned(d) ? 8 + last : 4;
    const int64_t digit = byte < bytes ? i * bytes + byte : filler;
    digits += "0123456789ABCDEF"[digit];
  }
  return text.New(kPtxWord, "prmt.b32", word, ", 0, 0x", digits);
}

// The word whose elements, of so many bytes, are those of the registers; the upper half of a word
// of two bytes is anything.
std::string PtxWordOf(PtxText& text, const std::vector<std::string>& x, int64_t bytes) {
  if (x.size() == 1) return x[0];
  if (x.size() == 2)
    return text.New(kPtxWord, "prmt.b32", x[0], ", ", x[1], bytes == 1 ? ", 0x3340" : ", 0x5410");
  const std::string low = text.New(kPtxWord, "prmt.b32", x[0], ", ", x[1], ", 0x3340");
  const std::string high = text.New(kPtxWord, "prmt.b32", x[2], ", ", x[3], ", 0x3340");
  return text.New(kPtxWord, "prmt.b32", low, ", ", high, ", 0x5410");
}

// The u32 whose lower half is element i of a vector, not its last one, and whose upper half is the
// next one, where they were taken out of one (as QuadStore does); null: they were not.
UOp PtxMaybeWhole(UOp value, int64_t i) {
  if (!value.Is(ir::Op::STACK)) return UOp();
  const auto half = [&](int64_t at) {
    UOp u = value.src(static_cast<size_t>(at));
    if (u.Is(ir::Op::BITCAST)) u = u.src(0);
    return u.Is(ir::Op::CAST) && u.dtype() == Dtype::U16 ? u.src(0) : UOp();
  };
  const UOp low = half(i), high = half(i + 1);
  if (!low || !high || low.dtype() != Dtype::U32) return UOp();
  const bool whole = high.Is(ir::Op::SHR) && high.src(0) == low && high.src(1).IsConstInt(16);
  return whole ? low : UOp();
}

}  // namespace

void PtxMemory::LoadLane(UOp u, const Place& place, int64_t lane, const std::string& gate,
                         std::vector<std::string>& lanes) {
  const Dtype d = u.dtype();
  if (const auto* elements = Elements(place.base); elements != nullptr) {
    // A copy: the array may change while the value is used.
    const std::string& element = (*elements)[static_cast<size_t>(place.first + lane)];
    const std::string move = Cat("mov.", PtxMoveType(d)), out = text_.Fresh(d);
    if (!gate.empty() && d == Dtype::Bool) {
      text_.Put("and.pred ", out, ", ", element, ", ", gate);
    } else if (!gate.empty()) {
      text_.Put("selp.", PtxMoveType(d), " ", out, ", ", element, ", ",
                ir::IsFloat(d) && d != Dtype::F16 ? PtxFloat(d, 0) : "0", ", ", gate);
    } else {
      text_.Put(move, " ", out, ", ", element);
    }
    lanes.push_back(out);
    return;
  }
  const bool is_bool = d == Dtype::Bool;
  std::string out = text_.Fresh(is_bool ? kPtxWord : PtxRegisterOf(d));
  if (!gate.empty()) text_.Put("mov.b", IsLongInPtx(d) ? 64 : 32, " ", out, ", 0");
  text_.PutIf(gate, "ld.", Space(place.base), kernel_.IsOnlyRead(place.base) ? ".nc" : "", ".",
              PtxMemoryType(d), " ", out, ", ", At(place, lane * ir::ByteSize(d)));
  lanes.push_back(is_bool ? PtxBoolOfByte(text_, out) : out);
}

void PtxMemory::LoadWide(UOp u, const Place& place, int64_t first, int64_t n,
                         const std::string& gate, std::vector<std::string>& lanes) {
  const Dtype d = u.dtype();
  const int64_t bytes = ir::ByteSize(d),
                unit = std::max<int64_t>(bytes, std::min<int64_t>(n * bytes, 4));
  std::vector<std::string> words;
  for (int64_t i = 0; i < n * bytes; i += unit)
    words.push_back(text_.Fresh(unit == 8 ? kPtxLong : kPtxWord));
  if (!gate.empty()) {
    for (const std::string& w : words) text_.Put("mov.b", unit == 8 ? 64 : 32, " ", w, ", 0");
  }
  text_.PutIf(gate, "ld.", Space(place.base), kernel_.IsOnlyRead(place.base) ? ".nc" : "",
              PtxVector(words.size(), unit), " ", PtxList(words), ", ", At(place, first * bytes));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t per_word = unit / bytes;
    const std::string& word = words[static_cast<size_t>(i / per_word)];
    const std::string x = per_word == 1 ? word : PtxElementOf(text_, d, word, i % per_word);
    lanes.push_back(d == Dtype::Bool ? PtxBoolOfByte(text_, x) : x);
  }
}

void PtxMemory::StoreLane(UOp u, const Place& place, int64_t lane, const std::string& gate) {
  const UOp value = u.src(1);
  const Dtype d = value.dtype();
  if (const auto* elements = Elements(place.base); elements != nullptr) {
    const std::string& element = (*elements)[static_cast<size_t>(place.first + lane)];
    return text_.PutIf(gate, "mov.", PtxMoveType(d), " ", element, ", ",
                       text_.Operand(value, lane));
  }
  std::string x = text_.Register(value, lane);
  if (d == Dtype::Bool) x = PtxByteOfBool(text_, x);
  text_.PutIf(gate, "st.", Space(place.base), ".", PtxMemoryType(d), " ",
              At(place, lane * ir::ByteSize(d)), ", ", x);
}

void PtxMemory::StoreWide(UOp u, const Place& place, int64_t first, int64_t n,
                          const std::string& gate) {
  const UOp value = u.src(1);
  const Dtype d = value.dtype();
  const int64_t bytes = ir::ByteSize(d),
                unit = std::max<int64_t>(bytes, std::min<int64_t>(n * bytes, 4));
  std::vector<std::string> words, word;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_low = bytes == 2 && n > 1 && word.empty();
    if (const UOp whole = is_low ? PtxMaybeWhole(value, first + i) : UOp()) {
      words.push_back(text_.Register(whole));
      ++i;
      continue;
    }
    const std::string x = text_.Register(value, first + i);
    word.push_back(d == Dtype::Bool ? PtxByteOfBool(text_, x) : x);
    if (static_cast<int64_t>(word.size()) * bytes < unit) continue;
    words.push_back(PtxWordOf(text_, word, bytes));
    word.clear();
  }
  text_.PutIf(gate, "st.", Space(place.base), PtxVector(words.size(), unit), " ",
              At(place, first * bytes), ", ", PtxList(words));
}

}  // namespace uopd::render
