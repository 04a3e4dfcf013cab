// SPDX-License-Identifier: MIT
#include "core/codegen/passes/linearise/linearise.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/codegen/passes/combine.h"
#include "core/codegen/passes/scans.h"
#include "core/codegen/passes/unroll.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {
namespace {

using ir::AddrSpace;
using ir::AxisType;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using LoopSet = ir::Int128;  // a bit for each loop

constexpr size_t kMostStores = 256;  // of a nest: more are stored after all values are computed
constexpr size_t kMaxLoops = 126;    // more than the scheduler gives a kernel

// An open loop, or the body of the kernel, which is the outermost block and always open. Lines are
// appended. Lines of an inner block are appended when it closes, so a line that is appended here
// while the inner block is open stands before it.
struct Block {
  LoopSet bit = 0;
  UOp range;  // the RANGE of the kernel; null for the outermost block
  std::vector<UOp> lines;
  absl::flat_hash_map<uint32_t, UOp> made;  // old node -> new node
};

// An array together with the statement that fills it (LowerStages).
bool IsFilledArray(UOp u) { return u.Is(Op::AFTER) && u.src(0).Is(Op::BUFFER); }
// Whether the line(s) of u need loops of their own.
bool HasLoops(UOp u) { return u.Is(Op::REDUCE) || IsFilledArray(u); }
std::span<const UOp> LoopsOf(UOp u) {
  if (u.Is(Op::REDUCE)) return u.closed();
  return u.src(1).Is(Op::END) ? u.src(1).closed() : std::span<const UOp>();
}

// Stores that share one nest of loops.
struct Nest {
  std::vector<UOp> loops;
  std::vector<UOp> stores;
};

class Lineariser {
 public:
  Lineariser(ir::UOpContext& ctx, const Target& target, std::span<const std::string> variables,
             LaunchSize& grid_x)
      : ctx_(ctx), target_(target), variables_(variables), grid_x_(grid_x) {}

  absl::StatusOr<UOp> Run(UOp sink) {
    UOPD_TRY(Analyse(sink));
    std::vector<Nest> nests = Nests(sink);
    path_.emplace_back();
    for (const Nest& nest : nests) UOPD_TRY(EmitNest(nest));
    return ctx_.Make(Op::LINEAR, Dtype::Void, path_[0].lines);
  }

 private:
  // Fills bit_, loops_ (the loops that a node depends on) and level_ (how deep reductions and
  // arrays nest in it).
  absl::Status Analyse(UOp sink) {
    const auto order = ir::Toposort(ctx_, sink);
    for (UOp u : order) {
      if (!u.Is(Op::RANGE)) continue;
      if (bit_.size() == kMaxLoops)
        return absl::UnimplementedError(Cat("kernel has over ", kMaxLoops, " loops"));
      bit_[u.id()] = u.axis_type() == AxisType::THREAD ? 0 : LoopSet{1} << bit_.size();
    }
    for (UOp u : order) {
      LoopSet loops = u.Is(Op::RANGE) ? bit_[u.id()] : 0;
      int level = 0;
      for (UOp s : u.body()) loops |= loops_[s.id()];
      for (UOp s : u.srcs()) level = std::max(level, level_[s.id()]);
      loops &= ~Closed(u);
      loops_[u.id()] = loops;
      level_[u.id()] = level + (HasLoops(u) ? 1 : 0);
    }
    return absl::OkStatus();
  }
  LoopSet Closed(UOp u) const {
    LoopSet out = 0;
    for (UOp r : u.closed()) out |= bit_.at(r.id());
    return out;
  }

  static void Flatten(UOp statement, std::vector<UOp>& out) {
    if (!statement.Is(Op::GROUP)) return out.push_back(statement);
    for (UOp s : statement.srcs()) Flatten(s, out);
  }

  // The statements of a kernel. A GROUP without ENDs is one statement: all its values are computed
  // before its first STORE. (Its loops may be gone because they were unrolled.)
  static void Statements(UOp u, std::vector<UOp>& out) {
    std::vector<UOp> parts;
    Flatten(u, parts);
    const bool loops = std::any_of(parts.begin(), parts.end(), [](UOp s) { return s.Is(Op::END); });
    if (!u.Is(Op::GROUP) || !loops) return out.push_back(u);
    for (UOp s : u.srcs()) Statements(s, out);
  }

