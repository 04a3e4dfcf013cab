// SPDX-License-Identifier: MIT
#include "core/search/moves.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "core/codegen/opt/merge_axes.h"
#include "core/codegen/opt/opt_plan.h"
#include "core/codegen/opt/prepare_stages.h"
#include "core/ir/graph.h"

namespace uopd::search {
namespace {

using codegen::Opt;
using codegen::OptKind;

constexpr int64_t kMostPadding = 2;  // of an axis, times its size
constexpr int kMaxPrefetched = 3;    // only the first loads are tried with PREFETCH

// Amounts to try, as far as the axis allows them. 0 is the whole axis.
constexpr std::array<int64_t, 8> kUpcast{2, 3, 4, 5, 6, 7, 8, 0};
constexpr std::array<int64_t, 5> kUnroll{2, 4, 8, 16, 0};

// All kinds in canonical order. ONLINE and MERGE come before all others. On targets with blocks, threads come before the copies
// that each of them computes, so that neighbouring threads access neighbouring elements; PADTO comes before both, so
// that the others divide the axis.
constexpr std::array kOrder{
    OptKind::kOnline,   OptKind::kMerge,    OptKind::kThread,     OptKind::kPadTo,
    OptKind::kNoLocals, OptKind::kVector,   OptKind::kTensorCore, OptKind::kLocal,
    OptKind::kGroup,    OptKind::kGroupTop, OptKind::kUpcast,     OptKind::kUnroll,
    OptKind::kBlock,    OptKind::kPack,     OptKind::kStream,     OptKind::kPrefetch,
    OptKind::kSwap,     OptKind::kPipeline, OptKind::kRaster,     OptKind::kPersist};

std::ptrdiff_t Rank(OptKind kind) { return std::ranges::find(kOrder, kind) - kOrder.begin(); }

// The amounts to try for an opt of this kind on this axis.
std::vector<int64_t> Amounts(OptKind kind, const AxisInfo& axis, const Target& target) {
  std::vector<int64_t> out;
  switch (kind) {
    case OptKind::kUpcast:
      if (!axis.is_reduce) out.assign(kUpcast.begin(), kUpcast.end());
      break;
    case OptKind::kUnroll:
      if (axis.is_reduce) out.assign(kUnroll.begin(), kUnroll.end());
      break;
    case OptKind::kVector: {
      // From one register of 8-byte elements to two registers of 4-byte elements.
      const int64_t bytes = target.vector_bytes;
      for (int64_t lanes = bytes / 8; lanes <= bytes / 2; lanes *= 2) {
        if (lanes > 1) out.push_back(lanes);
        if (lanes == 0) break;
      }
      break;
    }
    case OptKind::kThread:
      if (target.blocks || axis.is_reduce || axis.size == 1) break;
      if (axis.size == 0) {
        if (target.threads > 1) out.push_back(0);  // one thread per iteration
        break;
      }
      // Several parts for each thread, and the four largest divisors of the axis that the target has
      // enough threads for.
      for (const int64_t parts : {8, 4, 2}) {
        if (target.threads < 2 || axis.size % (parts * target.threads) != 0) continue;
        out.push_back(parts * target.threads);
        break;
      }
      for (int64_t n = std::min<int64_t>(target.threads, axis.size); n > 1 && out.size() < 5; --n) {
        if (axis.size % n == 0) out.push_back(n);
      }
      break;
    case OptKind::kTensorCore: {
      const auto instructions = static_cast<int64_t>(target.matrix_instructions.size());
      for (int64_t n = 1; axis.is_reduce && axis.size != 1 && n <= instructions; ++n)
        out.push_back(n);
      return out;  // numbers, not parts of the axis
    }
    case OptKind::kBlock:
      // Whole loops around few elements, and steps whose operands stay in the first-level cache.
      if (target.blocks) {
        // The steps of a sum whose operands the threads of a block copy at a time.
        if (axis.is_reduce) out.assign({2, 4, 8, 16, 32});
      } else if (axis.is_reduce) {
        out.assign({64, 128});
      } else {
        out.push_back(8);
        if (axis.size > 0) out.push_back(0);
        return out;  // the tiles of an axis, not its elements
      }
      break;
    case OptKind::kLocal:
      if (target.blocks && !axis.is_reduce) out.assign({2, 4, 8, 16, 32, 64, 128, 256});
      break;
    case OptKind::kGroup:
    case OptKind::kGroupTop:
      if (target.blocks && axis.is_reduce) out.assign({4, 8, 16, 32, 64, 256});
      break;
    case OptKind::kPadTo:
      // Whole warps, tiles of matrix instructions and pieces of a sum.
      for (const int64_t n : {16, 32, 64, 128}) {
        const bool fits = target.blocks && axis.size > 1 && axis.size % n != 0;
        if (fits && (axis.size + n - 1) / n * n < kMostPadding * axis.size) out.push_back(n);
      }
      return out;  // not a part of the axis
    case OptKind::kPipeline:
      if (target.blocks && axis.is_reduce) out.push_back(2);
      if (target.async_copies && axis.is_reduce) out.insert(out.end(), {3, 4});
      // The same with a warp, or a group of warps, that copies for the others.
      if (target.bulk_copies && axis.is_reduce) out.insert(out.end(), {13, 14, 43, 44});
      return out;  // parts of arrays, not of the axis
    case OptKind::kRaster:
      if (target.blocks && !axis.is_reduce && axis.size > 1) out.assign({4, 8, 16});
      return out;           // blocks, not iterations of the axis
    case OptKind::kPack:    // its axis is a load
    case OptKind::kStream:  // its axis is a store
    case OptKind::kPrefetch:
    case OptKind::kSwap:  // of two axes
    case OptKind::kMerge:
    case OptKind::kNoLocals:  // of none
    case OptKind::kPersist:
    case OptKind::kOnline:  // chosen by the heuristic only: it changes what the others count
      break;
  }
  std::erase_if(out, [&](int64_t amount) {
    // A loop of symbolic size cannot be unrolled whole.
    if (axis.size == 0) return amount == 0 && kind != OptKind::kThread;
    if (amount == 0) return axis.size > 16 || axis.size <= 1;
    // UPCAST and UNROLL of a whole axis are written with amount 0.
    const bool whole = kind == OptKind::kVector || kind == OptKind::kThread;
    return whole ? amount > axis.size : amount >= axis.size;
  });
  return out;
}

// Pairs of axes of one kind between which no load of a reduction tells: rows and columns of the pixels of a convolution,
// channels and windows of its sum.
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

// Moves of targets with blocks that name two axes or none.
void AddBlockMoves(std::span<const AxisInfo> axes, std::span<const std::pair<int, int>> merges,
                   int count, const Target& target, const Opts& opts, std::vector<Opts>& out) {
  const auto add = [&](const Opt& opt) {
    Opts next = opts;
    next.push_back(opt);
    out.push_back(Canonical(std::move(next)));
  };
  const auto has = [&](auto... kinds) {
    return std::ranges::any_of(opts, [&](const Opt& o) { return ((o.kind == kinds) || ...); });
  };
  for (const auto& [a, b] : merges) {
    const bool left =
        axes[static_cast<size_t>(a)].size > 1 && axes[static_cast<size_t>(b)].size > 1;
    if (left && !has(OptKind::kOnline)) add({OptKind::kMerge, a, b});
  }
  // The blocks of two axes are numbered in another order.
  for (int a = 0; a < count && !has(OptKind::kSwap); ++a) {
    for (int b = a + 1; b < count; ++b) {
      if (!axes[a].is_reduce && !axes[b].is_reduce) add({OptKind::kSwap, a, b});
    }
  }
  if (!has(OptKind::kNoLocals, OptKind::kLocal, OptKind::kGroup, OptKind::kGroupTop,
           OptKind::kTensorCore))
    add({OptKind::kNoLocals, 0, 0});
  // One or two blocks for each processor.
  for (const int64_t blocks : {1, 2}) {
    if (!has(OptKind::kPersist)) add({OptKind::kPersist, 0, blocks * target.units});
  }
}

}  // namespace

KernelInfo InfoOf(const ir::UOpContext& ctx, ir::UOp sink) {
  ir::UOpContext scratch;
  absl::flat_hash_map<uint32_t, ir::UOp> copied;
  sink = codegen::PrepareStages(scratch, ir::CopyTo(ctx, sink, scratch, copied));
  KernelInfo out;
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
  std::sort(opts.begin(), opts.end(), [](const Opt& a, const Opt& b) {
    // For two opts of one kind on an axis: amount 0 takes the rest of the axis, so it comes last.
    return std::tuple(Rank(a.kind), a.axis, a.amount == 0, a.amount) <
           std::tuple(Rank(b.kind), b.axis, b.amount == 0, b.amount);
  });
  return opts;
}

int64_t UnrolledElements(std::span<const AxisInfo> axes, const Opts& opts) {
  int64_t product = 1;
  for (const Opt& opt : opts) {
    if (opt.kind != OptKind::kUpcast && opt.kind != OptKind::kUnroll) continue;
    if (opt.axis < 0 || opt.axis >= static_cast<int>(axes.size())) continue;
    const int64_t amount = opt.amount == 0 ? axes[opt.axis].size : opt.amount;
    if (amount > 1)
      product = std::min<int64_t>(product, int64_t{1} << 40) * std::min<int64_t>(amount, 1 << 20);
  }
  return product;
}

std::vector<Opts> Neighbours(const KernelInfo& kernel, const Target& target, const Opts& opts) {
  const std::vector<AxisInfo> axes = Merged(kernel.axes, opts);
  std::vector<Opts> out;
  const bool threaded = std::any_of(opts.begin(), opts.end(),
                                    [](const Opt& o) { return o.kind == OptKind::kThread; });
  const bool reduces =
      std::any_of(axes.begin(), axes.end(), [](const AxisInfo& a) { return a.is_reduce; });
  const int count = std::min<int>(static_cast<int>(axes.size()), kMaxAxes);
  for (OptKind kind : {OptKind::kVector, OptKind::kTensorCore, OptKind::kUpcast, OptKind::kUnroll,
                       OptKind::kThread, OptKind::kBlock, OptKind::kLocal, OptKind::kGroup,
                       OptKind::kGroupTop, OptKind::kPadTo, OptKind::kPipeline, OptKind::kRaster}) {
    if (kind == OptKind::kRaster && !reduces) continue;  // blocks read nothing in common
    for (int axis = 0; axis < count; ++axis) {
      const auto here = std::find_if(
          opts.begin(), opts.end(), [&](const Opt& o) { return o.kind == kind && o.axis == axis; });
      for (int64_t amount : Amounts(kind, axes[axis], target)) {
        Opts next = opts;
        if (here != opts.end()) {
          if (here->amount == amount) continue;
          next[static_cast<size_t>(here - opts.begin())].amount = amount;
        } else {
          if (kind == OptKind::kThread && threaded) continue;
          next.push_back({kind, axis, amount});
        }
        out.push_back(Canonical(std::move(next)));
      }
    }
  }
  const auto add = [&](OptKind kind, int number, int64_t amount = 0) {
    for (int i = 0; i < std::min(number, kMaxAxes); ++i) {
      const Opt opt{kind, i, amount};
      if (std::find(opts.begin(), opts.end(), opt) != opts.end()) continue;
      Opts next = opts;
      next.push_back(opt);
      out.push_back(Canonical(std::move(next)));
    }
  };
  add(OptKind::kPack, kernel.loads);
  if (target.blocks) {
    AddBlockMoves(axes, kernel.merges, count, target, opts, out);
  } else {
    add(OptKind::kStream, kernel.stores);
  }
  // The next row, of kernels that go over rows: along one of the inner two output axes.
  for (int axis = count, tried = 0; reduces && !target.blocks && axis-- > 0 && tried < 2;) {
    if (axes[static_cast<size_t>(axis)].is_reduce) continue;
    add(OptKind::kPrefetch, std::min(kernel.reads, kMaxPrefetched), axis);
    ++tried;
  }
  // The same along another axis. Two single moves would pass a kernel that is far slower.
  for (size_t i = 0; i < opts.size(); ++i) {
    const Opt& opt = opts[i];
    const bool moves = opt.kind == OptKind::kVector || opt.kind == OptKind::kUpcast ||
                       opt.kind == OptKind::kUnroll || opt.kind == OptKind::kThread;
    if (target.blocks || !moves) continue;
    for (int axis = 0; axis < count; ++axis) {
      const bool taken = std::ranges::any_of(
          opts, [&](const Opt& o) { return o.kind == opt.kind && o.axis == axis; });
      const std::vector<int64_t> amounts = Amounts(opt.kind, axes[axis], target);
      if (taken || std::ranges::find(amounts, opt.amount) == amounts.end()) continue;
      Opts next = opts;
      next[i].axis = axis;
      out.push_back(Canonical(std::move(next)));
    }
  }
  for (size_t i = 0; i < opts.size(); ++i) {
    Opts next = opts;
    next.erase(next.begin() + static_cast<std::ptrdiff_t>(i));
    out.push_back(Canonical(std::move(next)));
  }
  return out;
}

}  // namespace uopd::search
