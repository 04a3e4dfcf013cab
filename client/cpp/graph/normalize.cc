// SPDX-License-Identifier: MIT
#include "client/cpp/graph/normalize.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "client/cpp/graph/graph_state.h"
#include "client/cpp/graph/safe_sizes.h"
#include "client/cpp/graph/view.h"
#include "core/base/text.h"
#include "core/ir/analysis/polynomial.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::client {
namespace {

using ir::Op;
using ir::UOp;

constexpr size_t kMaxSlots = 65536;

class Normalizer {
 public:
  explicit Normalizer(ir::UOpContext& ctx) : ctx_(ctx), safe_(ctx) {}

  absl::StatusOr<NormalForm> Run(std::span<const Output> outputs) {
    std::vector<UOp> roots;
    absl::flat_hash_map<uint32_t, UOp> replaced;  // id of a value -> the BUFFER that will hold it
    for (const Output& o : outputs) {
      roots.push_back(o.value);
      roots.push_back(o.target);
      const bool leaf = o.value.n_src() == 0 || IsStored(o.value);
      if (UpdatesPart(o) && StaysWithin(o.value)) {
        for (UOp u = o.value; u.Is(Op::AFTER); u = u.src(0)) {
          in_place_.insert(u.id());
          states_.emplace(u.src(1).id(), u);
        }
      } else if (o.replaces && !leaf)
        replaced.try_emplace(o.value.id(), o.target);
    }
    absl::flat_hash_map<uint32_t, UOp> stores;  // id of a replaced value -> its STORE
    const std::vector<UOp> order = ir::ToposortValues(ctx_, roots);
    for (UOp u : order) NarrowBySizes(u);
    for (UOp u : order) {
      UOPD_ASSIGN(UOp v, Rewritten(u));
      if (in_place_.contains(u.id())) places_.emplace(u.id(), v);
      if (auto it = replaced.find(u.id()); it != replaced.end()) {
        UOPD_ASSIGN(const UOp target, Target(it->second));
        const UOp store = ir::Store(ctx_, target, v);
        stores[u.id()] = store;
        v = After(target, store);
      }
      map_[u.id()] = v;
    }
    std::vector<UOp> sinks;
    for (const Output& o : outputs) {
      if (UpdatesPart(o) && in_place_.contains(o.value.id())) {
        sinks.push_back(map_.at(o.value.src(1).id()));
        continue;
      }
      auto it = replaced.find(o.value.id());
      const bool done = it != replaced.end() && it->second == o.target;
      sinks.push_back(done ? stores.at(o.value.id())
                           : ir::Store(ctx_, map_.at(o.target.id()), map_.at(o.value.id())));
    }
    form_.sink = ir::Sink(ctx_, sinks);
    for (UOp d : narrowed_) {
      UOPD_ASSIGN(const UOp size, RewrittenShape(d));
      safe_.NoteSize(size);
    }
    form_.conditions = safe_.conditions();
    for (UOp v : ir::Variables(ctx_, form_.sink)) {
      auto it = values_.find(std::string(v.text()));
      if (it == values_.end())
        return absl::InvalidArgumentError(
            Cat("variable ", v.text(), " is unbound: it has no value"));
      form_.variables.push_back(it->second);
    }
    return std::move(form_);
  }

 private:
  static bool UpdatesPart(const Output& o) {
    return o.replaces && o.value.Is(Op::AFTER) && StoredBelow(o.value) == o.target;
  }

  // Whether the parts that the AFTERs store can be within the buffer, whatever values variables
  // have.
  bool StaysWithin(UOp after) {
    for (; after.Is(Op::AFTER); after = after.src(0)) {
      for (UOp u = after.src(1).src(0); u != after.src(0); u = u.src(0)) {
        if (!u.Is(Op::SHRINK) || safe_.Fits(u) || safe_.CanMove(u.src(0), u.src(2))) continue;
        return false;
      }
    }
    return true;
  }

  // The target after the store. A symbolic target is the corner of a PARAM.
  UOp After(UOp target, UOp store) {
    if (!target.Is(Op::SHRINK)) return ir::After(ctx_, target, {store});
    return ir::Shrink(ctx_, ir::After(ctx_, target.src(0), {store}), target.src(1), target.src(2));
  }

  // What the STORE of the AFTER writes, as a part of `whole`.
  UOp PartOf(UOp after, UOp whole, bool in_place) {
    std::vector<UOp> steps;
    for (UOp u = after.src(1).src(0); u != after.src(0); u = u.src(0)) steps.push_back(u);
    for (size_t i = steps.size(); i-- > 0;) {
      srcs_.assign({whole});
      for (UOp s : steps[i].srcs().subspan(1)) srcs_.push_back(map_.at(s.id()));
      whole = Made(steps[i], in_place);
    }
    return whole;
  }