  // Consecutive statements with equal loops share one nest, unless some statement loads from a
  // buffer that another one stores to.
  std::vector<Nest> Nests(UOp sink) {
    std::vector<UOp> statements;
    for (UOp s : sink.srcs()) Statements(s, statements);
    std::vector<Nest> out;
    const bool shares = !LoadsWhatOthersStore(statements);
    for (UOp s : statements) {
      Nest nest;
      if (s.Is(Op::END)) {
        nest.loops.assign(s.srcs().begin() + 1, s.srcs().end());
        std::sort(nest.loops.begin(), nest.loops.end(), [](UOp a, UOp b) {
          return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
        });
        s = s.src(0);
      }
      Flatten(s, nest.stores);
      if (shares && !out.empty() && out.back().loops == nest.loops) {
        out.back().stores.insert(out.back().stores.end(), nest.stores.begin(), nest.stores.end());
      } else {
        out.push_back(std::move(nest));
      }
    }
    return out;
  }
  bool LoadsWhatOthersStore(std::span<const UOp> statements) const {
    std::vector<std::vector<UOp>> loads(statements.size()), stores(statements.size());
    for (size_t i = 0; i < statements.size(); ++i) {
      for (UOp u : ir::Toposort(ctx_, statements[i])) {
        if (!u.Is({Op::LOAD, Op::STORE})) continue;
        const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
        if (base.Is(Op::PARAM)) (u.Is(Op::LOAD) ? loads : stores)[i].push_back(base);
      }
    }
    for (size_t i = 0; i < statements.size(); ++i) {
      for (size_t j = 0; j < statements.size(); ++j) {
        if (i == j) continue;
        for (UOp b : stores[i]) {
          if (std::find(loads[j].begin(), loads[j].end(), b) != loads[j].end()) return true;
        }
      }
    }
    return false;
  }

  absl::Status EmitNest(const Nest& nest) {
    // The rules remove the stores of a loop that never runs. Then nothing is left to emit.
    if (nest.stores.empty()) return absl::OkStatus();
    const size_t depth = path_.size();
    for (UOp r : nest.loops) UOPD_TRY(Open(r));
    std::vector<UOp> values, done;
    for (UOp s : nest.stores) values.insert(values.end(), s.srcs().begin(), s.srcs().end());
    with_loops_ = WithLoops(values);
    std::vector<UOp> left(nest.stores);
    const auto store_all_made = [&] {
      std::erase_if(left, [&](UOp s) {
        if (!IsMade(s.src(0)) || !IsMade(s.src(1))) return false;
        done.push_back(
            ctx_.Make(Op::STORE, Dtype::Void, {New(s.src(0)), New(s.src(1))}, s.arg(), s.tag()));
        path_.back().lines.push_back(done.back());
        return true;
      });
    };
    if (LoadsWhatItStores(values, nest.stores) || left.size() > kMostStores) {
      // An iteration loads everything that it needs before it stores.
      UOPD_TRY(Emit(values));
      store_all_made();
    }
    // Each value is stored as soon as it is computed: few values are alive together.
    while (!left.empty()) {
      const size_t before = left.size();
      const UOp next = left[0];
      UOPD_TRY(Emit(next.srcs()));
      for (UOp s : left) {
        if (IsMade(s.src(1))) UOPD_TRY(Emit(s.srcs().first(1)));
      }
      store_all_made();
      if (left.size() == before) return UOPD_BUG("a store has no place among the lines");
    }
    Close(depth, done);
    return absl::OkStatus();
  }
  // Whether a value depends on a LOAD from a buffer that is stored to.
  bool LoadsWhatItStores(std::span<const UOp> values, std::span<const UOp> stores) const {
    absl::flat_hash_set<uint32_t> stored;
    for (UOp s : stores) stored.insert(ir::MaybeBaseOf(s.src(0).src(0)).id());
    for (UOp u : ir::Toposort(ctx_, values)) {
      if (!u.Is(Op::LOAD)) continue;
      const UOp base = ir::MaybeBaseOf(u.src(0).src(0));
      if (base && stored.contains(base.id())) return true;
    }
    return false;
  }

