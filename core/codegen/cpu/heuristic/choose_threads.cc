// SPDX-License-Identifier: MIT
// The steps ChooseThreads and ChooseParts of the heuristic (heuristic.cc): the axis that threads
// share, and how many parts of it each of them takes.
//
// Invariant: a thread has at least Speeds::thread_work operations.
#include <algorithm>
#include <limits>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/heuristic/memory_opts.h"
#include "core/codegen/estimate.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

constexpr double kAboutEqual = 1.1;    // ratio of the bytes that threads read for two choices
constexpr double kScanChunk = 131072;  // bytes that a chunk of running sums reads, of an own cache
constexpr double kFarLess = 0.65;      // of what threads read: worth dividing an axis unequally

// Running sums along the only axis of the kernel: THREAD cuts it into chunks (split_scan.h).
// `work`: the operations of the kernel. Chunks of running sums: each stays in a thread's own cache
// from one pass to the next. A number that divides the axis needs no gates.
bool ChooseScanChunks(CpuChoice& choice, const Estimate& e, double work) {
  const KernelFacts& facts = choice.facts;
  const bool scans = std::ranges::any_of(ir::Toposort(facts.ctx, facts.sink),
                                         [](ir::UOp u) { return u.Is(ir::Op::SCAN); });
  if (!scans || facts.axes.size() != 1 || !facts.fixed[0] || facts.target.threads < 2) return false;
  double read = 0;
  for (const Access& a : facts.accesses) read += a.is_store ? 0 : static_cast<double>(a.bytes);
  read *= static_cast<double>(facts.sizes[0]);
  if (work / facts.target.threads < facts.target.speeds.thread_work() || e.bytes == 0) return false;
  const double chunk = std::min(kScanChunk, read / (8 * facts.target.threads));
  const auto wanted = static_cast<int64_t>(read / chunk);
  for (int64_t d = 0; 2 * d < wanted; ++d) {
    for (const int64_t n : {wanted + d, wanted - d}) {
      if (choice.left[0] % n == 0 && choice.Try({OptKind::kThread, 0, n})) {
        choice.left[0] /= n;
        return true;
      }
    }
  }
  if (!choice.Try({OptKind::kThread, 0, wanted})) return false;
  choice.left[0] = choice.Rounds(0, wanted);
  return true;
}

// Elements that one of t threads reads, each counted once, if the threads split the axis. The
// windows of a convolution overlap, but no thread reads more than the buffer. Each thread packs the
// words of a TC for itself: what is packed counts twice. Short rows are not divided: processors
// fetch neighbouring lines too.
double ReadByThread(const CpuChoice& choice, size_t axis, int64_t t) {
  const KernelFacts& facts = choice.facts;
  double all = 0;
  for (const Access& a : facts.accesses) {
    if (a.is_store) continue;
    double mine = 1;
    for (size_t i = 0; i < facts.axes.size(); ++i) {
      if (a.strides[i] != 0) mine *= static_cast<double>(facts.sizes[i]);
    }
    mine = std::min(mine, a.most);
    if (a.strides[axis] != 0 && (a.strides[axis] != 1 || facts.sizes[axis] * a.bytes >= kRowBytes))
      mine /= static_cast<double>(t);
    all += choice.plan.maybe_instruction() != nullptr && HasLanes(choice, a) ? 2 * mine : mine;
  }
  return all;
}

constexpr double kMostTwice = 1.03;  // tiles of all parts, of those that whole threads compute

// Bytes that every iteration of the axis reads.
double SharedBytes(ir::UOpContext& ctx, ir::UOp sink, std::span<const MemoryAxis> axes,
                   size_t axis) {
  double all = 0;
  for (ir::UOp load : Reads(ctx, sink)) {
    const auto along = [&](size_t i) {
      return StrideAlong(ctx, load.src(0).src(1), axes[i].range) != 0;
    };
    if (along(axis)) continue;
    auto mine = static_cast<double>(ir::ByteSize(load.dtype()));
    for (size_t i = 0; i < axes.size(); ++i) {
      if (along(i)) mine *= static_cast<double>(axes[i].size);
    }
    all += mine;
  }
  return all;
}

// Tiles that n parts of the axis compute. All parts have as many tiles, so the last ones overlap.
double Computed(const MemoryAxis& axis, int64_t n) {
  const int64_t tiles = (axis.size + axis.tile - 1) / axis.tile;
  const int64_t of_a_part = (tiles + n - 1) / n;
  return static_cast<double>(of_a_part * n);
}

