// SPDX-License-Identifier: MIT
// Steps, each opt kept only if it applies:
//   1. vectorise the axes with the largest saving under a cost model of accesses and arithmetic;
//   2. sum up products of small elements by matrix instructions;
//   3. upcast output axes along which loads are shared (a register tile);
//   4. unroll reductions until there are enough independent accumulators;
//   5. distribute an axis over threads;
//   6. pack operands that many tiles read badly;
//   7. cut products of few rows with a large matrix into blocks;
//   8. store what no cache can hold around the caches;
//   9. prefetch the next row where a kernel goes over each row several times;
//  10. divide the axis of threads into several parts for each.
#include "core/codegen/opt/heuristic/heuristic.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

#include "core/codegen/estimate.h"
#include "core/codegen/opt/heuristic/block_opts.h"
#include "core/codegen/opt/heuristic/kernel_facts.h"
#include "core/codegen/opt/heuristic/memory_opts.h"
#include "core/codegen/opt/heuristic/register_tile.h"
#include "core/codegen/opt/heuristic/thread_parts.h"
#include "core/codegen/opt/opt_plan.h"
#include "core/codegen/opt/tensor_core.h"
#include "core/codegen/passes/vectorise.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::UOp;

constexpr double kWorkPerThread = 131072;  // least work of a thread, in operations
constexpr size_t kMostAxes = 60;           // bits of an AxisSet, and some
constexpr int64_t kShortLoop = 8;          // a short innermost reduced axis is unrolled whole
constexpr double kLeastReuse = 4;          // tiles that read what is packed
constexpr double kLeastWordReuse = 2;      // tiles that read packed words of a matrix instruction
constexpr double kTileRows = 8;            // rows of a usual tile
constexpr int64_t kRowBytes = 2048;        // steps of at least this size often leave the page
constexpr double kGated = 1.5;             // cost of a gated load, in loads
constexpr double kAboutEqual = 1.1;        // bytes that threads read
constexpr int64_t kLoadedTogether = 4;     // vectors that LLVM loads at the same place
constexpr double kManyRows = 600;          // more than these want entries of the page table at once
constexpr double kMostLines = 8000;        // estimated limit on the length of the kernel
constexpr double kGatherCost = 2;          // cost of one lane of a gather, in loads
constexpr double kScatterLoss = 1.1;  // of sums that are scattered: decides between near equals
constexpr double kFarLess = 0.65;     // of what threads read: worth dividing an axis unequally
constexpr double kScatterCost = 2.5;  // of a scatter: more, since a gather may become a square

class Heuristic : KernelFacts {
 public:
  Heuristic(ir::UOpContext& ctx, UOp sink, const Target& target)
      : KernelFacts(ctx, sink, target), plan_(ctx, sink, target) {}

  std::vector<Opt> Run() {
    ChooseVectors();
    if (reduces_ != 0) {
      ChooseTensorCore();
      ChooseTile();
      ChooseStageUnroll();
      ChooseUnroll();
    } else {
      ChooseElementwiseUpcast();
    }
    ChooseThreads();
    if (!ChooseBlocks()) ChoosePacks();
    ChooseMemoryOpts();
    ChooseParts();
    return plan_.opts();
  }

