// SPDX-License-Identifier: MIT
#include "client/cpp/graph/normalize.h"

#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "client/cpp/graph/graph_state.h"
#include "client/cpp/graph/view.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::client {
namespace {

using ir::Op;
using ir::UOp;

constexpr size_t kMaxSlots = 65536;

class Normalizer {
 public:
  explicit Normalizer(ir::UOpContext& ctx) : ctx_(ctx) {}

  absl::StatusOr<NormalForm> Run(std::span<const Output> outputs) {
    std::vector<UOp> roots;
    absl::flat_hash_map<uint32_t, UOp> replaced;  // id of a value -> the BUFFER that will hold it
    for (const Output& o : outputs) {
      roots.push_back(o.value);
      roots.push_back(o.target);
      const bool leaf = o.value.n_src() == 0 || IsStored(o.value);
      if (UpdatesPart(o)) {
        for (UOp u = o.value; u.Is(Op::AFTER); u = u.src(0)) {
          in_place_.insert(u.id());
          states_.emplace(u.src(1).id(), u);
        }
      } else if (o.replaces && !leaf)
        replaced.try_emplace(o.value.id(), o.target);
    }
    absl::flat_hash_map<uint32_t, UOp> stores;  // id of a replaced value -> its STORE
    for (UOp u : ir::ToposortValues(ctx_, roots)) {
      UOPD_ASSIGN(UOp v, Rewritten(u));
      if (in_place_.contains(u.id())) places_.emplace(u.id(), v);
      if (auto it = replaced.find(u.id()); it != replaced.end()) {
        UOPD_ASSIGN(const UOp target, Target(it->second));
        const UOp store = ir::Store(ctx_, target, v);
        stores[u.id()] = store;
        v = ir::After(ctx_, target, {store});
      }
      map_[u.id()] = v;
    }
    std::vector<UOp> sinks;
    for (const Output& o : outputs) {
      if (UpdatesPart(o)) {
        sinks.push_back(map_.at(o.value.src(1).id()));
        continue;
      }
      auto it = replaced.find(o.value.id());
      const bool done = it != replaced.end() && it->second == o.target;
      sinks.push_back(done ? stores.at(o.value.id())
                           : ir::Store(ctx_, map_.at(o.target.id()), map_.at(o.value.id())));
    }
    form_.sink = ir::Sink(ctx_, sinks);
    for (UOp v : ir::Variables(ctx_, form_.sink)) {
      auto it = values_.find(std::string(v.text()));
      if (it == values_.end())
        return absl::InvalidArgumentError(Cat("variable ", v.text(), " is not bound"));
      form_.variables.push_back(it->second);
    }
    return std::move(form_);
  }

 private:
  static bool UpdatesPart(const Output& o) {
    return o.replaces && o.value.Is(Op::AFTER) && StoredBelow(o.value) == o.target;
  }

  std::vector<UOp> Steps(UOp after) {
    return StepsOf(ctx_, after, [&](UOp u) { return map_.at(u.id()); });
  }

  // The buffer with a part replaced, as a new value; nothing is stored.
  UOp Replaced(UOp after) {
    return Updated(ctx_, map_.at(after.src(0).id()), Steps(after),
                   map_.at(after.src(1).src(1).id()));
  }

  // The STORE of an AFTER that happens in place. Where it writes is part of the buffer, not of what else has the buffer's value.
  UOp StoredInPlace(UOp after) {
    const UOp whole = after.src(0);
    const auto place = places_.find(whole.id());
    return ir::Store(
        ctx_,
        PartOf(ctx_, place != places_.end() ? place->second : map_.at(whole.id()), Steps(after)),
        map_.at(after.src(1).src(1).id()));
  }

  absl::StatusOr<UOp> Rewritten(UOp u) {
    if (u.Is(Op::BUFFER)) return Slot(u);
    if (u.Is(Op::AFTER)) {
      if (!in_place_.contains(u.id())) return Replaced(u);
      const auto place = places_.find(u.src(0).id());
      return ir::After(ctx_, place != places_.end() ? place->second : map_.at(u.src(0).id()),
                       {map_.at(u.src(1).id())});
    }
    if (u.Is(Op::STORE)) {  // of an AFTER
      const auto after = states_.find(u.id());
      return after == states_.end() ? u : StoredInPlace(after->second);
    }
    srcs_.clear();
    for (UOp s : u.srcs().first(ir::ValueSourceCount(u))) srcs_.push_back(map_.at(s.id()));
    if (u.Is(Op::BIND) && srcs_.size() == 2) {
      srcs_[0] = VariableFor(u.src(0), u.src(1).arg().AsInt());
      srcs_.pop_back();
    }
    return ctx_.Make(u.op(), u.dtype(), srcs_, u.arg());
  }

  // The DEFINE_VAR with this value (of a float variable: the bits of a double). Each further value of one name gets another one.
  UOp VariableFor(UOp variable, int64_t value) {
    std::string name(variable.text());
    for (;;) {
      const auto [it, fresh] = values_.try_emplace(name, value);
      if (fresh || it->second == value) break;
      name += kAnotherValue;
    }
    return ctx_.Make(Op::DEFINE_VAR, variable.dtype(), {}, ctx_.Data(variable.ints(), name));
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
    auto [it, fresh] = slots_.try_emplace(buffer.id());
    if (fresh) {
      if (form_.buffers.size() == kMaxSlots) {
        return absl::ResourceExhaustedError(
            Cat("one graph uses more than ", kMaxSlots, " buffers"));
      }
      it->second = ir::Param(ctx_, static_cast<int64_t>(form_.buffers.size()), buffer.dtype(),
                             buffer.src(0), buffer.text());
      form_.buffers.push_back(static_cast<uint64_t>(buffer.slot()));
    }
    return it->second;
  }

  ir::UOpContext& ctx_;
  NormalForm form_;
  absl::flat_hash_map<uint32_t, UOp> map_;
  absl::flat_hash_set<uint32_t> in_place_;     // AFTERs that stay stores into their buffer
  absl::flat_hash_map<uint32_t, UOp> states_;  // id of the STORE of such a one -> the AFTER
  absl::flat_hash_map<uint32_t, UOp> places_;  // id of such a one -> the buffer in that state
  absl::flat_hash_map<uint32_t, UOp> slots_;
  std::map<std::string, int64_t> values_;
  absl::InlinedVector<UOp, 8> srcs_;
};

}  // namespace

absl::StatusOr<NormalForm> Normalize(ir::UOpContext& ctx, std::span<const Output> outputs) {
  return Normalizer(ctx).Run(outputs);
}

}  // namespace uopd::client
