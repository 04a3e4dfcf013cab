// SPDX-License-Identifier: MIT
#include "core/codegen/attention/warp_rows/warp_rows.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/text.h"
#include "core/codegen/attention/online/online.h"
#include "core/codegen/attention/warp_rows/row_fragment.h"
#include "core/codegen/attention/warp_rows/row_mmas.h"
#include "core/codegen/attention/warp_rows/row_padding.h"
#include "core/codegen/attention/warp_rows/row_places.h"
#include "core/codegen/attention/warp_rows/row_products.h"
#include "core/codegen/opts/make/tensor_core.h"
#include "core/codegen/passes/rebuild.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

// The states of ONLINE (online.h) as registers of the threads that compute a tile of rows.
//
// A thread has an element of a state for each of its rows, and of the sums for each of its columns,
// too. The place of an element is a function of the number of the row's result, so that P can be
// taken for any row. What the constructor takes must outlive it.
class RowStates {
 public:
  RowStates(ir::UOpContext& ctx, UOp sink, const RowTile& tile);

  // Whether the STAGE is that of a state.
  bool Has(UOp stage) const;
  // What replaces the BUFFER of a state, and its STAGE, which has the sources `body` without
  // RANGEs. `fma`: the target has fused products and sums.
  UOp MapBuffer(UOp buffer);
  UOp MapStage(UOp stage, std::vector<UOp> body, bool fma);
  // What replaces the INDEX of a state, which has the first source `from`; null if it is none.
  UOp MaybeMapIndex(UOp index, UOp from);

 private:
  // The elements of a state in one thread.
  int64_t Elements(UOp stage) const;
  // Where one of them is, for the column of the state or of the output; only sums have columns.
  UOp ElementAt(bool sums, const OtherPlaces& column);

  ir::UOpContext& ctx_;
  const RowTile& tile_;
  const absl::flat_hash_map<uint32_t, UOp> states_;  // as StatesOf
};

RowStates::RowStates(ir::UOpContext& ctx, UOp sink, const RowTile& tile)
    : ctx_(ctx), tile_(tile), states_(StatesOf(ctx, sink)) {}

bool RowStates::Has(UOp stage) const {
  const auto states = tile_.products.end.src(0).srcs();
  return std::ranges::find(states, stage) != states.end();
}

int64_t RowStates::Elements(UOp stage) const {
  const int64_t rows = NumbersOf(tile_.fragment.own_results);
  if (stage != tile_.products.sums_state) return rows;
  return tile_.products.columns.src(0).const_int() / tile_.fragment.others() *
         NumbersOf(tile_.fragment.other_results) * rows;
}

UOp RowStates::ElementAt(bool sums, const OtherPlaces& column) {
  const UOp at =
      sums ? InTile(ctx_, column.tile, NumbersOf(tile_.fragment.other_results), column.result)
           : ctx_.Idx(0);
  return InTile(ctx_, at, NumbersOf(tile_.fragment.own_results), tile_.places.own_result);
}

UOp RowStates::MapBuffer(UOp buffer) {
  const int64_t n = Elements(states_.at(buffer.id()));
  return ir::Buffer(ctx_, buffer.slot(), buffer.dtype(), ir::ShapeArg(ctx_, ir::Dims{n}),
                    ir::AddrSpace::REG);
}

UOp RowStates::MapStage(UOp stage, std::vector<UOp> body, bool fma) {
  const bool sums = stage == tile_.products.sums_state;
  body[1] = ElementAt(sums, tile_.places.column);
  if (sums) AppendRanges(body, {tile_.places.column.tile, tile_.places.column.result});
  AppendRanges(body, {tile_.places.own_result});
  // The product need not be rounded before it is added (docs/codegen/numbers.md).
  const UOp sum = body[0];
  if (fma && sum.Is(Op::ADD) && sum.src(0).Is(Op::MUL))
    body[0] = ir::Alu(ctx_, Op::MULACC, {sum.src(0).src(0), sum.src(0).src(1), sum.src(1)});
  return ctx_.Make(Op::STAGE, stage.dtype(), body, ir::Arg::Int(Elements(stage)), kThreadStage);
}

UOp RowStates::MaybeMapIndex(UOp index, UOp from) {
  const UOp state = MaybeState(index.src(0));
  if (!state) return UOp();
  const bool inside = index.src(0).Is(Op::BUFFER);
  const UOp array = inside ? ir::After(ctx_, from, {tile_.products.loop}) : from;
  const bool sums = states_.at(state.id()) == tile_.products.sums_state;
  return ir::Index(ctx_, array,
                   ElementAt(sums, inside ? tile_.places.column : tile_.places.columns));
}

