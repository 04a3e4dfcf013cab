// SPDX-License-Identifier: MIT
#include "core/codegen/attention/warp_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/codegen/attention/online.h"
#include "core/codegen/attention/row_fragment.h"
#include "core/codegen/attention/row_products.h"
#include "core/codegen/attention/row_terms.h"
#include "core/codegen/gpu/passes/thread_bits.h"
#include "core/codegen/gpu/product/fragment_index.h"
#include "core/codegen/gpu/product/staged_operand.h"
#include "core/codegen/opts/make/tensor_core.h"
#include "core/codegen/passes/rebuild.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/mma.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using rules::IndexProduct;
using rules::IndexSum;

// `value` with ranges replaced where it depends on them, which is not inside of the nodes that close them.
UOp ReplaceOpen(ir::UOpContext& ctx, UOp value, const ir::Substitution& map) {
  const auto closes = [&](UOp u) {
    return std::ranges::any_of(u.closed(), [&](UOp r) { return map.contains(r.id()); });
  };
  absl::flat_hash_map<uint32_t, UOp> done;
  std::vector<UOp> srcs;
  const auto enter = [&](UOp u) { return !closes(u) && !map.contains(u.id()); };
  for (UOp u : ir::Toposort(ctx, std::span<const UOp>(&value, 1), enter)) {
    UOp& out = done[u.id()];
    if (const auto it = map.find(u.id()); it != map.end()) {
      out = it->second;
    } else if (closes(u)) {
      ir::Substitution others = map;
      for (UOp r : u.closed()) others.erase(r.id());
      out = others.empty() ? u : ReplaceOpen(ctx, u, others);
    } else {
      srcs.clear();
      for (UOp s : u.srcs()) srcs.push_back(done.at(s.id()));
      out = rules::WithIndexSources(ctx, u, srcs);
    }
  }
  return done.at(value.id());
}

class WarpRows {
 public:
  WarpRows(ir::UOpContext& ctx, UOp sink, const Target& target, const RowProducts& products,
           const RowFragment& fragment)
      : ctx_(ctx), sink_(sink), target_(target), a_(products), f_(fragment), open_(ctx, sink) {
    for (UOp u : ir::Toposort(ctx, sink)) {
      if (u.Is(Op::RANGE)) next_id_ = std::max(next_id_, u.axis_id() + 1);
    }
    MakeRanges();
  }