  // Opens a block for a RANGE of the kernel. A THREAD range opens none: it becomes a SPECIAL.
  absl::Status Open(UOp range) {
    UOPD_TRY(Emit(range.srcs()));
    const UOp size = New(range.src(0));
    if (range.axis_type() == AxisType::THREAD) {
      UOPD_ASSIGN(grid_x_, LaunchSize::Of(size, variables_));
      const UOp special = ctx_.Make(Op::SPECIAL, Dtype::Index, {size},
                                    ctx_.Data({static_cast<int64_t>(AxisType::THREAD), 0}));
      if (path_[0].made.try_emplace(range.id(), special).second) path_[0].lines.push_back(special);
      return absl::OkStatus();
    }
    Block b;
    b.bit = bit_.at(range.id());
    b.range = Range(ctx_, size, next_loop_++, range.axis_type());
    b.lines.push_back(b.range);
    b.made[range.id()] = b.range;
    path_.push_back(std::move(b));
    return absl::OkStatus();
  }

  // Closes blocks down to `depth`; returns the outermost END, or null if none was open.
  UOp Close(size_t depth, std::vector<UOp> statements) {
    UOp end;
    while (path_.size() > depth) {
      Block b = std::move(path_.back());
      path_.pop_back();
      UOp statement = statements[0];
      if (statements.size() > 1) {
        statement = ctx_.Make(Op::GROUP, Dtype::Void, statements);
        b.lines.push_back(statement);
      }
      end = ctx_.Make(Op::END, Dtype::Void, {statement, b.range});
      b.lines.push_back(end);
      auto& to = path_.back().lines;
      to.insert(to.end(), b.lines.begin(), b.lines.end());
      statements = {end};
    }
    return end;
  }

  // The block that u belongs to: the innermost open loop that u depends on.
  Block& Home(UOp u) {
    const LoopSet loops = loops_.at(u.id());
    for (size_t i = path_.size(); i-- > 1;) {
      if ((path_[i].bit & loops) != 0) return path_[i];
    }
    return path_[0];
  }
  bool IsMade(UOp u) { return Inline(u) || Home(u).made.contains(u.id()); }
  // Constants and the shapes of buffers are not lines.
  static bool Inline(UOp u) {
    return u.Is(Op::CONST) || (u.Is(Op::STACK) && u.dtype() == Dtype::Index && u.n_src() == 0);
  }
  UOp New(UOp u) {
    if (u.Is(Op::CONST)) return u;
    return Home(u).made.at(u.id());
  }

  // Emits every node below `roots` that is not emitted yet and depends on open loops only.
  // Recursion (through EmitWithLoops) is as deep as reductions and arrays nest.
  absl::Status Emit(std::span<const UOp> roots) {
    LoopSet open = 0;
    for (const Block& b : path_) open |= b.bit;
    auto enter = [&](UOp u) { return !u.Is({Op::PARAM, Op::BUFFER}) && !IsMade(u); };
    for (UOp u : ir::Toposort(ctx_, roots, enter)) {
      if (ctx_.Interrupted(4)) return ctx_.CheckInterrupt();
      if (u.dtype() == Dtype::Void) continue;  // a statement: emitted with its array
      if ((loops_.at(u.id()) & ~open) != 0 || IsMade(u))
        continue;  // depends on a closed loop: emitted with its reduction or array
      if (HasLoops(u)) {
        UOPD_TRY(EmitWithLoops(u));
        continue;
      }
      if (u.Is(Op::SCAN)) {
        UOPD_TRY(EmitScan(u));
        continue;
      }
      Block& home = Home(u);
      UOp made = u;
      if (u.Is(Op::BUFFER)) {
        made = ir::Buffer(ctx_, next_register_++, u.dtype(), u.src(0), AddrSpace::REG);
      } else if (!u.Is(Op::PARAM)) {
        std::vector<UOp> srcs;
        for (UOp s : u.srcs()) srcs.push_back(New(s));
        made = ctx_.Make(u.op(), u.dtype(), srcs, u.arg(), u.Is(Op::LOAD) ? u.tag() : 0);
      }
      home.made[u.id()] = made;
      home.lines.push_back(made);
    }
    return absl::OkStatus();
  }