// Replaces the nodes of the kernel by those of a tile of rows.
class WarpRows {
 public:
  // `loads_words`, `next_id`: as for StageOperand.
  WarpRows(ir::UOpContext& ctx, UOp sink, const Target& target, const RowTile& tile,
           bool loads_words, int64_t next_id)
      : ctx_(ctx),
        sink_(sink),
        target_(target),
        a_(tile.products),
        f_(tile.fragment),
        p_(tile.places),
        next_id_(next_id),
        later_(Lt(ctx, ctx.Idx(0), tile.products.loop)),
        padding_(ctx, sink, tile.products.rows, tile.fragment.rows()),
        states_(ctx, sink, tile),
        mmas_(ctx, target, tile, padding_, loads_words, next_id_) {}

  WarpRowsKernel Make() {
    WarpRowsKernel out;
    out.sink = Rebuild(ctx_, sink_, [&](UOp u, std::span<const UOp> s) {
      const UOp made = Map(u, s);
      if (u == a_.second.a) weights_ = made;
      return made;
    });
    out.rows = p_.rows_tile;
    out.tile_rows = f_.rows();
    out.number_of_rows = static_cast<int64_t>(ctx_.BoundsOf(a_.rows.src(0)).max);
    // Results of both products, and the words of Q and P.
    const int64_t results = f_.instruction.m * f_.instruction.n / f_.sum().lanes(),
                  words = f_.of_rows().elements() * ir::Bits(a_.first.a.dtype()) / 32;
    const auto size = [](UOp range) { return range.src(0).const_int(); };
    out.registers = results * (size(a_.columns) + size(a_.keys[0])) / f_.others() +
                    words * (size(a_.depth) + size(a_.keys[0])) / f_.instruction.k;
    out.copies = size(a_.keys[0]) * std::max(size(a_.depth), size(a_.columns)) *
                 ir::Bits(a_.first.a.dtype()) / 128;
    return out;
  }

 private:
  UOp Map(UOp u, std::span<const UOp> s) {
    if (u.Is(Op::RANGE)) return MapRange(u, s);
    if (u == a_.scores) return mmas_.Scores();
    if (u == a_.sums) return mmas_.Sums(weights_);
    if (u.Is(Op::BUFFER)) return states_.MapBuffer(u);
    if (u.Is(Op::INDEX)) return MapIndex(u, s);
    if (u.Is(Op::LOAD) && u.src(0).src(0).Is(Op::STAGE)) return s[0];
    if (u.Is(Op::WHERE) && u.src(0) == later_) return s[1];
    if (!u.Is(ir::kClosingOps)) return rules::WithIndexSources(ctx_, u, s);
    if (u == a_.end) return ctx_.WithSources(u, s);
    if (u.Is(Op::STAGE) && !states_.Has(u)) return s[0];  // its elements stay in registers
    std::vector<UOp> out(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(u.n_body()));
    if (u.Is(Op::REDUCE)) {
      AppendRanges(out, {p_.keys.tile, p_.keys.result, p_.other_lane});
    } else if (u.Is(Op::STAGE)) {
      return states_.MapStage(u, std::move(out), target_.has_fma);
    } else {
      for (size_t i = u.n_body(); i < s.size(); ++i) {
        if (u.src(i) != a_.rows && u.src(i) != a_.columns) out.push_back(s[i]);
      }
      AppendRanges(out, {p_.rows_tile, p_.own_lane, p_.own_result, p_.columns.tile, p_.other_lane,
                         p_.columns.result});
    }
    return ctx_.Make(u.op(), u.dtype(), out, u.arg(), u.tag());
  }

  UOp MapRange(UOp u, std::span<const UOp> s) {
    if (u == a_.rows) return p_.row;
    if (u == a_.column) return p_.column.place;
    if (u == a_.columns) return p_.columns.place;
    if (std::ranges::find(a_.keys, u) != a_.keys.end()) return p_.keys.place;
    return ctx_.WithSources(u, s);
  }

