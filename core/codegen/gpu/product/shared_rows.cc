// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/product/shared_rows.h"

#include <set>
#include <vector>

#include "core/base/target/machine_facts.h"
#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

namespace {
constexpr int64_t kLineWords = 32;  // 128 bytes: addresses that agree in all bits from bit 7 on
}  // namespace

SharedRows SharedRows::Swizzled(int64_t rows, int64_t words, int64_t span_bytes) {
  SharedRows out(rows, words);
  out.stride_ = span_bytes / kSharedWordBytes;
  out.spans_ = words / out.stride_;
  return out;
}

int64_t SharedRows::WidestSpan(int64_t bytes) {
  for (const int64_t span : kSpanBytes) {
    if (bytes > 0 && bytes % span == 0) return span;
  }
  return 0;
}

int64_t SharedRows::size() const {
  if (spans_ == 0) return rows_ * stride_;
  constexpr int64_t kWords = ir::GroupMma::kAlignment / kSharedWordBytes;
  return (rows_ * stride_ * spans_ + kWords - 1) / kWords * kWords;
}

int64_t SharedRows::At(int64_t row, int64_t word) const {
  if (spans_ == 0) return row * stride_ + word;
  const int64_t plain = (word / stride_ * rows_ + row) * stride_ + word % stride_;
  return Matrix(true).Swizzled(plain * kSharedWordBytes) / kSharedWordBytes;
}

UOp SharedRows::Start(ir::UOpContext& ctx, UOp row, UOp word) const {
  UOp line = row;
  if (spans_ > 1) {
    const UOp span = ir::Alu(ctx, Op::FLOORDIV, {word, ctx.Idx(stride_)});
    line = rules::IndexSum(ctx, rules::IndexProduct(ctx, span, ctx.Idx(rows_)), row);
    word = ir::Alu(ctx, Op::FLOORMOD, {word, ctx.Idx(stride_)});
  }
  return rules::IndexSum(ctx, rules::IndexProduct(ctx, line, ctx.Idx(stride_)), word);
}

UOp SharedRows::Index(ir::UOpContext& ctx, UOp row, UOp word) const {
  if (spans_ == 0)
    return rules::IndexSum(ctx, rules::IndexProduct(ctx, row, ctx.Idx(stride_)), word);
  // The piece of a span is exchanged with another one: its number exclusive or the low bits of the
  // line's number.
  UOp line = row;
  if (spans_ > 1) {
    const UOp span = ir::Alu(ctx, Op::FLOORDIV, {word, ctx.Idx(stride_)});
    line = rules::IndexSum(ctx, rules::IndexProduct(ctx, span, ctx.Idx(rows_)), row);
    word = ir::Alu(ctx, Op::FLOORMOD, {word, ctx.Idx(stride_)});
  }
  const int64_t pieces = stride_ / kPiece, rows_of_line = kLineWords / stride_;
  UOp other = line;
  if (rows_of_line > 1) other = ir::Alu(ctx, Op::FLOORDIV, {other, ctx.Idx(rows_of_line)});
  other = ir::Alu(ctx, Op::FLOORMOD, {other, ctx.Idx(pieces)});
  const UOp piece = ir::Alu(ctx, Op::FLOORDIV, {word, ctx.Idx(kPiece)}),
            in_piece = ir::Alu(ctx, Op::FLOORMOD, {word, ctx.Idx(kPiece)});
  const UOp moved =
      rules::IndexProduct(ctx, ir::Alu(ctx, Op::XOR, {piece, other}), ctx.Idx(kPiece));
  return rules::IndexSum(
      ctx, rules::IndexSum(ctx, rules::IndexProduct(ctx, line, ctx.Idx(stride_)), moved), in_piece);
}

ir::SharedMatrix SharedRows::Matrix(bool along_sum) const {
  ir::SharedMatrix out{stride_ * kSharedWordBytes, along_sum};
  out.stride = kAtomRows * out.span;
  if (!along_sum) out.lead = rows_ * out.span;
  return out;
}

int64_t WordsOfOneBank(std::span<const int64_t> words) {
  const std::set<int64_t> different(words.begin(), words.end());
  std::vector<int64_t> in_bank(kSharedBanks);
  for (const int64_t word : different) ++in_bank[static_cast<size_t>(word % kSharedBanks)];
  return *std::ranges::max_element(in_bank);
}

}  // namespace uopd::codegen
