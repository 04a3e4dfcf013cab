// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/passes/wmma_tiles.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/ir/wmma_block.h"
#include "core/rules/terms.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr ir::Int128 kSignBits = 0x80808080;  // of four bytes
constexpr size_t kMostTiles = 2;  // of rows and of columns: 4 tiles of sums and 4 of operands are 8

// A word in memory, or a vector of words that follow each other.
struct Words {
  UOp buffer, index;     // of the first element
  int64_t elements = 1;  // of the buffer that are one word
  rules::Sum sum;        // of the index
};

std::optional<Words> Ungated(ir::UOpContext& ctx, UOp load, int64_t lanes) {
  if (!load.Is(Op::LOAD) || load.src(0).n_src() != 2) return std::nullopt;
  const UOp index = load.src(0);
  if (std::max<int64_t>(1, index.arg().AsInt()) != lanes) return std::nullopt;
  auto sum = rules::ToSum(ctx, index.src(1));
  if (!sum) return std::nullopt;
  return Words{index.src(0), index.src(1), 1, std::move(*sum)};
}

bool SameTerms(const rules::Sum& a, const rules::Sum& b) {
  return std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(),
                    [](const rules::Term& x, const rules::Term& y) {
                      return x.value == y.value && x.factor == y.factor;
                    });
}

// The word of a row: a LOAD of a word, or of its elements, of which each is shifted to its place.
std::optional<Words> RowWord(ir::UOpContext& ctx, UOp u) {
  if (u.dtype() != Dtype::U32) return std::nullopt;
  if (u.Is(Op::LOAD)) return Ungated(ctx, u, 1);
  std::vector<UOp> parts;  // the last one first
  while (u.Is(Op::OR)) {
    parts.push_back(u.src(1));
    u = u.src(0);
  }
  parts.push_back(u);
  std::reverse(parts.begin(), parts.end());
  std::optional<Words> out;
  for (size_t at = 0; at < parts.size(); ++at) {
    UOp part = parts[at];
    if (at > 0) {
      if (!part.Is(Op::SHL) ||
          !part.src(1).IsConstInt(static_cast<int64_t>(32 / parts.size() * at)))
        return std::nullopt;
      part = part.src(0);
    }
    if (!part.Is(Op::CAST)) return std::nullopt;
    part = part.src(0);
    if (part.Is(Op::BITCAST)) part = part.src(0);
    if (part.dtype() == Dtype::Index ||
        static_cast<size_t>(ir::Bits(part.dtype())) * parts.size() != 32)
      return std::nullopt;
    const auto element = Ungated(ctx, part, 1);
    if (!element) return std::nullopt;
    if (!out) {
      out = element;
      out->elements = static_cast<int64_t>(parts.size());
    } else if (element->buffer != out->buffer || !SameTerms(element->sum, out->sum) ||
               element->sum.constant != out->sum.constant + static_cast<int64_t>(at)) {
      return std::nullopt;
    }
  }
  return out;
}

class TileMaker {
 public:
  TileMaker(ir::UOpContext& ctx, UOp sink, const Target& target) : ctx_(ctx), target_(target) {
    order_ = ir::Toposort(ctx, sink);
    for (UOp u : order_) {
      if (u.Is(Op::STORE)) {
        const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
        if (base.Is(Op::PARAM)) stored_.insert(base.id());
      }
      if (u.Is(Op::BUFFER)) next_slot_ = std::max(next_slot_, u.slot() + 1);
    }
  }

  UOp Run(UOp sink) {
    for (UOp u : order_) Note(u);
    for (const auto& [key, grid] : grids_) Replace(grid);
    return map_.empty() ? sink : ir::Substitute(ctx_, sink, map_);
  }

 private:
  // Sums of products of one row and one vector of columns, by the constants of their indices.
  struct Grid {
    std::map<int64_t, Words> rows, columns;
    std::map<std::pair<int64_t, int64_t>, UOp> sums;
    const MatrixInstruction* instruction = nullptr;
    int64_t a = 0, b = 0;         // dtype numbers of the elements of rows and of columns
    std::span<const UOp> closed;  // the loops of each sum
  };
  using Terms = std::vector<std::pair<uint32_t, int64_t>>;
  using Key = std::tuple<std::vector<uint32_t>, std::array<int64_t, 2>, std::array<bool, 2>,
                         uint32_t, Terms, uint32_t, Terms>;