  std::vector<UOp> WithLoops(std::span<const UOp> roots) {
    std::vector<UOp> out;
    for (UOp u : ir::Toposort(ctx_, roots)) {
      if (HasLoops(u)) out.push_back(u);
    }
    return out;
  }

  // Emits `first` and all reductions and arrays that can share its loops.
  absl::Status EmitWithLoops(UOp first) {
    std::vector<UOp> together;
    const auto loops = LoopsOf(first);
    for (UOp r : with_loops_) {
      const auto mine = LoopsOf(r);
      const bool same = std::equal(mine.begin(), mine.end(), loops.begin(), loops.end());
      if (same && level_[r.id()] == level_[first.id()] && loops_[r.id()] == loops_[first.id()] &&
          !IsMade(r))
        together.push_back(r);
    }
    // The reduction or array stands outside of the open loops that it does not depend on: set those
    // blocks aside while it is emitted.
    size_t keep = 1;
    for (size_t i = 1; i < path_.size(); ++i) {
      if ((path_[i].bit & loops_.at(first.id())) != 0) keep = i + 1;
    }
    std::vector<Block> set_aside(
        std::make_move_iterator(path_.begin() + static_cast<std::ptrdiff_t>(keep)),
        std::make_move_iterator(path_.end()));
    path_.resize(keep);
    UOPD_TRY(EmitLoops(together));
    for (Block& b : set_aside) path_.push_back(std::move(b));
    return absl::OkStatus();
  }

  // The accumulator of a REDUCE or SCAN: a register, or the lanes of a vector.
  struct Accumulator {
    UOp reduce, buffer, init;
    int64_t lanes;
  };
  // Appends the accumulator to `lines`, with the identity element in it.
  Accumulator MakeAccumulator(UOp u, std::vector<UOp>& lines) {
    const auto line = [&](UOp n) {
      lines.push_back(n);
      return n;
    };
    const ir::Shape shape = *ctx_.ShapeOf(u);
    Accumulator a;
    a.reduce = u;
    a.lanes = shape.empty() ? 0 : shape[0].const_int();
    a.buffer =
        ir::Buffer(ctx_, next_register_++, u.dtype(),
                   ir::ShapeArg(ctx_, ir::Dims{std::max<int64_t>(a.lanes, 1)}), AddrSpace::REG);
    const ir::Scalar identity = ReduceIdentity(u.reduce_op(), u.dtype());
    UOp value = ir::IsFloat(u.dtype()) ? ctx_.Float(u.dtype(), identity.f)
                                       : ctx_.Int(u.dtype(), identity.i);
    line(a.buffer);
    if (a.lanes > 0) {
      // Accumulators in other loops may start with the same vector: it stands outside of all loops.
      value =
          ctx_.Make(Op::STACK, u.dtype(), std::vector<UOp>(static_cast<size_t>(a.lanes), value));
      path_[0].lines.push_back(value);
    }
    a.init =
        line(ir::Store(ctx_, line(ir::Index(ctx_, a.buffer, ctx_.Idx(0), UOp(), a.lanes)), value));
    return a;
  }

