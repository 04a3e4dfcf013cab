// SPDX-License-Identifier: MIT
#include "core/ir/verify/op_rules.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/mma.h"
#include "core/ir/wmma_block.h"

namespace uopd::ir {
namespace {

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

bool Is(int64_t number, Dtype d) { return number == static_cast<int64_t>(NumberOf(d)); }
bool IsPair(int64_t a, int64_t b) { return a == b && (Is(a, Dtype::BF16) || Is(a, Dtype::F16)); }
bool IsByte(int64_t number) { return Is(number, Dtype::U8) || Is(number, Dtype::I8); }

}  // namespace

absl::Status VerifyMma(UOp u) {
  if (u.ints().size() != 8) return Invalid("arg of MMA is eight numbers");
  const Mma mma = Mma::Of(u);
  for (const int64_t n : {mma.m, mma.n, mma.k, mma.lanes, mma.a_words, mma.b_words}) {
    if (n < 1 || n > 1024) return Invalid("a number of the arg of MMA is out of range");
  }
  if (mma.m * mma.n % mma.lanes != 0) return Invalid("lanes of MMA have no equal parts of the sum");
  for (const int64_t number : {mma.a, mma.b}) {
    const auto d = DtypeByWire(static_cast<uint64_t>(number));
    if (!d || *d == Dtype::Void || *d == Dtype::Index || Bits(*d) > 32)
      return Invalid("MMA of elements of no such dtype");
  }
  if (u.dtype() != Dtype::F32 && u.dtype() != Dtype::I32)
    return Invalid(Cat("MMA does not give ", Name(u.dtype())));
  for (size_t i = 0; i < u.n_src(); ++i) {
    const Dtype wanted = i < 2 ? Dtype::U32 : u.dtype();
    if (u.src(i).dtype() == wanted) continue;
    return Invalid(
        Cat("source ", i, " of MMA has dtype ", Name(u.src(i).dtype()), ", not ", Name(wanted)));
  }
  return absl::OkStatus();
}

absl::Status VerifyMatrixLoad(UOp u) {
  if (u.ints().size() != 2) return Invalid("arg of MATRIX_LOAD is two numbers");
  const int64_t matrices = u.ints()[0], transposed = u.ints()[1];
  if ((matrices != 1 && matrices != 2 && matrices != 4) || transposed < 0 || transposed > 1)
    return Invalid("a number of the arg of MATRIX_LOAD is out of range");
  const UOp index = u.src(0);
  if (!index.Is(Op::INDEX) || index.n_src() != 2 || index.arg().AsInt() != 4)
    return Invalid("MATRIX_LOAD loads what an INDEX of four words without a gate points to");
  if (u.dtype() != Dtype::U32 || index.dtype() != Dtype::U32)
    return Invalid(Cat("MATRIX_LOAD gives words, not ", Name(u.dtype())));
  return absl::OkStatus();
}

absl::Status VerifyAsyncCopy(UOp u) {
  const UOp to = u.src(0), from = u.src(1);
  for (UOp index : {to, from}) {
    if (!index.Is(Op::INDEX)) return Invalid("ASYNC_COPY is between two INDEXes");
    if (index.arg().AsInt() * ByteSize(index.dtype()) != 16)
      return Invalid("ASYNC_COPY copies 16 bytes");
  }
  if (to.dtype() != from.dtype())
    return Invalid(Cat("ASYNC_COPY of ", Name(from.dtype()), " to ", Name(to.dtype())));
  return absl::OkStatus();
}

absl::Status VerifyWmma(UOp u) {
  if (u.ints().size() != 2) return Invalid("arg of WMMA is two dtypes");
  const int64_t a = u.ints()[0], b = u.ints()[1];
  const bool floats = IsPair(a, b) && u.dtype() == Dtype::F32,
             bytes = Is(a, Dtype::U8) && Is(b, Dtype::I8) && u.dtype() == Dtype::I32;
  if (!floats && !bytes)
    return Invalid(Cat("WMMA of these dtypes does not give ", Name(u.dtype())));
  for (size_t i = 0; i < u.n_src(); ++i) {
    const Dtype wanted = i < 2 ? Dtype::U32 : u.dtype();
    if (u.src(i).dtype() == wanted) continue;
    return Invalid(
        Cat("source ", i, " of WMMA has dtype ", Name(u.src(i).dtype()), ", not ", Name(wanted)));
  }
  return absl::OkStatus();
}

absl::Status VerifyWmmaBlock(UOp u) {
  if (u.ints().size() != 7) return Invalid("arg of WMMA_BLOCK is seven numbers");
  const WmmaBlock block = WmmaBlock::Of(u);
  for (UOp s : u.srcs()) {
    if (!s.Is(Op::INDEX)) return Invalid("WMMA_BLOCK of something that is no INDEX");
  }
  const Dtype sum = u.src(0).dtype(), row = u.src(1).dtype(), column = u.src(2).dtype();
  const bool floats = IsPair(block.a, block.b) && sum == Dtype::F32,
             bytes = IsByte(block.a) && IsByte(block.b) && sum == Dtype::I32;
  if (!floats && !bytes)
    return Invalid(Cat("WMMA_BLOCK of these dtypes does not give ", Name(sum)));
  if (row != Dtype::U32 && Bits(row) != (floats ? 16 : 8))
    return Invalid(Cat("WMMA_BLOCK of rows of ", Name(row)));
  if (column != Dtype::U32) return Invalid(Cat("WMMA_BLOCK of columns of ", Name(column)));
  if (block.rows <= 0 || block.columns <= 0 || block.words <= 0)
    return Invalid("WMMA_BLOCK without rows, columns or words");
  return absl::OkStatus();
}

}  // namespace uopd::ir