  // The buffer with a part replaced, as a new value; nothing is stored.
  UOp Replaced(UOp after) {
    const UOp whole = map_.at(after.src(0).id());
    std::vector<UOp> steps;
    for (UOp u = PartOf(after, whole, false); u != whole; u = u.src(0)) steps.push_back(u);
    return Updated(ctx_, whole, steps, map_.at(after.src(1).src(1).id()));
  }

  // The buffer in the state that an AFTER is made from. Where it writes is part of the buffer, not
  // of what else has the buffer's value.
  UOp PlaceBefore(UOp after) const {
    const auto place = places_.find(after.src(0).id());
    return place != places_.end() ? place->second : map_.at(after.src(0).id());
  }

  // The STORE of an AFTER that happens in place.
  UOp StoredInPlace(UOp after) {
    return ir::Store(ctx_, PartOf(after, PlaceBefore(after), true),
                     map_.at(after.src(1).src(1).id()));
  }

  absl::StatusOr<UOp> Rewritten(UOp u) {
    if (u.Is(Op::BUFFER)) return Slot(u);
    if (u.Is(Op::AFTER)) {
      if (!in_place_.contains(u.id())) return Replaced(u);
      return After(PlaceBefore(u), map_.at(u.src(1).id()));
    }
    if (u.Is(Op::STORE)) {  // of an AFTER
      const auto after = states_.find(u.id());
      return after == states_.end() ? u : StoredInPlace(after->second);
    }
    srcs_.clear();
    for (UOp s : u.srcs().first(ir::ValueSourceCount(u))) srcs_.push_back(map_.at(s.id()));
    if (u.Is(Op::BIND) && srcs_.size() == 2) {
      srcs_[0] = VariableFor(u);
      srcs_.pop_back();
    }
    const UOp out = Made(u, false);
    // Two sizes may be equal and their rewritten forms not known to be equal. That is an error, and
    // not a node without a shape.
    if (!safe_.conditions().empty()) UOPD_TRY(ctx_.TryShapeOf(out).status());
    return out;
  }

  // The shape that an operation names; null: its shape follows from its sources.
  static UOp ShapeMadeBy(UOp u) {
    switch (u.op()) {
      case Op::IOTA:
        return u.src(0);
      case Op::RESHAPE:
      case Op::EXPAND:
        return u.src(1);
      case Op::SHRINK:
      case Op::PAD:
        return u.src(2);
      default:
        return UOp();
    }
  }

  // A size that only the values of now keep from being negative, such as v - 4, is kept so by a
  // narrower range of v. So all sizes that are computed from it stay what they are.
  void NarrowBySizes(UOp u) {
    const UOp shape = ShapeMadeBy(u);
    const auto is_number = [](UOp d) { return d.Is(Op::CONST); };
    if (!shape || std::ranges::all_of(shape.srcs(), is_number)) return;
    if (!seen_.insert(shape.id()).second) return;
    for (UOp d : shape.srcs()) {
      if (is_number(d) || ir::IsNeverNegative(ctx_, {{d, 1}})) continue;
      const auto terms = ir::TermsOf(ctx_, d);
      if (!terms) continue;
      UOp bound;
      int64_t factor = 0, number = 0;
      bool simple = true;
      for (const ir::SizeTerm& t : *terms) {
        if (t.atoms.empty()) {
          number = t.factor;
        } else if (t.atoms.size() == 1 && !bound && t.atoms[0].Is(Op::BIND) &&
                   t.atoms[0].n_src() == 2) {
          bound = t.atoms[0];
          factor = t.factor;
        } else {
          simple = false;
        }
      }
      if (!simple || !bound) continue;
      const auto at = ranges_.try_emplace(bound.id(), RangeOf(bound)).first;
      auto& [least, most] = at->second;
      // factor * v + number >= 0
      if (factor > 0)
        least = std::max(least, -FloorDivided(number, factor));
      else
        most = std::min(most, FloorDivided(number, -factor));
      narrowed_.push_back(d);
    }
  }
  static int64_t FloorDivided(int64_t a, int64_t by) { return a / by - (a % by < 0 ? 1 : 0); }
  static std::pair<int64_t, int64_t> RangeOf(UOp bind) {
    return {bind.src(0).ints()[0], bind.src(0).ints()[1]};
  }