  const MatrixInstruction* InstructionOf(UOp wmma) const {
    for (const MatrixInstruction& i : target_.matrix_instructions) {
      if (i.m > 1 && static_cast<int64_t>(i.a) == wmma.ints()[0] &&
          static_cast<int64_t>(i.b) == wmma.ints()[1])
        return &i;
    }
    return nullptr;
  }
  int64_t LanesOf(UOp u) const {
    const ir::Shape& shape = *ctx_.ShapeOf(u);
    return shape.empty() ? 1 : shape[0].const_int();
  }
  static Terms TermsOf(const Words& w) {
    Terms out;
    for (const rules::Term& t : w.sum.terms) out.emplace_back(t.value.id(), t.factor);
    return out;
  }
  bool IsStored(UOp buffer) const {
    const UOp base = ir::MaybeBaseOf(buffer);
    return !base || stored_.contains(base.id());
  }

  static UOp MaybeWmma(UOp reduce) {
    if (!reduce.Is(Op::REDUCE) || reduce.reduce_op() != Op::ADD) return UOp();
    const UOp wmma = reduce.src(0);
    return wmma.Is(Op::WMMA) && wmma.n_src() == 2 && wmma.tag() == 0 ? wmma : UOp();
  }

  // Notes the sums of products, and those of bytes whose sign bits are flipped in rows (DotRoles):
  // there the flipped words and the sum that is taken off go together.
  void Note(UOp u) {
    if (const UOp wmma = MaybeWmma(u)) return Note(u, wmma, u.closed(), false);
    if (!u.Is(Op::SUB)) return;
    const UOp wmma = MaybeWmma(u.src(0)), off = MaybeWmma(u.src(1));
    if (!wmma || !off || !std::ranges::equal(u.src(0).closed(), u.src(1).closed())) return;
    const size_t row = LanesOf(wmma.src(0)) > 1 ? 1 : 0;
    const UOp signs = off.src(row);
    if (off.src(1 - row) != wmma.src(1 - row) || !signs.IsConstInt(kSignBits)) return;
    const UOp flipped = wmma.src(row);
    if (!flipped.Is(Op::XOR) || !flipped.src(1).IsConstInt(kSignBits)) return;
    Note(u, wmma, u.src(0).closed(), true);
  }

  void Note(UOp sum, UOp wmma, std::span<const UOp> closed, bool flipped) {
    const MatrixInstruction* instruction = InstructionOf(wmma);
    if (instruction == nullptr) return;
    const bool swapped = LanesOf(wmma.src(0)) > 1;
    const UOp row = wmma.src(swapped ? 1 : 0), column = wmma.src(swapped ? 0 : 1);
    if (LanesOf(row) != 1 || LanesOf(column) != instruction->n || column.dtype() != Dtype::U32)
      return;
    const auto r = RowWord(ctx_, flipped ? row.src(0) : row);
    const auto c = Ungated(ctx_, column, instruction->n);
    if (!r || !c || IsStored(r->buffer) || IsStored(c->buffer)) return;
    std::vector<uint32_t> loops;
    for (UOp range : closed) loops.push_back(range.id());
    Grid& grid = grids_[{loops,
                         {wmma.ints()[0], wmma.ints()[1]},
                         {swapped, flipped},
                         r->buffer.id(),
                         TermsOf(*r),
                         c->buffer.id(),
                         TermsOf(*c)}];
    grid.instruction = instruction;
    grid.closed = closed;
    grid.b = wmma.ints()[swapped ? 0 : 1];
    grid.a = flipped ? grid.b : wmma.ints()[swapped ? 1 : 0];
    grid.rows.try_emplace(r->sum.constant, *r);
    grid.columns.try_emplace(c->sum.constant, *c);
    grid.sums.try_emplace({r->sum.constant, c->sum.constant}, sum);
  }

  void Replace(const Grid& grid) {
    std::vector<int64_t> rows, columns;
    for (const auto& [at, words] : grid.rows) rows.push_back(at);
    for (const auto& [at, words] : grid.columns) columns.push_back(at);
    const auto m = static_cast<size_t>(grid.instruction->m);
    const int64_t n = grid.instruction->n;
    for (size_t i = 0; i + m <= rows.size();) {
      const size_t height = rows.size() - i >= kMostTiles * m ? kMostTiles * m : m;
      const std::span<const int64_t> some(rows.data() + i, height);
      const int64_t stride = some[1] - some[0];
      bool even = true;
      for (size_t k = 1; k < height; ++k) even = even && some[k] - some[k - 1] == stride;
      for (size_t j = 0; even && j < columns.size();) {
        const bool pair = j + 1 < columns.size() && columns[j + 1] == columns[j] + n;
        ReplaceTiles(grid, some, stride, {columns.data() + j, pair ? size_t{2} : size_t{1}});
        j += pair ? 2 : 1;
      }
      i += height;
    }
  }

