// SPDX-License-Identifier: MIT
#include "core/search/moves.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/codegen/opts/make/merge_axes.h"
#include "core/codegen/opts/plan_kernel.h"
#include "core/codegen/passes/prepare_stages.h"
#include "core/ir/graph.h"

namespace uopd::search {
namespace {

using codegen::MoveSource;
using codegen::Opt;
using codegen::OptKind;
using codegen::OptRow;
using codegen::TriedAmount;

// Pairs of axes of one kind between which no load of a reduction tells: rows and columns of the
// pixels of a convolution, channels and windows of its sum.
std::vector<std::pair<int, int>> MergesOf(ir::UOpContext& ctx, ir::UOp sink) {
  const std::vector<ir::UOp> axes = codegen::Axes(ctx, sink);
  const std::vector<ir::UOp> loads = codegen::Loads(ctx, sink);
  std::vector<std::pair<int, int>> out;
  for (size_t a = 0; a < std::min<size_t>(axes.size(), kMaxAxes); ++a) {
    for (size_t b = a + 1; b < std::min<size_t>(axes.size(), kMaxAxes); ++b) {
      const bool alike = std::ranges::all_of(loads, [&](ir::UOp load) {
        return ir::Reaches(ctx, load, axes[a]) == ir::Reaches(ctx, load, axes[b]);
      });
      if (alike && !loads.empty() && codegen::MaybeNoMerge(ctx, sink, axes[a], axes[b]).empty())
        out.emplace_back(a, b);
    }
  }
  return out;
}

// The axes after the MERGEs among the opts.
std::vector<AxisInfo> Merged(std::vector<AxisInfo> axes, const Opts& opts) {
  for (const Opt& o : opts) {
    const auto count = static_cast<int64_t>(axes.size());
    if (o.kind != OptKind::kMerge || o.axis < 0 || o.axis >= count || o.amount < 0 ||
        o.amount >= count)
      continue;
    AxisInfo &outer = axes[static_cast<size_t>(o.axis)],
             &inner = axes[static_cast<size_t>(o.amount)];
    outer.size *= inner.size;
    inner.size = 1;
  }
  return axes;
}

// The lists that are one step away from a list.
class Moves {
 public:
  explicit Moves(const MoveSource& from) : from_(from) {}

  std::vector<Opts> All() {
    for (const OptRow* row : codegen::OptRows()) {
      if (!row->IsFor(from_.target)) continue;
      if (row->amounts != nullptr) AddAmounts(*row);
      if (row->moves != nullptr) AddOthers(*row);
    }
    for (size_t i = 0; i < from_.opts.size(); ++i) AddSlides(i);
    for (size_t i = 0; i < from_.opts.size(); ++i) {
      Opts next = from_.opts;
      next.erase(next.begin() + static_cast<std::ptrdiff_t>(i));
      Add(std::move(next));
    }
    return std::move(out_);
  }

 private:
  void Add(Opts next) { out_.push_back(Canonical(std::move(next))); }

  // The opt of an axis with another amount, or one more.
  void AddAmounts(const OptRow& row) {
    const bool taken = row.once && from_.Has(row.kind);
    for (size_t i = 0; i < from_.axes.size(); ++i) {
      const int axis = static_cast<int>(i);
      const auto here = std::ranges::find_if(
          from_.opts, [&](const Opt& o) { return o.kind == row.kind && o.axis == axis; });
      if (here == from_.opts.end() && taken) continue;
      for (const TriedAmount& tried : row.amounts(from_.kernel, from_.axes[i], from_.target)) {
        const Opt opt{row.kind, axis, tried.amount, tried.warps};
        Opts next = from_.opts;
        if (here == from_.opts.end()) {
          next.push_back(opt);
        } else if (*here == opt) {
          continue;
        } else {
          next[static_cast<size_t>(here - from_.opts.begin())] = opt;
        }
        Add(std::move(next));
      }
    }
  }

  // One more opt that names something else than an axis.
  void AddOthers(const OptRow& row) {
    for (const Opt& opt : row.moves(from_)) {
      if (opt.axis >= kMaxAxes || std::ranges::find(from_.opts, opt) != from_.opts.end()) continue;
      Opts next = from_.opts;
      next.push_back(opt);
      Add(std::move(next));
    }
  }

  // The i-th opt along another axis. Two single moves would pass a kernel that is far slower.
  void AddSlides(size_t i) {
    const Opt& opt = from_.opts[i];
    const OptRow& row = codegen::RowOf(opt.kind);
    if (!row.slides || !codegen::MachineOf(from_.target).tries_tiles) return;
    for (size_t axis = 0; axis < from_.axes.size(); ++axis) {
      const bool taken = std::ranges::any_of(from_.opts, [&](const Opt& o) {
        return o.kind == opt.kind && o.axis == static_cast<int>(axis);
      });
      const auto amounts = row.amounts(from_.kernel, from_.axes[axis], from_.target);
      if (taken || std::ranges::find(amounts, TriedAmount(opt.amount)) == amounts.end()) continue;
      Opts next = from_.opts;
      next[i].axis = static_cast<int>(axis);
      Add(std::move(next));
    }
  }

  const MoveSource& from_;
  std::vector<Opts> out_;
};

}  // namespace

SearchSpace SpaceOf(const ir::UOpContext& ctx, ir::UOp sink) {
  ir::UOpContext scratch;
  absl::flat_hash_map<uint32_t, ir::UOp> copied;
  sink = codegen::PrepareStages(scratch, ir::CopyTo(ctx, sink, scratch, copied));
  SearchSpace out;
  out.loads = static_cast<int>(codegen::Loads(scratch, sink).size());
  out.reads = static_cast<int>(codegen::Reads(scratch, sink).size());
  out.stores = static_cast<int>(codegen::Stores(scratch, sink).size());
  out.merges = MergesOf(scratch, sink);
  for (ir::UOp r : codegen::Axes(scratch, sink)) {
    const ir::UOp size = r.src(0);
    out.axes.push_back(
        {size.Is(ir::Op::CONST) ? size.const_int() : 0, r.axis_type() == ir::AxisType::REDUCE});
  }
  return out;
}

Opts Canonical(Opts opts) {
  // For two opts of one kind on an axis: amount 0 takes the rest of the axis, so it comes last.
  const auto place = [](const Opt& o) {
    return std::tuple(codegen::RankOf(o.kind), o.axis, o.amount == 0, o.amount, o.warps);
  };
  std::ranges::sort(opts, std::less<>(), place);
  return opts;
}

int64_t UnrolledElements(std::span<const AxisInfo> axes, const Opts& opts) {
  int64_t product = 1;
  for (const Opt& opt : opts) {
    if (codegen::RowOf(opt.kind).length != OptRow::Length::kCopies) continue;
    if (opt.axis < 0 || opt.axis >= static_cast<int>(axes.size())) continue;
    const int64_t amount = opt.amount == 0 ? axes[opt.axis].size : opt.amount;
    if (amount > 1)
      product = std::min<int64_t>(product, int64_t{1} << 40) * std::min<int64_t>(amount, 1 << 20);
  }
  return product;
}

std::vector<Opts> Neighbours(const SearchSpace& kernel, const Target& target, const Opts& opts) {
  const std::vector<AxisInfo> axes = Merged(kernel.axes, opts);
  const std::span<const AxisInfo> tuned =
      std::span(axes).first(std::min<size_t>(axes.size(), kMaxAxes));
  const MoveSource from{kernel, tuned, target, opts};
  return Moves(from).All();
}

}  // namespace uopd::search