  // A running sum: an accumulator that is set up before the outermost of its loops, and changed in
  // each iteration. REQUIRES: its loops are the innermost ones that it depends on.
  absl::Status EmitScan(UOp u) {
    LoopSet scanned = 0;
    for (UOp r : u.scanned()) scanned |= bit_.at(r.id());
    size_t outer = 1;
    while (outer < path_.size() && (path_[outer].bit & scanned) == 0) ++outer;
    if (outer == path_.size()) return UOPD_BUG("a SCAN is outside of its loops");
    const Accumulator a = MakeAccumulator(u, path_[outer - 1].lines);
    Block& home = Home(u);
    const auto line = [&](UOp n) {
      home.lines.push_back(n);
      return n;
    };
    const UOp now = line(ir::After(ctx_, a.buffer, {a.init, home.range}));
    const UOp at = line(ir::Index(ctx_, now, ctx_.Idx(0), UOp(), a.lanes));
    const UOp before = line(ir::Load(ctx_, at)), x = New(u.src(0));
    const UOp after = Combine(ctx_, u.reduce_op(), before, x);
    for (UOp n : ir::Toposort(ctx_, std::span<const UOp>(&after, 1),
                              [&](UOp n) { return n != before && n != x; })) {
      if (n != before && n != x && !n.Is(Op::CONST)) line(n);
    }
    line(ir::Store(ctx_, at, after));
    home.made[u.id()] = u.tag() == kBefore ? before : after;
    return absl::OkStatus();
  }

  absl::Status EmitLoops(std::span<const UOp> together) {
    const auto closed = LoopsOf(together[0]);
    std::vector<UOp> loops(closed.begin(), closed.end());
    std::sort(loops.begin(), loops.end(), [](UOp a, UOp b) {
      return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
    });
    // Before the loops: everything that does not depend on them, then the accumulators.
    std::vector<UOp> terms;
    for (UOp r : together) {
      if (r.Is(Op::REDUCE)) {
        terms.push_back(r.src(0));
      } else {
        for (UOp s : Stores(r)) terms.insert(terms.end(), s.srcs().begin(), s.srcs().end());
      }
    }
    UOPD_TRY(Emit(terms));
    std::vector<Accumulator> acc;
    for (UOp r : together) {
      if (!r.Is(Op::REDUCE)) continue;
      acc.push_back(MakeAccumulator(r, path_.back().lines));
    }
    const size_t depth = path_.size();
    for (UOp l : loops) UOPD_TRY(Open(l));
    UOPD_TRY(Emit(StoredValues(together)));
    // Term by term, each load right before its first use: so few values are alive at a time.
    struct Step {
      UOp at, value;
      std::vector<UOp> terms;
    };
    std::vector<Step> steps;
    size_t most = 0;
    for (const Accumulator& a : acc) {
      const UOp now = Line(ir::After(ctx_, a.buffer, {a.init, path_.back().range}));
      Step step;
      step.at = Line(ir::Index(ctx_, now, ctx_.Idx(0), UOp(), a.lanes));
      step.value = Line(ir::Load(ctx_, step.at));
      Terms(a.reduce.src(0), ChainOp(a.reduce), step.terms);
      most = std::max(most, step.terms.size());
      steps.push_back(std::move(step));
    }
    for (size_t t = 0; t < most; ++t) {
      for (size_t i = 0; i < steps.size(); ++i) {
        if (t >= steps[i].terms.size()) continue;
        UOPD_ASSIGN(steps[i].value, AddTerm(acc[i].reduce, steps[i].value, steps[i].terms[t]));
      }
    }
    std::vector<UOp> stores;
    for (const Step& step : steps) stores.push_back(Line(ir::Store(ctx_, step.at, step.value)));
    for (UOp r : together) {
      if (r.Is(Op::REDUCE)) continue;
      for (UOp s : Stores(r)) stores.push_back(Line(ir::Store(ctx_, New(s.src(0)), New(s.src(1)))));
    }
    if (const UOp end = Close(depth, stores)) stores = {end};
    for (const Accumulator& a : acc) {
      const UOp after = Line(ir::After(ctx_, a.buffer, stores));
      const UOp at = Line(ir::Index(ctx_, after, ctx_.Idx(0), UOp(), a.lanes));
      path_.back().made[a.reduce.id()] = Line(ir::Load(ctx_, at));
    }
    for (UOp r : together) {
      if (r.Is(Op::REDUCE)) continue;
      path_.back().made[r.id()] = Line(ir::After(ctx_, New(r.src(0)), stores));
    }
    return absl::OkStatus();
  }

