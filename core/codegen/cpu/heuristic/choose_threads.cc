// SPDX-License-Identifier: MIT
// Steps 5 and 10 of the heuristic (heuristic_steps.h): the axis that threads share, and how many
// parts of it each of them takes.
//
// Invariant: a thread has at least kWorkPerThread operations.
#include <algorithm>
#include <limits>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/heuristic/thread_parts.h"
#include "core/codegen/estimate.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

constexpr double kWorkPerThread = 131072;  // least work of a thread, in operations
constexpr double kAboutEqual = 1.1;        // bytes that threads read
constexpr double kScanBlock = 131072;  // bytes that a block of running sums reads, of an own cache
constexpr double kFarLess = 0.65;      // of what threads read: worth dividing an axis unequally

}  // namespace

int64_t Heuristic::MostThreads() const {
  const Estimate e = EstimateKernel(ctx_, sink_);
  const double wanted = (e.flops + e.bytes / 4) / kWorkPerThread;
  return static_cast<int64_t>(std::clamp(wanted, 1.0, static_cast<double>(target_.threads)));
}

// Blocks of running sums: each stays in a thread's own cache from one pass to the next. A number that
// divides the axis needs no gates.
bool Heuristic::ChooseScanBlocks(const Estimate& e, double work) {
  const bool scans =
      std::ranges::any_of(ir::Toposort(ctx_, sink_), [](ir::UOp u) { return u.Is(ir::Op::SCAN); });
  if (!scans || axes_.size() != 1 || !fixed_[0] || target_.threads < 2) return false;
  double read = 0;
  for (const Access& a : accesses_) read += a.is_store ? 0 : static_cast<double>(a.bytes);
  read *= static_cast<double>(sizes_[0]);
  if (work / target_.threads < kWorkPerThread || e.bytes == 0) return false;
  const double block = std::min(kScanBlock, read / (8 * target_.threads));
  const auto wanted = static_cast<int64_t>(read / block);
  for (int64_t d = 0; 2 * d < wanted; ++d) {
    for (const int64_t n : {wanted + d, wanted - d}) {
      if (left_[0] % n == 0 && Try({OptKind::kThread, 0, n})) {
        left_[0] /= n;
        return true;
      }
    }
  }
  if (!Try({OptKind::kThread, 0, wanted})) return false;
  left_[0] = Rounds(0, wanted);
  return true;
}

void Heuristic::ChooseThreads() {
  const Estimate e = EstimateKernel(ctx_, sink_);
  const double work = e.flops + e.bytes / 4;
  if (ChooseScanBlocks(e, work)) {
    scan_blocks_ = true;
    return;
  }
  // First look for a thread count that divides an axis: nothing is computed twice. Else take a
  // long axis: little is computed twice. Else one of which at most 30 % are computed twice. Of
  // several axes the one along which each thread reads the least wins, of about equal ones the
  // outermost: what a thread reads and writes then lies together.
  const auto useful = [&](size_t a, int64_t t) {
    return static_cast<double>(left_[a]) / static_cast<double>(Rounds(a, t) * t);
  };
  for (const double least_useful : {1.0, 8.0 / 9, 0.7}) {
    for (int64_t t = target_.threads; t > 1; --t) {
      if (work / static_cast<double>(t) < kWorkPerThread) continue;
      std::vector<std::pair<double, size_t>> axes;
      for (size_t a = 0; a < axes_.size(); ++a) {
        if (IsReduce(a) || !fixed_[a]) continue;
        // An axis along which a thread reads far less may compute a little twice.
        const bool fits = useful(a, t) >= least_useful;
        if (left_[a] < t || (!fits && (reduces_ == 0 || left_[a] < 16 * t))) continue;
        const double read = reduces_ == 0 ? 0 : ReadByThread(a, t);
        axes.emplace_back(fits ? read : read / kFarLess, a);
      }
      double least = std::numeric_limits<double>::max();
      for (const auto& [bytes, a] : axes) least = std::min(least, bytes);
      for (auto& [bytes, a] : axes) bytes = bytes <= kAboutEqual * least ? least : bytes;
      std::sort(axes.begin(), axes.end());
      for (const auto& [bytes, a] : axes) {
        if (Try({OptKind::kThread, static_cast<int>(a), t})) {
          left_[a] = Rounds(a, t);
          return;
        }
      }
    }
  }
}

double Heuristic::ReadByThread(size_t axis, int64_t t) const {
  double all = 0;
  for (const Access& a : accesses_) {
    if (a.is_store) continue;
    double mine = 1;
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (a.strides[i] != 0) mine *= static_cast<double>(sizes_[i]);
    }
    mine = std::min(mine, a.most);
    if (a.strides[axis] != 0 && (a.strides[axis] != 1 || sizes_[axis] * a.bytes >= kRowBytes))
      mine /= static_cast<double>(t);
    all += plan_.maybe_instruction() != nullptr && HasLanes(a) ? 2 * mine : mine;
  }
  return all;
}

void Heuristic::ChooseParts() {
  if (scan_blocks_) return;
  const std::vector<Opt> opts = plan_.opts();
  for (const int64_t n : ThreadParts(ctx_, sink_, target_, MemoryAxes(), opts)) {
    plan_.Clear();
    const bool all = std::ranges::all_of(opts, [&](const Opt& o) {
      return Try({o.kind, o.axis, o.kind == OptKind::kThread ? n : o.amount});
    });
    if (all) return;
    plan_.Clear();
    for (const Opt& o : opts) UOPD_CHECK(Try(o));
  }
}

}  // namespace uopd::codegen