  void ReplaceTiles(const Grid& grid, std::span<const int64_t> rows, int64_t stride,
                    std::span<const int64_t> columns) {
    std::vector<UOp> sums;
    for (int64_t r : rows) {
      for (int64_t c : columns) {
        const auto it = grid.sums.find({r, c});
        if (it == grid.sums.end()) return;
        sums.push_back(it->second);
      }
    }
    const Words &a = grid.rows.at(rows[0]), &b = grid.columns.at(columns[0]);
    const int64_t step = grid.instruction->k * ir::Bits(ElementOf(grid)) / 32;  // words of a tile
    for (UOp loop : grid.closed) {
      if (!loop.src(0).Is(Op::CONST)) continue;
      const int64_t words = loop.src(0).const_int();
      if (words % step != 0 || words > kMostTileWords) continue;
      const auto row_step = StrideAlong(ctx_, a.index, loop),
                 column_step = StrideAlong(ctx_, b.index, loop);
      if (row_step != a.elements || !column_step || *column_step <= 0) continue;
      Emit(grid, sums,
           {a, b, loop, static_cast<int64_t>(columns.size()) * grid.instruction->n, stride,
            *column_step});
      return;
    }
  }

  static Dtype ElementOf(const Grid& grid) {
    return *ir::DtypeByWire(static_cast<uint64_t>(grid.instruction->a));
  }

  struct Tile {
    Words row, column;  // the first ones
    UOp loop;           // over the words
    int64_t columns;
    int64_t row_stride, word_stride;  // in memory
  };
  void Emit(const Grid& grid, std::span<const UOp> sums, const Tile& tile) {
    const auto count = static_cast<int64_t>(sums.size()) * grid.instruction->n;
    const UOp array = ir::Buffer(ctx_, next_slot_++, sums[0].dtype(),
                                 ir::ShapeArg(ctx_, ir::Dims{count}), ir::AddrSpace::REG);
    const ir::Substitution begin = {{tile.loop.id(), ctx_.Idx(0)}};
    const auto start = [&](const Words& words) {
      return ir::Index(ctx_, words.buffer, ir::Substitute(ctx_, words.index, begin));
    };
    const ir::WmmaBlock block = {.a = grid.a,
                                 .b = grid.b,
                                 .rows = count / tile.columns,
                                 .columns = tile.columns,
                                 .words = tile.loop.src(0).const_int(),
                                 .row_stride = tile.row_stride,
                                 .word_stride = tile.word_stride};
    const UOp filled = ir::After(
        ctx_, array,
        {ctx_.Make(Op::WMMA_BLOCK, Dtype::Void,
                   {ir::Index(ctx_, array, ctx_.Idx(0)), start(tile.row), start(tile.column)},
                   block.ToArg(ctx_))});
    for (size_t i = 0; i < sums.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) * grid.instruction->n;
      UOp value = ir::Load(ctx_, ir::Index(ctx_, filled, ctx_.Idx(at), UOp(), grid.instruction->n));
      std::vector<UOp> others;
      for (UOp r : grid.closed) {
        if (r != tile.loop) others.push_back(r);
      }
      if (!others.empty()) value = ir::ReduceRanges(ctx_, Op::ADD, value, others);
      map_[sums[i].id()] = value;
    }
  }

  ir::UOpContext& ctx_;
  const Target& target_;
  std::vector<UOp> order_;
  absl::flat_hash_set<uint32_t> stored_;  // PARAMs
  std::map<Key, Grid> grids_;
  ir::Substitution map_;
  int64_t next_slot_ = 0;
};

}  // namespace

UOp MakeWmmaTiles(ir::UOpContext& ctx, UOp sink, const Target& target) {
  const bool any = std::any_of(target.matrix_instructions.begin(), target.matrix_instructions.end(),
                               [](const MatrixInstruction& i) { return i.m > 1; });
  return any ? TileMaker(ctx, sink, target).Run(sink) : sink;
}

}  // namespace uopd::codegen