  UOp MapIndex(UOp u, std::span<const UOp> s) {
    if (u.src(0).Is(Op::STAGE)) {
      const UOp value = s[0];
      return u.n_src() == 3 ? Where(ctx_, s[2], value, ctx_.Float(value.dtype(), 0)) : value;
    }
    const UOp of_state = states_.MaybeMapIndex(u, s[0]);
    return of_state ? of_state : padding_.Gated(u, s, p_.row);
  }

  ir::UOpContext& ctx_;
  const UOp sink_;
  const Target& target_;
  const RowProducts& a_;
  const RowFragment& f_;
  const RowPlaces& p_;
  int64_t next_id_;
  const UOp later_;  // false in the first key tile: states are set before it
  RowPadding padding_;
  RowStates states_;
  RowMmas mmas_;
  UOp weights_;  // what became of P
};

WarpRowsKernel MakeTiles(ir::UOpContext& ctx, UOp sink, const Target& target,
                         const RowProducts& products, const RowFragment& fragment,
                         bool loads_words) {
  int64_t next_id = 0;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::RANGE)) next_id = std::max(next_id, u.axis_id() + 1);
  }
  const RowTile tile = MakeRowTile(ctx, products, fragment, next_id);
  return WarpRows(ctx, sink, target, tile, loads_words, next_id).Make();
}

// Whether some slot is declared with two dtypes.
bool HasTwoDtypes(const ir::UOpContext& ctx, UOp sink) {
  absl::flat_hash_map<int64_t, UOp> params;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::PARAM) && params.emplace(u.slot(), u).first->second != u) return true;
  }
  return false;
}

// Whether the sizes that the instruction fixes divide those of the kernel.
bool DividesSizes(const RowProducts& a, const RowFragment& f) {
  const auto divides = [](int64_t n, UOp range) {
    return range.src(0).Is(Op::CONST) && range.src(0).const_int() % n == 0;
  };
  return divides(f.others(), a.columns) && divides(f.instruction.k, a.depth) &&
         divides(f.instruction.k, a.sums.closed()[0]);
}

}  // namespace

absl::StatusOr<WarpRowsKernel> MakeWarpRows(ir::UOpContext& ctx, UOp sink, const Target& target,
                                            UOp range, int64_t which) {
  const auto bad = [](std::string_view why) {
    return absl::InvalidArgumentError(Cat("TC of a kernel with ONLINE does not apply: ", why));
  };
  RowProducts a;
  if (const std::string why = ReadRowProducts(ctx, sink, range, a); !why.empty()) return bad(why);
  if (!target.shuffles) return bad("the target has no shuffles");
  int64_t fits = 0;
  for (const MatrixInstruction& i : target.matrix_instructions) {
    if (!i.of_warp() || i.sum_place.lanes() != target.warp_lanes) continue;
    if (!Computes(i, a.first, a.scores.dtype()) || !Computes(i, a.second, a.sums.dtype())) continue;
    const auto fragment = RowFragment::MaybeOf(i);
    if (!fragment || !DividesSizes(a, *fragment) || ++fits < which) continue;
    WarpRowsKernel out = MakeTiles(ctx, sink, target, a, *fragment, true);
    if (HasTwoDtypes(ctx, out.sink)) out = MakeTiles(ctx, sink, target, a, *fragment, false);
    return out;
  }
  return bad(Cat(fits, " matrix instructions of the target compute both products"));
}

absl::Status AddWarpRows(Adding& adding, const Opt& opt) {
  if (adding.before.size() != 1) return Bad(opt, "TC comes directly after ONLINE");
  UOPD_ASSIGN(const WarpRowsKernel made,
              MakeWarpRows(adding.ctx, adding.kernel().sink, adding.target, adding.Axis(opt).range,
                           opt.amount));
  adding.state.Become(std::make_shared<const PlanKernel>(adding.ctx, made.sink));
  WarpRowsSize size{.rows = made.number_of_rows,
                    .tile_rows = made.tile_rows,
                    .registers = made.registers,
                    .copies = made.copies};
  const std::vector<PlanAxis>& axes = adding.state.axes;
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].range == made.rows) size.rows_axis = a;
    if (axes[a].is_key_tiles) size.key_tiles_axis = a;
    const bool output =
        axes[a].range.axis_type() == AxisType::LOOP && adding.kernel().InEveryEnd(axes[a].range);
    if (output) size.tiles *= static_cast<double>(adding.ctx.BoundsOf(axes[a].symbolic).max);
  }
  adding.state.warp_rows = size;
  return absl::OkStatus();
}

}  // namespace uopd::codegen