  WarpRowsKernel Make(bool loads_words) {
    loads_words_ = loads_words;
    WarpRowsKernel out;
    out.sink = Rebuild(ctx_, sink_, [&](UOp u, std::span<const UOp> s) {
      const UOp made = Map(u, s);
      if (u == a_.second.a) weights_ = made;
      return made;
    });
    out.rows = rows_tile_;
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
  UOp NewRange(int64_t size, AxisType type, int64_t tag = 0) {
    if (size == 1) return ctx_.Idx(0);
    return ctx_.Make(Op::RANGE, Dtype::Index, {ctx_.Idx(size)},
                     ctx_.Data({next_id_++, static_cast<int64_t>(type)}), tag);
  }
  static int64_t Numbers(const std::vector<Fragment::Bit>& bits) {
    return int64_t{1} << bits.size();
  }
  UOp Tiles(UOp tile, int64_t size, UOp inside) {
    return IndexSum(ctx_, IndexProduct(ctx_, tile, ctx_.Idx(size)), inside);
  }
  // A place along an axis: of the lane, and of the number of its result along the axis.
  UOp Place(char axis, UOp field, const std::vector<Fragment::Bit>& results, UOp result) {
    const auto& lanes = f_.low[0].axis == axis ? f_.low : f_.high;
    return IndexSum(ctx_, FragmentDigits(ctx_, lanes, axis, field),
                    FragmentDigits(ctx_, results, axis, result));
  }

  void MakeRanges() {
    const int64_t others = f_.others(), k = f_.instruction.k;
    const int64_t n = a_.keys[0].src(0).const_int();
    const UOp low = NewRange(Numbers(f_.low), AxisType::LOCAL, kWarpRange),
              high = NewRange(Numbers(f_.high), AxisType::LOCAL, kUpperWarpRange);
    lane_ = Tiles(high, Numbers(f_.low), low);
    own_lane_ = f_.low_is_own() ? low : high;
    other_lane_ = f_.low_is_own() ? high : low;
    own_result_ = NewRange(Numbers(f_.own_results), AxisType::UPCAST);
    key_result_ = NewRange(Numbers(f_.other_results), AxisType::UNROLL);
    column_result_ = NewRange(Numbers(f_.other_results), AxisType::UNROLL);
    columns_result_ = NewRange(Numbers(f_.other_results), AxisType::UPCAST);
    key_tile_ = NewRange(n / others, AxisType::UNROLL);
    key_step_ = NewRange(n / k, AxisType::UNROLL);
    depth_step_ = NewRange(a_.depth.src(0).const_int() / k, AxisType::UNROLL);
    const int64_t columns = a_.columns.src(0).const_int();
    column_tile_ = NewRange(columns / others, AxisType::UNROLL);
    columns_tile_ = NewRange(columns / others, AxisType::UPCAST);
    const UOp rows = a_.rows.src(0);
    const UOp tiles =
        rows.Is(Op::CONST)
            ? ctx_.Idx((rows.const_int() + f_.rows() - 1) / f_.rows())
            : ir::Alu(ctx_, Op::FLOORDIV,
                      {IndexSum(ctx_, rows, ctx_.Idx(f_.rows() - 1)), ctx_.Idx(f_.rows())});
    rows_tile_ = Range(ctx_, tiles, a_.rows.axis_id(), AxisType::LOOP);
    row_ = Tiles(rows_tile_, f_.rows(), Place(f_.own(), own_lane_, f_.own_results, own_result_));
    const auto other_place = [&](UOp tile, UOp result) {
      return Tiles(tile, others, Place(f_.other(), other_lane_, f_.other_results, result));
    };
    key_ = other_place(key_tile_, key_result_);
    column_ = other_place(column_tile_, column_result_);
    columns_ = other_place(columns_tile_, columns_result_);
    later_ = Lt(ctx_, ctx_.Idx(0), a_.block);
  }

  // Appends those that are RANGEs: a range of one iteration is 0.
  static void Close(std::vector<UOp>& out, std::initializer_list<UOp> ranges) {
    for (UOp r : ranges) {
      if (r.Is(Op::RANGE)) out.push_back(r);
    }
  }

  UOp Map(UOp u, std::span<const UOp> s) {
    if (u.Is(Op::RANGE)) return MapRange(u, s);
    if (u == a_.scores) return Scores();
    if (u == a_.sums) return Sums();
    if (u.Is(Op::BUFFER)) return StateBuffer(u);
    if (u.Is(Op::INDEX)) return MapIndex(u, s);
    if (u.Is(Op::LOAD) && u.src(0).src(0).Is(Op::STAGE)) return s[0];
    if (u.Is(Op::WHERE) && u.src(0) == later_) return s[1];
    if (!u.Is(ir::kClosingOps)) return rules::WithIndexSources(ctx_, u, s);
    if (u == a_.end) return ctx_.WithSources(u, s);
    if (u.Is(Op::STAGE) && !IsState(u)) return s[0];  // its elements stay in registers
    std::vector<UOp> out(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(u.n_body()));
    if (u.Is(Op::REDUCE)) {
      Close(out, {key_tile_, key_result_, other_lane_});
    } else if (u.Is(Op::STAGE)) {
      return MapState(u, out);
    } else {
      for (size_t i = u.n_body(); i < s.size(); ++i) {
        if (u.src(i) != a_.rows && u.src(i) != a_.columns) out.push_back(s[i]);
      }
      Close(out, {rows_tile_, own_lane_, own_result_, columns_tile_, other_lane_, columns_result_});
    }
    return ctx_.Make(u.op(), u.dtype(), out, u.arg(), u.tag());
  }

  UOp MapRange(UOp u, std::span<const UOp> s) {
    if (u == a_.rows) return row_;
    if (u == a_.column) return column_;
    if (u == a_.columns) return columns_;
    if (std::ranges::find(a_.keys, u) != a_.keys.end()) return key_;
    return ctx_.WithSources(u, s);
  }

  bool IsState(UOp stage) const {
    const auto states = a_.end.src(0).srcs();
    return std::ranges::find(states, stage) != states.end();
  }
  // The elements of a state in one thread.
  int64_t Elements(UOp stage) const {
    const int64_t rows = Numbers(f_.own_results);
    if (stage != a_.sums_state) return rows;
    return a_.columns.src(0).const_int() / f_.others() * Numbers(f_.other_results) * rows;
  }
  // Where one of them is. Its place is a function of the number of the row's result, too, so that P can be taken for any.
  UOp ElementAt(bool sums, UOp tile, UOp result) {
    const UOp column = sums ? Tiles(tile, Numbers(f_.other_results), result) : ctx_.Idx(0);
    return Tiles(column, Numbers(f_.own_results), own_result_);
  }
  UOp StateBuffer(UOp u) {
    if (states_.empty()) states_ = StatesOf(ctx_, sink_);
    const int64_t n = Elements(states_.at(u.id()));
    return ir::Buffer(ctx_, u.slot(), u.dtype(), ir::ShapeArg(ctx_, ir::Dims{n}),
                      ir::AddrSpace::REG);
  }
  UOp MapState(UOp u, std::vector<UOp> out) {
    const bool sums = u == a_.sums_state;
    out[1] = ElementAt(sums, column_tile_, column_result_);
    if (sums) Close(out, {column_tile_, column_result_});
    Close(out, {own_result_});
    // The product need not be rounded before it is added (docs/codegen.md).
    const UOp sum = out[0];
    if (target_.has_fma && sum.Is(Op::ADD) && sum.src(0).Is(Op::MUL))
      out[0] = ir::Alu(ctx_, Op::MULACC, {sum.src(0).src(0), sum.src(0).src(1), sum.src(1)});
    return ctx_.Make(Op::STAGE, u.dtype(), out, ir::Arg::Int(Elements(u)), kThreadStage);
  }

  UOp MapIndex(UOp u, std::span<const UOp> s) {
    if (u.src(0).Is(Op::STAGE)) {
      const UOp value = s[0];
      return u.n_src() == 3 ? Where(ctx_, s[2], value, ctx_.Float(value.dtype(), 0)) : value;
    }
    if (const UOp state = MaybeState(u.src(0))) {
      const bool inside = u.src(0).Is(Op::BUFFER);
      const UOp from = inside ? ir::After(ctx_, s[0], {a_.block}) : s[0];
      const bool sums = states_.at(state.id()) == a_.sums_state;
      return ir::Index(ctx_, from,
                       inside ? ElementAt(sums, column_tile_, column_result_)
                              : ElementAt(sums, columns_tile_, columns_result_));
    }
    return WithRowGate(u, s, row_);
  }
  // An address, gated in the padding of the rows.
  UOp WithRowGate(UOp u, std::span<const UOp> s, UOp row) {
    UOp gate = s.size() == 3 ? s[2] : UOp();
    const UOp rows = a_.rows.src(0);
    const bool padded = !rows.Is(Op::CONST) || rows.const_int() % f_.rows() != 0;
    if (padded && open_.Varies(u.src(1), a_.rows)) {
      const UOp valid = Lt(ctx_, row, rows);
      gate = gate ? And(ctx_, gate, valid) : valid;
    }
    return ir::Index(ctx_, s[0], s[1], gate, u.arg().AsInt());
  }

  UOp MakeMma(UOp of_rows, UOp of_others, UOp step, UOp other_result) {
    const MatrixInstruction& i = f_.instruction;
    const UOp a = f_.swapped ? of_others : of_rows, b = f_.swapped ? of_rows : of_others;
    const ir::Mma mma{i.m,
                      i.n,
                      i.k,
                      static_cast<int64_t>(i.a),
                      static_cast<int64_t>(i.b),
                      f_.sum().lanes(),
                      (*ctx_.ShapeOf(a))[0].const_int(),
                      (*ctx_.ShapeOf(b))[0].const_int()};
    UOp sum =
        ctx_.Make(Op::MMA, *ir::DtypeByWire(static_cast<uint64_t>(i.sum)), {a, b}, mma.ToArg(ctx_));
    if (step.Is(Op::RANGE))
      sum = ir::ReduceRanges(ctx_, Op::ADD, sum, std::span<const UOp>(&step, 1));
    // The number of the result in the lane, a constant once the loops over results are copies.
    std::vector<Fragment::Bit> own, other;
    for (size_t bit = 0; bit < f_.sum().element.size(); ++bit) {
      const bool mine = f_.sum().element[bit].axis == f_.own();
      (mine ? own : other).push_back({mine ? 'q' : 'e', static_cast<int>(bit)});
    }
    const UOp number = IndexSum(ctx_, FragmentDigits(ctx_, own, 'q', own_result_),
                                FragmentDigits(ctx_, other, 'e', other_result));
    const auto result = [&](int64_t n) {
      return ctx_.Make(Op::GEP, sum.dtype(), {sum}, ir::Arg::Int(n));
    };
    UOp out = result(mma.results() - 1);
    for (int64_t n = mma.results() - 1; n-- > 0;)
      out = Where(ctx_, ir::Alu(ctx_, Op::CMPEQ, {number, ctx_.Idx(n)}), result(n), out);
    return out;
  }

  // `value` with ranges replaced, and gated in the padding of the rows if these are.
  UOp Replaced(UOp value, const ir::Substitution& map) {
    return Rebuild(ctx_, value, [&](UOp u, std::span<const UOp> s) {
      if (const auto it = map.find(u.id()); it != map.end()) return it->second;
      const auto row = map.find(a_.rows.id());
      if (u.Is(Op::INDEX) && row != map.end()) return WithRowGate(u, s, row->second);
      return rules::WithIndexSources(ctx_, u, s);
    });
  }

  // The words of keys or values: tiles of `tile` along the axes of `own`, steps along those of `summed`.
  UOp StagedWords(UOp value, UOp maybe_valid, std::span<const UOp> own, UOp tile,
                  std::span<const UOp> summed, UOp step) {
    const UOp own_place = NewRange(f_.others(), AxisType::LOOP),
              sum_place = NewRange(f_.instruction.k, AxisType::LOOP);
    ir::Substitution map;
    for (UOp r : own) map[r.id()] = Tiles(tile, f_.others(), own_place);
    for (UOp r : summed) map[r.id()] = Tiles(step, f_.instruction.k, sum_place);
    std::vector<PackPart> parts;
    const auto part = [&](UOp range, size_t axis, int64_t stride) {
      if (range.Is(Op::RANGE)) parts.push_back({range, axis, stride});
    };
    part(tile, 0, f_.others()), part(own_place, 0, 1);
    part(step, 1, f_.instruction.k), part(sum_place, 1, 1);
    const StagedOperand operand{
        Replaced(value, map),
        maybe_valid ? Replaced(maybe_valid, map) : UOp(),
        &f_.of_others(),
        f_.other(),
        {0, own_place},
        {1, sum_place},
        [&](UOp word) {
          std::vector<PackPart> used = parts;
          std::erase_if(used, [&](const PackPart& p) { return !ir::Reaches(ctx_, word, p.range); });
          return used;
        }};
    return StageOperand(ctx_, target_, operand, lane_, loads_words_, next_id_);
  }

  UOp Scores() {
    const UOp row_place = NewRange(f_.rows(), AxisType::LOOP),
              sum_place = NewRange(f_.instruction.k, AxisType::LOOP);
    const ir::Substitution map = {{a_.rows.id(), Tiles(rows_tile_, f_.rows(), row_place)},
                                  {a_.depth.id(), Tiles(depth_step_, f_.instruction.k, sum_place)}};
    const StagedOperand rows{Replaced(a_.first.a, map),
                             UOp(),
                             &f_.of_rows(),
                             f_.own(),
                             {0, row_place},
                             {1, sum_place},
                             nullptr};
    const UOp of_rows = DirectOperand(ctx_, rows, lane_, loads_words_, next_id_);
    const UOp of_keys = StagedWords(a_.first.b, UOp(), a_.keys, key_tile_,
                                    std::array<UOp, 1>{a_.depth}, depth_step_);
    return MakeMma(of_rows, of_keys, depth_step_, key_result_);
  }

  // The words of the weights P that the lane has in its registers.
  UOp Weights() {
    const Fragment& place = f_.of_rows();
    const int64_t in_word = 32 / ir::Bits(weights_.dtype());
    size_t low_bits = 0;
    while ((int64_t{1} << low_bits) < in_word) ++low_bits;
    const UOp element = NewRange(in_word, AxisType::UNROLL);
    const std::span<const Fragment::Bit> low(f_.operand.data(), low_bits);
    std::vector<UOp> words;
    for (int64_t w = 0; w < place.elements() / in_word; ++w) {
      const auto number = [&](char axis) {
        int64_t fixed = 0;
        for (size_t bit = low_bits; bit < f_.operand.size(); ++bit) {
          if (f_.operand[bit].axis == axis)
            fixed += (w >> (bit - low_bits) & 1) << f_.operand[bit].bit;
        }
        return IndexSum(ctx_, FragmentDigits(ctx_, low, axis, element), ctx_.Idx(fixed));
      };
      ir::Substitution map;
      const auto replace = [&](UOp range, UOp by) {
        if (range.Is(Op::RANGE)) map[range.id()] = by;
      };
      replace(key_tile_, Tiles(key_step_, f_.instruction.k / f_.others(), number('t')));
      replace(key_result_, number('e'));
      replace(own_result_, number('q'));
      words.push_back(MakeWord(ctx_, ReplaceOpen(ctx_, weights_, map), element, UOp(), false));
    }
    return ctx_.Make(Op::STACK, Dtype::U32, words);
  }

  UOp Sums() {
    const UOp values = a_.second.b;
    const UOp of_values =
        StagedWords(values, values.Is(Op::LOAD) ? UOp() : a_.maybe_valid,
                    std::array<UOp, 1>{a_.column}, column_tile_, a_.sums.closed(), key_step_);
    return MakeMma(Weights(), of_values, key_step_, column_result_);
  }

  ir::UOpContext& ctx_;
  const UOp sink_;
  const Target& target_;
  const RowProducts a_;
  const RowFragment f_;
  const OpenRanges open_;
  int64_t next_id_ = 0;
  bool loads_words_ = true;
  absl::flat_hash_map<uint32_t, UOp> states_;
  UOp weights_;  // what became of P
  UOp later_;    // false in the first block: states are set before it
  // The lane, and its two fields.
  UOp lane_, own_lane_, other_lane_;
  // RANGEs, or 0 where there is one iteration: tiles, steps of sums, and the numbers of results in a lane.
  UOp rows_tile_, own_result_, key_tile_, key_step_, key_result_, depth_step_;
  UOp column_tile_, column_result_, columns_tile_, columns_result_;
  UOp row_, key_, column_, columns_;  // what replaces the axes outside of operands
};

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
    WarpRowsKernel out = WarpRows(ctx, sink, target, a, *fragment).Make(true);
    if (HasTwoDtypes(ctx, out.sink)) out = WarpRows(ctx, sink, target, a, *fragment).Make(false);
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
    if (axes[a].is_blocks) size.blocks_axis = a;
    const bool output =
        axes[a].range.axis_type() == AxisType::LOOP && adding.kernel().InEveryEnd(axes[a].range);
    if (output) size.tiles *= static_cast<double>(adding.ctx.BoundsOf(axes[a].symbolic).max);
  }
  adding.state.warp_rows = size;
  return absl::OkStatus();
}

}  // namespace uopd::codegen
