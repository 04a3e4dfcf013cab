// SPDX-License-Identifier: MIT
// The steps ChooseThreads and ChooseParts of the heuristic (heuristic.cc): the axis that threads
// share, and how many parts of it each of them takes.
//
// Invariant: a thread has at least Speeds::thread_work operations.
#include <algorithm>
#include <limits>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/heuristic/thread_parts.h"
#include "core/codegen/estimate.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

constexpr double kAboutEqual = 1.1;    // bytes that threads read
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