  // The node u of the sources srcs_.
  UOp Made(UOp u, bool in_place) {
    switch (u.op()) {
      case Op::IOTA:
        srcs_[0] = safe_.Shape(srcs_[0]);
        break;
      case Op::RESHAPE:
      case Op::EXPAND:
        srcs_[1] = safe_.Shape(srcs_[1]);
        break;
      case Op::SHRINK: {
        const UOp shape = safe_.Shape(srcs_[2]);
        return in_place ? safe_.Moved(srcs_[0], srcs_[1], shape)
                        : safe_.Shrink(srcs_[0], srcs_[1], shape);
      }
      case Op::PAD:
        return safe_.Pad(srcs_[0], srcs_[1], safe_.Shape(srcs_[2]));
      default:
        break;
    }
    return ctx_.Make(u.op(), u.dtype(), srcs_, u.arg());
  }

  // A shape, or index arithmetic of one, that may not have been rewritten yet.
  absl::StatusOr<UOp> RewrittenShape(UOp u) {
    if (const auto known = map_.find(u.id()); known != map_.end()) return known->second;
    for (UOp s : u.srcs()) UOPD_TRY(RewrittenShape(s).status());
    UOPD_ASSIGN(const UOp v, Rewritten(u));
    map_[u.id()] = v;
    return v;
  }

  // The DEFINE_VAR with this value (of a float variable: the bits of a double). Each further value
  // of one name gets another one.
  UOp VariableFor(UOp bind) {
    const UOp variable = bind.src(0);
    const int64_t value = bind.src(1).arg().AsInt();
    std::string name(variable.text());
    for (;;) {
      const auto [it, fresh] = values_.try_emplace(name, value);
      if (fresh || it->second == value) break;
      name += kAnotherValue;
    }
    ir::Dims range(variable.ints().begin(), variable.ints().end());
    if (const auto it = ranges_.find(bind.id()); it != ranges_.end())
      range = {it->second.first, it->second.second};
    return ctx_.Make(Op::DEFINE_VAR, variable.dtype(), {}, ctx_.Data(range, name));
  }

  // A stored value (BUFFER or MULTI of BUFFERs) as PARAMs.
  absl::StatusOr<UOp> Target(UOp stored) {
    if (stored.Is(Op::BUFFER)) return Slot(stored);
    std::vector<UOp> pieces;
    for (UOp s : stored.srcs()) {
      UOPD_ASSIGN(pieces.emplace_back(), Slot(s));
    }
    return ctx_.Make(Op::MULTI, stored.dtype(), pieces, stored.arg());
  }

  absl::StatusOr<UOp> Slot(UOp buffer) {
    if (!slots_.contains(buffer.id())) {
      if (form_.buffers.size() == kMaxSlots) {
        return absl::ResourceExhaustedError(
            Cat("one graph uses more than ", kMaxSlots, " buffers"));
      }
      const ir::Shape sizes = *ctx_.ShapeOf(buffer);
      const bool fixed = ir::StaticDims(sizes).has_value();
      const UOp box = fixed ? buffer.src(0) : ir::ShapeArg(ctx_, ir::MaxDims(ctx_, sizes));
      UOp slot = ir::Param(ctx_, static_cast<int64_t>(form_.buffers.size()), buffer.dtype(), box,
                           buffer.text());
      form_.buffers.push_back(static_cast<uint64_t>(buffer.slot()));
      if (!fixed) {  // the corner of memory that has the largest sizes
        UOPD_ASSIGN(const UOp shape, RewrittenShape(buffer.src(0)));
        const UOp begin = ir::ShapeArg(ctx_, ir::Dims(sizes.size(), 0));
        slot = ir::Shrink(ctx_, slot, begin, safe_.Shape(shape));
      }
      slots_[buffer.id()] = slot;
    }
    return slots_.at(buffer.id());
  }

  ir::UOpContext& ctx_;
  SafeSizes safe_;
  NormalForm form_;
  absl::flat_hash_map<uint32_t, UOp> map_;
  absl::flat_hash_set<uint32_t> in_place_;     // AFTERs that stay stores into their buffer
  absl::flat_hash_map<uint32_t, UOp> states_;  // id of the STORE of such a one -> the AFTER
  absl::flat_hash_map<uint32_t, UOp> places_;  // id of such a one -> the buffer in that state
  absl::flat_hash_map<uint32_t, UOp> slots_;
  std::map<std::string, int64_t> values_;
  absl::flat_hash_set<uint32_t> seen_;                                 // shapes
  absl::flat_hash_map<uint32_t, std::pair<int64_t, int64_t>> ranges_;  // of variables, by the BIND
  std::vector<UOp> narrowed_;                                          // sizes that narrowed them
  absl::InlinedVector<UOp, 8> srcs_;
};

}  // namespace

absl::StatusOr<NormalForm> Normalize(ir::UOpContext& ctx, std::span<const Output> outputs) {
  return Normalizer(ctx).Run(outputs);
}

}  // namespace uopd::client
