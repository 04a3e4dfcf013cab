// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/heuristic/block_heuristic.h"

#include <algorithm>
#include <bit>

namespace uopd::codegen {
namespace {

constexpr int64_t kBlockThreads = 256;  // wanted in a block
constexpr int64_t kMostRowThreads = 1024;
constexpr double kKeptRowBytes =
    128 << 10;  // that a processor keeps near, of rows that blocks read more than once
constexpr double kLongLoop = 64;          // see gpu/grid.h
constexpr int64_t kLongSum = 32;          // terms from which a group of threads may share a sum
constexpr double kThreadsPerUnit = 1024;  // that keep a processor busy
constexpr int64_t kNeighbours = 32;       // results of a block that lie next to each other
constexpr int64_t kShortSum = 16;         // terms: unrolled whole
constexpr int64_t kUnroll = 4;

int64_t PowerBelow(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

}  // namespace

std::vector<Opt> BlockHeuristic::Run() {
  if (!ChooseProduct()) {
    ChooseVectors();
    ChooseGroups();
    ChooseLocals();
    ChooseUnroll();
  }
  return plan_.opts();
}

bool BlockHeuristic::Add(OptKind kind, size_t axis, int64_t amount, int64_t warps) {
  if (!plan_.Add({kind, static_cast<int>(axis), amount, warps}).ok()) return false;
  if (kind != OptKind::kPack && kind != OptKind::kTensorCore)
    left_[axis] = (left_[axis] + amount - 1) / amount;
  return true;
}

bool BlockHeuristic::IsGrid(size_t axis) const {
  if (IsReduce(axis)) return false;
  double repeated = 0, own = 0;
  for (const Result& r : results_) {
    const double terms = Times(r.over);
    if ((r.path & Bit(axis)) != 0) {
      own += terms;
    } else if (terms >= kLongLoop) {
      repeated += terms;
    }
  }
  if (repeated == 0) return true;
  return !has_stages_ && repeated <= own;
}

double BlockHeuristic::Results() const {
  double out = 1;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (IsGrid(a)) out *= static_cast<double>(sizes_[a]);
  }
  return out;
}

bool BlockHeuristic::IsContiguous(size_t axis, bool loads) const {
  bool any = false;
  for (const Access& x : accesses_) {
    if (x.is_store == loads || (loads && x.strides[axis] == 0)) continue;
    if (x.strides[axis] != 1) return false;
    any = true;
  }
  return any;
}

int64_t BlockHeuristic::ElementBytes(size_t axis) const {
  int64_t out = std::max<int64_t>(widest_, 2);
  if (!IsReduce(axis)) return out;
  for (const Access& x : accesses_) {
    if (!x.is_store && x.strides[axis] == 1) out = std::min(out, std::max<int64_t>(x.bytes, 2));
  }
  return out;
}

// The widest access of a thread, along axes on which results or terms lie next to each other: one of each nest of loops.
void BlockHeuristic::ChooseVectors() {
  AxisSet chosen = 0;
  for (size_t a = axes_.size(); a-- > 0;) {
    const bool pays = IsReduce(a) ? IsContiguous(a, true) : IsContiguous(a, false);
    if (!pays || !fixed_[a] || (NestOf(a) & chosen) != 0) continue;
    // Not so wide that too few threads are left.
    const double threads = Results() * (IsGrid(a) ? 1 : static_cast<double>(sizes_[a]));
    for (int64_t n = target_.vector_bytes / ElementBytes(a); n > 1; n /= 2) {
      if (sizes_[a] % n != 0 || threads / static_cast<double>(n) < kThreadsPerUnit * target_.units)
        continue;
      if (!Add(OptKind::kVector, a, n)) continue;
      chosen |= Bit(a);
      break;
    }
  }
}

AxisSet BlockHeuristic::NestOf(size_t axis) const {
  AxisSet out = Bit(axis);
  for (const Result& r : results_) {
    if (((r.over | r.path) & Bit(axis)) != 0) out |= r.over | r.path;
  }
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (!IsReduce(a) && !IsReduce(axis)) out |= Bit(a);
  }
  return out;
}