 private:
  // Estimated instructions inside the loop over `axis` if it is vectorised by `lanes`; 1: scalar.
  double Cost(size_t axis, int64_t lanes) const {
    const int64_t size = sizes_[axis];
    const int64_t vectors = (size + lanes - 1) / lanes;
    const double used = static_cast<double>(size) / static_cast<double>(vectors);
    double cost = 0;
    for (const Access& a : accesses_) {
      if ((a.path & Bit(axis)) == 0) continue;
      cost += Times(a.path) * (lanes == 1 ? 1.0 : LoadsOf(a, axis, lanes) / used);
    }
    for (AxisSet path : alu_) cost += (path & Bit(axis)) != 0 ? Times(path) / used : 0.0;
    for (const Result& r : results_) {
      if (lanes > 1 && (r.over & Bit(axis)) != 0) {
        cost += Times(r.path) * 3 * std::countr_zero(static_cast<uint64_t>(lanes));
      }
    }
    return lanes > 1 && Scatters(axis) ? kScatterLoss * cost : cost;
  }
  // Whether vectors of sums along the axis would be stored lane by lane, far apart: tiles of other
  // iterations write the same lines.
  bool Scatters(size_t axis) const {
    return reduces_ != 0 && !has_stages_ && !IsReduce(axis) &&
           std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
             return x.is_store && x.strides[axis].value_or(kRowBytes) > kSmallStride;
           });
  }

  // The instructions of an access to `lanes` lanes along the axis.
  double LoadsOf(const Access& a, size_t axis, int64_t lanes) const {
    const auto stride = a.strides[axis];
    if (stride == 0 || stride == 1) return 1;
    const bool few = stride && *stride > 1 && *stride <= std::min(kSmallStride, lanes - 1);
    if (few && !a.is_store) return 2 * static_cast<double>(*stride) - 1;
    if (SquareAxis(a, axis, lanes)) return 1 + std::countr_zero(static_cast<uint64_t>(lanes));
    const double gather = (a.is_store ? kScatterCost : kGatherCost) * static_cast<double>(lanes);
    // Packed once, then read as a vector. Worth it only if the results are stored as vectors.
    const bool packs = a.reuse >= kLeastReuse * kTileRows && IsStoredAlong(axis) &&
                       std::all_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
                         return !x.is_store || x.strides[axis] == 1 || IsReduce(axis);
                       });
    return packs ? 1 + gather / a.reuse : gather;
  }

  bool Try(const Opt& opt) { return plan_.Add(opt).ok(); }

  // Tries an opt that makes `copies` copies of every node that depends on its axis. Refuses if the
  // kernel would grow so long that compiling it is slow.
  bool TryCopies(const Opt& opt, int64_t copies) {
    const auto axis = static_cast<size_t>(opt.axis);
    grown_[axis] *= static_cast<double>(copies);
    if (Lines() <= kMostLines && Try(opt)) return true;
    grown_[axis] /= static_cast<double>(copies);
    return false;
  }
  // Estimated lines of the kernel with the copies of all opts so far.
  double Lines() const {
    double all = 0;
    for (const auto& [along, lines] : lines_) {
      double copies = lines;
      for (size_t a = 0; a < axes_.size(); ++a) copies *= (along & Bit(a)) != 0 ? grown_[a] : 1;
      all += copies;
    }
    return all;
  }

  void ChooseVectors() {
    const int64_t most = std::max<int64_t>(1, target_.vector_bytes / widest_);
    struct Candidate {
      double saved;
      size_t axis;
      int64_t lanes;
    };
    std::vector<Candidate> candidates;
    for (size_t a = 0; a < axes_.size(); ++a) {
      const double scalar = Cost(a, 1);
      for (int64_t lanes = most; lanes > 1; lanes /= 2) {
        if (lanes / 2 >= sizes_[a]) continue;  // half as many lanes hold the whole axis
        const double cost = Cost(a, lanes);
        if (cost < 0.9 * scalar) candidates.push_back({scalar - cost, a, lanes});
      }
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& x, const Candidate& y) {
      return std::tuple(-x.saved, x.axis, -x.lanes) < std::tuple(-y.saved, y.axis, -y.lanes);
    });
    // The candidate that saves most may exclude several that save more together. So each candidate
    // is tried first once. Only kernels with stages have loops for several vectors; the others try
    // one order.
    double most_saved = -1;
    std::vector<Opt> best;
    for (size_t first = 0; first < candidates.size() && (first == 0 || has_stages_); ++first) {
      double saved = 0;
      plan_.Clear();
      lanes_.assign(axes_.size(), 1);
      for (size_t i = 0; i <= candidates.size(); ++i) {
        const Candidate& c = candidates[i == 0 ? first : i - 1];
        if (lanes_[c.axis] > 1) continue;
        if (!Try({OptKind::kVector, static_cast<int>(c.axis), c.lanes})) continue;
        lanes_[c.axis] = c.lanes;
        saved += c.saved;
      }
      if (saved > most_saved) {
        most_saved = saved;
        best = plan_.opts();
      }
    }
    plan_.Clear();
    for (const Opt& o : best) UOPD_CHECK(Try(o));
    lanes_.assign(axes_.size(), 1);
    for (const Opt& o : best) lanes_[static_cast<size_t>(o.axis)] = o.amount;
    left_.resize(axes_.size());
    for (size_t a = 0; a < axes_.size(); ++a) left_[a] = (sizes_[a] + lanes_[a] - 1) / lanes_[a];
    copies_.assign(axes_.size(), 1);
    grown_.assign(axes_.size(), 1);
  }

  // A matrix instruction with as many lanes as the vectors have. Of the reduced axes one along which
  // the elements of words in memory lie is best, then one that needs no padding, then one along which
  // elements are contiguous, then the longest.
  void ChooseTensorCore() {
    if (target_.matrix_instructions.empty() || has_stages_) return;
    std::vector<std::tuple<bool, bool, bool, int64_t, size_t>> order;
    for (size_t a = 0; a < axes_.size(); ++a) {
      if ((reduces_ & Bit(a)) == 0 || !fixed_[a] || left_[a] < 2) continue;
      const bool contiguous = std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
        return !x.is_store && x.strides[a] == 1;
      });
      order.emplace_back(!HasWordsAlong(a), sizes_[a] % 4 != 0, !contiguous, -sizes_[a], a);
    }
    std::sort(order.begin(), order.end());
    const std::vector<Opt> before = plan_.opts();
    for (const auto& [no_words, padded, scattered, size, a] : order) {
      if (!Try({OptKind::kTensorCore, static_cast<int>(a), 0})) continue;
      const MatrixInstruction& instruction = *plan_.maybe_instruction();
      if (SuitsLanes(instruction.n, !no_words)) {
        left_[a] = (left_[a] + instruction.k - 1) / instruction.k;
        return;
      }
      plan_.Clear();
      for (const Opt& o : before) UOPD_CHECK(Try(o));
    }
  }
  // Whether some factor of a sum takes its elements out of words in memory along the axis.
  bool HasWordsAlong(size_t axis) const {
    for (UOp u : ir::Toposort(ctx_, sink_)) {
      const auto factors = SmallFactors(u);
      if (!factors) continue;
      for (UOp f : {factors->a, factors->b}) {
        const auto word = WordIn(f);
        if (word && ir::Reaches(ctx_, word->shift, axes_[axis])) return true;
      }
    }
    return false;
  }
  // Whether the vectors have this many lanes. Along an output axis what is loaded must also be used
  // often enough, unless it lies in memory as words; along a reduced axis words cost no more than the
  // conversions that they replace.
  bool SuitsLanes(int64_t lanes, bool has_words) const {
    for (size_t v = 0; v < axes_.size(); ++v) {
      if (lanes_[v] == 1) continue;
      if (lanes_[v] != lanes) return false;
      if (IsReduce(v)) return true;
      for (const Access& x : accesses_) {
        const bool along = !x.is_store && (x.path & reduces_) != 0 && x.strides[v] != 0;
        if (along && (has_words || x.reuse >= kLeastReuse)) return true;
      }
    }
    return false;
  }

  // Whether some load inside of a reduction is shared along the axis: the load does not depend on it.
  bool SharedAlong(size_t axis) const {
    for (const Access& a : accesses_) {
      if (!a.is_store && (a.path & reduces_) != 0 && (a.path & Bit(axis)) != 0 &&
          a.strides[axis] == 0)
        return true;
    }
    return false;
  }

  bool Upcast(size_t axis, int64_t amount) {
    if (amount == 1) return true;
    if (!TryCopies({OptKind::kUpcast, static_cast<int>(axis), amount}, amount)) return false;
    left_[axis] = Rounds(axis, amount);
    accumulators_ *= amount;
    copies_[axis] *= amount;
    return true;
  }

  int64_t Rounds(size_t axis, int64_t amount) const { return (left_[axis] + amount - 1) / amount; }
  // The useful fraction of the work if the axis is tiled by n; 0: such tiles are not allowed. Tiles
  // must divide the axis. Exception: in kernels with stages an axis that is not vectorised may be
  // padded by up to a tenth, for row counts without small divisors.
  double Wanted(size_t axis, int64_t n) const {
    if (left_[axis] % n == 0) return 1;
    const int64_t padded = Rounds(axis, n) * n;
    const bool few = has_stages_ && lanes_[axis] == 1 && 10 * padded <= 11 * left_[axis];
    return few ? static_cast<double>(left_[axis]) / static_cast<double>(padded) : 0;
  }

  // The tile of the model (register_tile.h). False if no load of a reduction is shared.
  bool ChooseModelledTile() {
    // Innermost first, which wins between equals: what neighbouring iterations load lies together.
    std::vector<TileAxis> axes;
    for (size_t a = axes_.size(); a-- > 0;) {
      if (!IsReduce(a) && fixed_[a] && left_[a] > 1 && InsideReduce(a))
        axes.push_back({a, left_[a]});
    }
    TileSums sums;
    sums.count = std::max<int64_t>(1, static_cast<int64_t>(results_.size()));
    for (size_t i = 0; i < axes_.size(); ++i)
      sums.joins |= (reduces_ & Bit(i)) != 0 && lanes_[i] > 1;
    if (unrolls_whole_) sums.terms = static_cast<int64_t>(Times(reduces_));
    if (!unrolls_whole_ && UnrollsInnermost()) sums.ahead = kLoadedTogether;
    std::vector<TileLoad> loads;
    for (const Access& a : accesses_) {
      if (a.is_store || (a.path & reduces_) == 0) continue;
      TileLoad load;
      load.bytes = static_cast<double>(widest_);
      for (size_t i = 0; i < axes_.size(); ++i) {
        load.strides.push_back(std::abs(a.strides[i].value_or(0)) * a.bytes * lanes_[i]);
        if (a.strides[i] == 0) continue;
        load.along |= Bit(i);
        if ((reduces_ & Bit(i)) != 0) load.steps *= static_cast<double>(left_[i]);
        if (lanes_[i] == 1) continue;
        load.bytes *= static_cast<double>(lanes_[i]);
        load.instructions = LoadsOf(a, i, lanes_[i]);
      }
      if (a.is_gated && !HasLanes(a)) load.instructions *= kGated;
      if (unrolls_whole_) AddWindows(a, load);
      if (plan_.maybe_instruction() != nullptr) {
        if (!HasLanes(a)) load.instructions = WordCost(a);
        // Lanes of words along the sum are not packed: each element is loaded and moved to its place.
        if (sums.joins) load.instructions = 2 * plan_.maybe_instruction()->k;
      }
      loads.push_back(load);
    }
    const bool shared = std::any_of(axes.begin(), axes.end(),
                                    [&](const TileAxis& a) { return SharedAlong(a.axis); }) ||
                        std::any_of(loads.begin(), loads.end(),
                                    [](const TileLoad& l) { return !l.windows.empty(); });
    if (!shared) return false;
    for (const auto& [axis, amount] : ChooseRegisterTile(axes, loads, sums, target_).amounts)
      Upcast(axis, amount);
    return true;
  }
  // Whether the innermost reduced axis is short, and no window slides along it: ChooseUnroll will
  // unroll it whole.
  bool UnrollsInnermost() const {
    size_t innermost = axes_.size();
    for (size_t a = 0; a < axes_.size(); ++a) {
      if ((reduces_ & Bit(a)) != 0 && fixed_[a] && left_[a] > 1) innermost = a;
    }
    if (innermost == axes_.size() || left_[innermost] > kShortLoop) return false;
    return std::none_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
      const int64_t step = x.strides[innermost].value_or(0);
      if (x.is_store || step == 0) return false;
      for (size_t u = 0; u < axes_.size(); ++u) {
        const int64_t other = x.strides[u].value_or(0);
        if (!IsReduce(u) && lanes_[u] == 1 && other != 0 && step % other == 0) return true;
      }
      return false;
    });
  }
  // Which output axes a window slides along, if the reduction over it is unrolled whole.
  void AddWindows(const Access& a, TileLoad& load) const {
    for (size_t i = 0; i < axes_.size(); ++i) {
      const int64_t step = a.strides[i].value_or(0) * lanes_[i];
      if (IsReduce(i) || step == 0) continue;
      for (size_t r = 0; r < axes_.size(); ++r) {
        const int64_t within = a.strides[r].value_or(0);
        if ((reduces_ & Bit(r)) == 0 || within == 0 || step % within != 0) continue;
        const int64_t slide = std::abs(step / within);
        if (slide < sizes_[r]) load.windows.push_back({i, slide, sizes_[r]});
      }
    }
  }
  bool HasLanes(const Access& a) const {
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (lanes_[i] > 1 && a.strides[i] != 0) return true;
    }
    return false;
  }
  // The instructions that make the word of a TC in all lanes: a load (of each element, unless they
  // are contiguous), a broadcast, and for bytes one for the sign bits.
  double WordCost(const Access& a) const {
    const MatrixInstruction& instruction = *plan_.maybe_instruction();
    bool contiguous = false;
    for (size_t i = 0; i < axes_.size(); ++i)
      contiguous |= (reduces_ & Bit(i)) != 0 && a.strides[i] == 1;
    return (contiguous ? 1 : instruction.k) + (instruction.k == 4 ? 2 : 1);
  }
  // Whether some load of a reduction is inside the loop over the axis.
  bool InsideReduce(size_t axis) const {
    return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
      return !x.is_store && (x.path & reduces_) != 0 && (x.path & Bit(axis)) != 0;
    });
  }

  // Upcasts at most two axes: the innermost two along which loads are shared.
  void ChooseTile() {
    if (!has_stages_ && ChooseModelledTile()) return;
    std::vector<size_t> shared;
    for (size_t a = axes_.size(); a-- > 0 && shared.size() < 2;) {
      if (!IsReduce(a) && fixed_[a] && left_[a] > 1 && SharedAlong(a)) shared.push_back(a);
    }
    const int64_t registers = target_.vector_registers;
    if (shared.size() == 1) {
      for (int64_t n : {8, 6, 5, 4, 3, 2}) {
        if (Wanted(shared[0], n) > 0 && 2 * n + 2 <= registers && Upcast(shared[0], n)) return;
      }
      return;
    }
    if (shared.empty()) {
      // No load is shared: upcast a vectorised axis, so that accesses to memory are longer.
      for (size_t a = axes_.size(); a-- > 0;) {
        for (int64_t n : {4, 2}) {
          if (!IsReduce(a) && fixed_[a] && lanes_[a] > 1 && left_[a] % n == 0 && Upcast(a, n))
            return;
        }
      }
      return;
    }
    double best = 0;
    int64_t best_x = 1, best_y = 1;
    for (int64_t x : {1, 2, 3, 4, 5, 6, 7, 8}) {
      for (int64_t y : {1, 2, 3, 4, 5, 6, 7, 8}) {
        const double wanted = Wanted(shared[0], x) * Wanted(shared[1], y);
        if (wanted == 0) continue;
        if (x * y + std::min(x, y) + 2 > registers) continue;
        // Multiply-adds per load, scaled down for tiles of fewer than ten accumulators: those do
        // not hide the latency of the multiply-adds.
        const double value = wanted * static_cast<double>(x * y) / static_cast<double>(x + y) *
                             std::min(1.0, static_cast<double>(x * y) / 10);
        if (value > best) {
          best = value;
          best_x = x;
          best_y = y;
        }
      }
    }
    // The best tile may need too much staged memory: then try smaller ones.
    for (int64_t x = best_x; x > 1; --x) {
      if (best_x % x == 0 && Upcast(shared[0], x)) break;
    }
    for (int64_t y = best_y; y > 1; --y) {
      if (Wanted(shared[1], y) > 0 && Upcast(shared[1], y)) break;
    }
  }

  // Computes the sums of several elements of a stage at once: they share loads and the steps that
  // join their lanes.
  void ChooseStageUnroll() {
    for (const StagedSums& s : staged_sums_) {
      const size_t a = s.innermost;
      int64_t copies = 1;
      for (size_t i = 0; i < axes_.size(); ++i) copies *= (s.along & Bit(i)) != 0 ? copies_[i] : 1;
      // Lanes along the stage: each vector of one operand is used by all copies. Lanes along the sum:
      // joining them takes registers too.
      const int64_t registers = target_.vector_registers;
      const int64_t most = std::max<int64_t>(
          1, lanes_[a] > 1 ? (registers - 1) / (copies + 1) : registers / 2 / copies);
      const int64_t n = StageAmount(a, most);
      if (n > 1 && TryCopies({OptKind::kUnroll, static_cast<int>(a), n}, n)) {
        left_[a] = (left_[a] + n - 1) / n;
        copies_[a] *= n;
      }
      // Also unroll the reduction inside the stage whole, if its loop-invariant vectors fit in
      // registers.
      for (size_t e = 0; e < axes_.size(); ++e) {
        if ((reduces_ & Bit(e)) == 0 || !fixed_[e] || lanes_[e] == 1 || left_[e] == 1) continue;
        if (copies * copies_[a] + copies * left_[e] + 1 > target_.vector_registers) continue;
        if (Inside(e, a) && TryCopies({OptKind::kUnroll, static_cast<int>(e), 0}, left_[e]))
          left_[e] = 1;
      }
    }
  }
  // The amount to unroll a stage's axis by, at most `most`: a divisor of the axis above most / 2,
  // else the largest amount that pads the axis by at most a tenth, else 1. At most 8 for an axis of
  // symbolic size.
  int64_t StageAmount(size_t axis, int64_t most) const {
    if (!fixed_[axis]) return std::min<int64_t>(most, 8);
    most = std::min(most, left_[axis]);
    for (int64_t n = most; 2 * n > most && n > 1; --n) {
      if (left_[axis] % n == 0) return n;
    }
    for (int64_t n = most; n > 1; --n) {
      if ((left_[axis] + n - 1) / n * n * 10 <= 11 * left_[axis]) return n;
    }
    return 1;
  }
  // Whether some access is inside the loops of both axes: then the loop over e is inside that over
  // a.
  bool Inside(size_t e, size_t a) const {
    return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& x) {
      return (x.path & Bit(e)) != 0 && (x.path & Bit(a)) != 0;
    });
  }

  void ChooseUnroll() {
    size_t innermost = axes_.size();
    for (size_t a = 0; a < axes_.size(); ++a) {
      if ((reduces_ & Bit(a)) != 0 && fixed_[a] && left_[a] > 1 && !staged_over_[a]) innermost = a;
    }
    for (size_t a = axes_.size(); a-- > 0;) {
      if ((reduces_ & Bit(a)) == 0 || !fixed_[a] || left_[a] == 1 || staged_over_[a]) continue;
      if (unrolls_whole_) {
        TryCopies({OptKind::kUnroll, static_cast<int>(a), 0}, left_[a]);
        continue;
      }
      // A short innermost loop costs as much as its body, and its gates become constants.
      if (a == innermost && SlidesTooFar(a)) continue;
      if (a == innermost && left_[a] <= kShortLoop && StepsFit(left_[a]) &&
          TryCopies({OptKind::kUnroll, static_cast<int>(a), 0}, left_[a])) {
        left_[a] = 1;
        if (accumulators_ >= 8) return;
        continue;
      }
      const int64_t want = accumulators_ >= 8 ? 2 : 8 / accumulators_;
      for (int64_t n : {8, 4, 2}) {
        if (n > want || left_[a] % n != 0 || left_[a] < n || !StepsFit(n)) continue;
        if (TryCopies({OptKind::kUnroll, static_cast<int>(a), n}, n)) {
          left_[a] /= n;
          break;
        }
      }
    }
  }

  // Whether n steps of the reduction fit in the registers. LLVM loads vectors that are less than 512
  // bytes apart, up to four, right after the first of them, also those of later steps. One register too
  // few would cost dearly: then LLVM keeps most accumulators in memory.
  bool StepsFit(int64_t n) const {
    if (has_stages_) return true;
    int64_t most = 0;
    for (const Access& x : accesses_) {
      if (x.is_store || (x.path & reduces_) == 0) continue;
      int64_t vectors = 0;
      for (size_t a = 0; a < axes_.size(); ++a) {
        if (lanes_[a] == 1 || IsReduce(a) || x.strides[a] != 1) continue;
        vectors = std::max<int64_t>(vectors, 1);
      }
      for (size_t a = 0; a < axes_.size() && vectors > 0; ++a)
        vectors *= x.strides[a] != 0 && !IsReduce(a) ? copies_[a] : 1;
      most = std::max(most, std::min(std::max(vectors, kLoadedTogether), n * vectors));
    }
    return accumulators_ * std::max<int64_t>(1, static_cast<int64_t>(results_.size())) + most + 1 <=
           target_.vector_registers;
  }

  // Whether unrolling the axis whole makes neighbouring copies load the same elements, as the
  // windows of a convolution do, and these elements do not fit in the registers beside the
  // accumulators: LLVM would keep them from one term to the next.
  bool SlidesTooFar(size_t axis) const {
    for (const Access& x : accesses_) {
      if (x.is_store || (x.path & reduces_) == 0 || x.strides[axis].value_or(0) == 0) continue;
      for (size_t u = 0; u < axes_.size(); ++u) {
        const int64_t step = x.strides[u].value_or(0);
        if (IsReduce(u) || copies_[u] == 1 || step == 0 || *x.strides[axis] % step != 0) continue;
        const int64_t slide = std::abs(*x.strides[axis] / step);
        if (slide >= copies_[u]) continue;
        const int64_t elements = copies_[u] + (left_[axis] - 1) * slide;
        if (accumulators_ + elements > target_.vector_registers) return true;
      }
    }
    return false;
  }

  // Where a vector is gathered from rows whose elements lie next to each other along another axis,
  // as many copies of that axis as there are lanes are a square that is transposed in registers
  // (passes/transpose_loads.h).
  bool ChooseSquare() {
    for (const Access& x : accesses_) {
      for (size_t v = 0; v < axes_.size(); ++v) {
        const auto across = SquareAxis(x, v, lanes_[v]);
        if (across && Upcast(*across, lanes_[v])) return true;
      }
    }
    return false;
  }
  std::optional<size_t> SquareAxis(const Access& x, size_t axis, int64_t lanes) const {
    const auto stride = x.strides[axis];
    if (x.is_store || x.is_gated || reduces_ != 0 || has_stages_ || lanes < 4) return std::nullopt;
    if (!stride || std::abs(*stride) <= kSmallStride) return std::nullopt;
    for (size_t a = 0; a < axes_.size(); ++a) {
      if (x.strides[a] == 1 && fixed_[a] && sizes_[a] >= lanes) return a;
    }
    return std::nullopt;
  }

  void ChooseElementwiseUpcast() {
    if (ChooseSquare()) return;
    for (size_t a = axes_.size(); a-- > 0;) {
      if (lanes_[a] == 1 || !fixed_[a]) continue;
      for (int64_t n : {4, 2}) {
        if (alu_.size() > 24 || left_[a] % n != 0 || left_[a] < 2 * n) continue;
        if (Upcast(a, n)) return;
      }
    }
  }

  void ChooseThreads() {
    const Estimate e = EstimateKernel(ctx_, sink_);
    const double work = e.flops + e.bytes / 4;
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
  // Elements that one of t threads reads, each counted once, if the threads split the axis. Each
  // thread packs the words of a TC for itself: what is packed counts twice. Short rows are not
  // divided: processors fetch neighbouring lines too.
  double ReadByThread(size_t axis, int64_t t) const {
    double all = 0;
    for (const Access& a : accesses_) {
      if (a.is_store) continue;
      double mine = 1;
      for (size_t i = 0; i < axes_.size(); ++i) {
        if (a.strides[i] == 0) continue;
        const bool divided = i == axis && (a.strides[i] != 1 || sizes_[i] * a.bytes >= kRowBytes);
        mine *= static_cast<double>(sizes_[i]) / (divided ? t : 1);
      }
      all += plan_.maybe_instruction() != nullptr && HasLanes(a) ? 2 * mine : mine;
    }
    return all;
  }

  // Packs operands that are read many times and badly: along the vector one element at a time, or
  // with a step of a reduction on another page of memory each time.
  void ChoosePacks() {
    if (!CanPack() || reduces_ == 0) return;
    const std::vector<UOp> loads = codegen::Loads(ctx_, sink_);
    for (size_t n = 0; n < loads.size(); ++n) {
      double reused = 1, rows = 1;
      bool gathers = false, vector = false;
      const auto access = std::find_if(accesses_.begin(), accesses_.end(),
                                       [&](const Access& x) { return x.node == loads[n]; });
      for (size_t a = 0; a < axes_.size(); ++a) {
        const auto stride = access->strides[a];
        if (IsStoredAlong(a)) {
          if (stride == 0 && !IsReduce(a) && IsRepeated(*access, a))
            reused *= static_cast<double>(left_[a]);
          vector |= stride != 0 && lanes_[a] > 1;
          gathers |=
              lanes_[a] > 1 && stride != 0 && (!stride || *stride < 1 || *stride > kSmallStride);
        } else if (plan_.maybe_instruction() != nullptr && !stride &&
                   ir::Bits(loads[n].dtype()) == 32) {
          continue;  // neighbours share words: the steps between words are short
        } else if (!stride || std::abs(*stride) * widest_ >= kRowBytes) {
          rows *= static_cast<double>(sizes_[a]);
        }
      }
      // Words that lie in memory as such need no copy.
      const bool in_words = plan_.maybe_instruction() != nullptr && reused >= kLeastWordReuse &&
                            ir::Bits(loads[n].dtype()) < 32;
      if (!vector || (reused < kLeastReuse && !in_words)) continue;
      if (in_words || gathers || rows > kManyRows)
        (void)Try({OptKind::kPack, static_cast<int>(n), 0});
    }
  }

  // Stores around the caches, and prefetches (memory_opts.h).
  void ChooseMemoryOpts() {
    if (target_.warp_lanes > 1) return;
    for (const Opt& opt : MemoryOpts(ctx_, sink_, target_, MemoryAxes())) (void)Try(opt);
  }
  std::vector<MemoryAxis> MemoryAxes() const {
    std::vector<MemoryAxis> out;
    for (size_t a = 0; a < axes_.size(); ++a) {
      const int64_t tile =
          IsReduce(a) ? (sizes_[a] + left_[a] - 1) / left_[a] : lanes_[a] * copies_[a];
      out.push_back({axes_[a], sizes_[a], lanes_[a], tile, left_[a], fixed_[a], IsReduce(a)});
    }
    return out;
  }

  // Blocks (block_opts.h). All of their opts apply, or none is added.
  bool ChooseBlocks() {
    if (!CanPack() || plan_.maybe_instruction() != nullptr) return false;
    const std::vector<MemoryAxis> axes = MemoryAxes();
    std::vector<Opt> opts = BlockOpts(ctx_, sink_, target_, axes);
    if (opts.empty()) opts = LongSumOpts(ctx_, sink_, target_, axes);
    const std::vector<Opt> before = plan_.opts();
    for (const Opt& opt : opts) {
      if (Try(opt)) continue;
      plan_.Clear();
      for (const Opt& o : before) UOPD_CHECK(Try(o));
      return false;
    }
    return !opts.empty();
  }

  // Several parts for each thread (thread_parts.h).
  void ChooseParts() {
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

  // By axis: lanes of its vector; iterations left after the opts so far; copies by UPCAST and UNROLL.
  std::vector<int64_t> lanes_, left_, copies_;
  std::vector<double> grown_;  // by axis: copies that all opts together make
  int64_t accumulators_ = 1;
  OptPlan plan_;
};

}  // namespace

std::vector<Opt> HeuristicOpts(ir::UOpContext& ctx, UOp sink, const Target& target) {
  const size_t axes = Axes(ctx, sink).size();
  if (axes == 0 || axes > kMostAxes) return {};
  return Heuristic(ctx, sink, target).Run();
}

}  // namespace uopd::codegen