// The amounts of THREAD that are worth a trial instead of the one in `opts`, largest first: 8, 4
// and 2 parts for each thread. Threads take parts one after the other, so a thread that is slowed
// down, by other work on its processor, leaves parts to the others. None if the kernel has no
// THREAD for all threads, if every part would pack an operand for itself, or if all parts would
// share more data than half of the second-level cache. `axes`: after `opts`.
std::vector<int64_t> ThreadParts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                 std::span<const MemoryAxis> axes, std::span<const Opt> opts) {
  const auto thread = std::ranges::find(opts, OptKind::kThread, &Opt::kind);
  const bool packs = std::ranges::find(opts, OptKind::kPack, &Opt::kind) != opts.end();
  if (thread == opts.end() || packs) return {};
  if (thread->amount != target.threads || target.caches.size() < 2) return {};
  const auto axis = static_cast<size_t>(thread->axis);
  if (SharedBytes(ctx, sink, axes, axis) > static_cast<double>(target.caches[1].bytes) / 2)
    return {};
  const Estimate e = EstimateKernel(ctx, sink);
  // The next part of a thread needs no wake-up, but it is called for.
  const double least_work = target.speeds.thread_work() / 2;
  const double most = kMostTwice * Computed(axes[axis], thread->amount);
  std::vector<int64_t> out;
  for (const int64_t parts : {8, 4, 2}) {
    const int64_t n = parts * target.threads;
    const bool fits = axes[axis].left % parts == 0 || Computed(axes[axis], n) <= most;
    if (fits && (e.flops + e.bytes / 4) / static_cast<double>(n) >= least_work) out.push_back(n);
  }
  return out;
}

}  // namespace

int64_t MostThreads(const KernelFacts& facts) {
  const Estimate e = EstimateKernel(facts.ctx, facts.sink);
  const double wanted = (e.flops + e.bytes / 4) / facts.target.speeds.thread_work();
  return static_cast<int64_t>(std::clamp(wanted, 1.0, static_cast<double>(facts.target.threads)));
}

void ChooseThreads(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  const Estimate e = EstimateKernel(facts.ctx, facts.sink);
  const double work = e.flops + e.bytes / 4;
  if (ChooseScanChunks(choice, e, work)) {
    choice.scan_chunks = true;
    return;
  }
  // First look for a thread count that divides an axis: nothing is computed twice. Else take a
  // long axis: little is computed twice. Else one of which at most 30 % are computed twice. Of
  // several axes the one along which each thread reads the least wins, of about equal ones the
  // outermost: what a thread reads and writes then lies together.
  const auto useful = [&](size_t a, int64_t t) {
    return static_cast<double>(choice.left[a]) / static_cast<double>(choice.Rounds(a, t) * t);
  };
  for (const double least_useful : {1.0, 8.0 / 9, 0.7}) {
    for (int64_t t = facts.target.threads; t > 1; --t) {
      if (work / static_cast<double>(t) < facts.target.speeds.thread_work()) continue;
      std::vector<std::pair<double, size_t>> axes;
      for (size_t a = 0; a < facts.axes.size(); ++a) {
        if (IsReduce(facts, a) || !facts.fixed[a]) continue;
        // An axis along which a thread reads far less may compute a little twice.
        const bool fits = useful(a, t) >= least_useful;
        if (choice.left[a] < t || (!fits && (facts.reduces == 0 || choice.left[a] < 16 * t)))
          continue;
        const double read = facts.reduces == 0 ? 0 : ReadByThread(choice, a, t);
        axes.emplace_back(fits ? read : read / kFarLess, a);
      }
      double least = std::numeric_limits<double>::max();
      for (const auto& [bytes, a] : axes) least = std::min(least, bytes);
      for (auto& [bytes, a] : axes) bytes = bytes <= kAboutEqual * least ? least : bytes;
      std::sort(axes.begin(), axes.end());
      for (const auto& [bytes, a] : axes) {
        if (choice.Try({OptKind::kThread, static_cast<int>(a), t})) {
          choice.left[a] = choice.Rounds(a, t);
          return;
        }
      }
    }
  }
}

void ChooseParts(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  if (choice.scan_chunks) return;
  const std::vector<Opt> opts = choice.plan.opts();
  for (const int64_t n :
       ThreadParts(facts.ctx, facts.sink, facts.target, MemoryAxes(choice), opts)) {
    choice.plan.Clear();
    const bool all = std::ranges::all_of(opts, [&](const Opt& o) {
      return choice.Try({o.kind, o.axis, o.kind == OptKind::kThread ? n : o.amount});
    });
    if (all) return;
    choice.Restore(opts);
  }
}

}  // namespace uopd::codegen