bool BlockHeuristic::ReadsRowsAgain() const {
  int loops = 0;
  for (size_t a = 0; a < axes_.size(); ++a) loops += !IsGrid(a) && IsContiguous(a, true) ? 1 : 0;
  return loops > 1;
}

int64_t BlockHeuristic::BlockThreads() const {
  double read = 0;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (!IsReduce(a) || !IsContiguous(a, true)) continue;
    read = std::max(read, static_cast<double>(sizes_[a]) * static_cast<double>(widest_));
  }
  int64_t threads = kBlockThreads;
  if (ReadsRowsAgain()) {
    while (threads < kMostRowThreads &&
           read * kThreadsPerUnit * 2 / static_cast<double>(threads) > kKeptRowBytes)
      threads *= 2;
  }
  return std::min(threads, target_.max_block_threads);
}

void BlockHeuristic::ChooseGroups() {
  const double wanted = kThreadsPerUnit * target_.units;
  std::vector<int64_t> grouped(axes_.size(), 1);
  for (size_t a = axes_.size(); a-- > 0;) {
    if (!IsReduce(a) || sizes_[a] < kLongSum) continue;
    const bool contiguous = IsContiguous(a, true);
    if (!contiguous && Results() >= wanted) continue;
    // Each thread adds up at least two terms. Where results lie next to each other, a warp reads a row of them.
    const int64_t most = BlockThreads() / (contiguous ? 1 : Neighbours());
    // Reductions one after the other have the same threads, those of one nest share them.
    int64_t others = 1;
    for (size_t g = 0; g < axes_.size(); ++g) {
      if (IsReduce(g) && !staged_over_[g] && (NestOf(a) & Bit(g)) != 0) others *= grouped[g];
    }
    int64_t n = std::min(most / others, PowerBelow(left_[a] / 2));
    // Many results need fewer threads each; a group along memory stays a warp.
    const auto threads = [&](int64_t members) {
      return Results() * static_cast<double>(members * others);
    };
    while (n > 32 && !ReadsRowsAgain() && threads(n / 2) >= wanted / 2) n /= 2;
    for (; n > 1; n /= 2) {
      if (!Add(OptKind::kGroup, a, n)) continue;
      grouped[a] = n;
      if (!staged_over_[a]) group_ = std::max(group_, others * n);
      break;
    }
  }
}

int64_t BlockHeuristic::Neighbours() const {
  int64_t out = 1;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (IsGrid(a) && IsContiguous(a, true)) out = std::max(out, PowerBelow(left_[a]));
  }
  return std::min(out, kNeighbours);
}

void BlockHeuristic::ChooseLocals() {
  std::vector<size_t> order;
  for (size_t a = axes_.size(); a-- > 0;) {
    if (!IsReduce(a)) order.push_back(a);
  }
  // The axis along which memory is contiguous first: neighbouring threads access neighbouring elements.
  const auto place = [&](size_t a) {
    return std::pair(IsContiguous(a, false) ? 0 : IsContiguous(a, true) ? 1 : 2, axes_.size() - a);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(a) < place(b); });
  for (size_t a : order) {
    // An axis that is a loop of each thread may use all threads of the block, also those of a group.
    const int64_t others = IsGrid(a) ? threads_ * group_ : threads_;
    const int64_t most = BlockThreads() / std::max<int64_t>(others, 1);
    int64_t n = std::min(PowerBelow(most), PowerBelow(left_[a]));
    if (n < most && n < left_[a]) n *= 2;  // the last threads have nothing to do
    for (; n > 1; n /= 2) {
      if (n > most || !Add(OptKind::kLocal, a, n)) continue;
      threads_ *= n;
      break;
    }
  }
}

void BlockHeuristic::ChooseUnroll() {
  AxisSet chosen = 0;
  for (size_t a = axes_.size(); a-- > 0;) {
    if (!IsReduce(a) || !fixed_[a] || left_[a] < 2 || (NestOf(a) & chosen) != 0) continue;
    chosen |= Bit(a);
    if (left_[a] <= kShortSum) {
      Add(OptKind::kUnroll, a, left_[a]);
    } else {
      for (int64_t n = kUnroll; n > 1; n /= 2) {
        if (left_[a] % n == 0 && Add(OptKind::kUnroll, a, n)) break;
      }
    }
  }
}

}  // namespace uopd::codegen