  // The STOREs that fill an array.
  static std::vector<UOp> Stores(UOp array) {
    std::vector<UOp> out;
    Flatten(array.src(1).Is(Op::END) ? array.src(1).src(0) : array.src(1), out);
    return out;
  }

  // Takes a kReduceChain apart: the unrolled terms of one step of a reduction, left to right.
  void Terms(UOp x, Op op, std::vector<UOp>& out) {
    std::vector<UOp> stack = {x};
    while (!stack.empty()) {
      const UOp u = stack.back();
      stack.pop_back();
      if (u.tag() == kReduceChain && u.Is(op)) {
        stack.push_back(u.src(1));
        stack.push_back(u.src(0));
      } else if (u.tag() == kReduceChain && u.Is(Op::WMMA) && op == Op::ADD) {
        stack.push_back(ctx_.Make(Op::WMMA, u.dtype(), {u.src(0), u.src(1)}, u.arg()));
        stack.push_back(u.src(2));
      } else {
        out.push_back(u);
      }
    }
  }
  // Whether the term is a product that is added to the accumulator with one MULACC.
  bool Fuses(UOp reduce, UOp term) const {
    return target_.has_fma && reduce.reduce_op() == Op::ADD && term.Is(Op::MUL) &&
           ir::IsFloat(term.dtype());
  }
  static Op ChainOp(UOp reduce) {
    if (reduce.dtype() != Dtype::Bool) return reduce.reduce_op();
    return reduce.reduce_op() == Op::ADD ? Op::OR : Op::AND;
  }
  // The values and addresses that the arrays of `together` store.
  static std::vector<UOp> StoredValues(std::span<const UOp> together) {
    std::vector<UOp> out;
    for (UOp r : together) {
      if (r.Is(Op::REDUCE)) continue;
      for (UOp s : Stores(r)) out.insert(out.end(), s.srcs().begin(), s.srcs().end());
    }
    return out;
  }
  // Emits one term of a step of a reduction; returns the new value of the accumulator.
  absl::StatusOr<UOp> AddTerm(UOp reduce, UOp acc, UOp term) {
    if (term.Is(Op::WMMA) && term.n_src() == 2 && reduce.reduce_op() == Op::ADD) {
      UOPD_TRY(Emit(term.srcs()));
      return Line(
          ctx_.Make(Op::WMMA, acc.dtype(), {New(term.src(0)), New(term.src(1)), acc}, term.arg()));
    }
    if (Fuses(reduce, term)) {
      UOPD_TRY(Emit(term.srcs()));
      return Line(ctx_.Make(Op::MULACC, acc.dtype(), {New(term.src(0)), New(term.src(1)), acc}));
    }
    UOPD_TRY(Emit(std::span<const UOp>(&term, 1)));
    return LineAll(Combine(ctx_, reduce.reduce_op(), acc, New(term)), acc, New(term));
  }

  UOp Line(UOp u) {
    path_.back().lines.push_back(u);
    return u;
  }
  // Appends u and the nodes that were created between u and its operands a and b.
  UOp LineAll(UOp u, UOp a, UOp b) {
    for (UOp n :
         ir::Toposort(ctx_, std::span<const UOp>(&u, 1), [&](UOp x) { return x != a && x != b; })) {
      if (n != a && n != b && !n.Is(Op::CONST)) Line(n);
    }
    return u;
  }

  ir::UOpContext& ctx_;
  const Target& target_;
  const std::span<const std::string> variables_;
  LaunchSize& grid_x_;
  std::vector<Block> path_;      // open blocks, outermost first
  std::vector<UOp> with_loops_;  // reductions and arrays of the current nest
  absl::flat_hash_map<uint32_t, LoopSet> bit_, loops_;
  absl::flat_hash_map<uint32_t, int> level_;
  int64_t next_loop_ = 0, next_register_ = 0;
};

}  // namespace

absl::StatusOr<UOp> Linearise(ir::UOpContext& ctx, UOp sink, const Target& target,
                              std::span<const std::string> variables, LaunchSize& grid_x) {
  return Lineariser(ctx, target, variables, grid_x).Run(sink);
}

}  // namespace uopd::codegen
