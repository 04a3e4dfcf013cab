// SPDX-License-Identifier: MIT
#include "core/codegen/opt/opt_plan.h"

#include <algorithm>
#include <bit>

#include "absl/container/flat_hash_set.h"
#include "core/base/text.h"
#include "core/codegen/launch_size.h"
#include "core/codegen/opt/merge_axes.h"
#include "core/codegen/opt/online/online.h"
#include "core/codegen/opt/online/warp_rows.h"
#include "core/codegen/opt/split_scan.h"
#include "core/codegen/passes/stages.h"
#include "core/codegen/passes/vectorise.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/shared_array.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

namespace {
constexpr int64_t kMaxUpcast = 64, kMaxUnroll = 64;
constexpr int64_t kMostParts = 8;                      // of the axis of THREAD, for each thread
constexpr int64_t kMostPrefetched = int64_t{1} << 40;  // elements of a stride
constexpr int64_t kAheadBytes = 8192;  // of rows that are prefetched along a reduced axis
constexpr int64_t kNearStep = 256;     // steps below this read neighbouring lines
constexpr double kMostPacked = 1e9;    // elements: what counts the bytes of a copy cannot overflow
}  // namespace

std::vector<UOp> Axes(const UOpContext& ctx, UOp sink) {
  std::vector<UOp> out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::RANGE)) out.push_back(u);
  }
  std::sort(out.begin(), out.end(), [](UOp a, UOp b) {
    return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
  });
  return out;
}

std::vector<UOp> Loads(const UOpContext& ctx, UOp sink) {
  const auto order = ir::Toposort(ctx, sink);
  absl::flat_hash_set<uint32_t> stored, inside;
  for (UOp u : order) {
    if (u.Is(Op::STORE)) stored.insert(ir::MaybeBaseOf(u.src(0).src(0)).id());
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (!it->Is(Op::REDUCE) && !inside.contains(it->id())) continue;
    for (UOp s : it->body()) inside.insert(s.id());
  }
  std::vector<UOp> out;
  for (UOp u : order) {
    if (u.Is(Op::LOAD) && u.src(0).src(0).Is(Op::PARAM) && inside.contains(u.id()) &&
        !stored.contains(u.src(0).src(0).id()))
      out.push_back(u);
  }
  return out;
}

std::vector<UOp> Stores(const UOpContext& ctx, UOp sink) {
  std::vector<UOp> out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::STORE) && u.src(0).src(0).Is(Op::PARAM)) out.push_back(u);
  }
  return out;
}

std::vector<UOp> Reads(const UOpContext& ctx, UOp sink) {
  const auto order = ir::Toposort(ctx, sink);
  absl::flat_hash_set<uint32_t> stored;
  for (UOp u : order) {
    if (u.Is(Op::STORE)) stored.insert(u.src(0).src(0).id());
  }
  std::vector<UOp> out;
  for (UOp u : order) {
    if (u.Is(Op::LOAD) && u.src(0).src(0).Is(Op::PARAM) && !stored.contains(u.src(0).src(0).id()))
      out.push_back(u);
  }
  return out;
}

namespace {

// Whether a statement loads from a buffer that another statement stores to.
bool FeedsAnother(const UOpContext& ctx, UOp sink) {
  std::vector<absl::flat_hash_set<uint32_t>> loads, stores;
  for (UOp root : sink.srcs()) {
    loads.emplace_back(), stores.emplace_back();
    for (UOp u : ir::Toposort(ctx, root)) {
      if (!u.Is({Op::LOAD, Op::STORE})) continue;
      if (const UOp base = ir::MaybeBaseOf(u.src(0).src(0)))
        (u.Is(Op::LOAD) ? loads : stores).back().insert(base.id());
    }
  }
  for (size_t i = 0; i < stores.size(); ++i) {
    for (size_t j = 0; j < loads.size(); ++j) {
      if (i == j) continue;
      if (std::ranges::any_of(stores[i], [&](uint32_t id) { return loads[j].contains(id); }))
        return true;
    }
  }
  return false;
}

}  // namespace

OptPlan::OptPlan(UOpContext& ctx, UOp sink, const Target& target)
    : ctx_(ctx), given_(sink), target_(target) {
  Read(sink);
}

void OptPlan::Read(UOp sink) {
  sink_ = sink;
  loads_ = Loads(ctx_, sink);
  stores_ = Stores(ctx_, sink);
  reads_ = Reads(ctx_, sink);
  order_ = ir::Toposort(ctx_, sink);
  at_.emplace(ctx_.size());
  axes_.clear();
  number_.clear();
  in_place_ = has_stages_ = false;
  for (UOp r : Axes(ctx_, sink)) {
    Axis a;
    a.range = r;
    a.symbolic = r.src(0);
    a.is_reduce = r.axis_type() == AxisType::REDUCE;
    a.is_vector = r.axis_type() == AxisType::VECTOR;
    a.is_merged_away = (r.axis_type() == AxisType::LOOP || a.is_reduce) && r.tag() == kMergedAway;
    if (r.src(0).Is(Op::CONST)) a.size = r.src(0).const_int();
    a.rank = axes_.size();
    number_[r.id()] = axes_.size();
    axes_.push_back(a);
  }
  absl::flat_hash_set<uint32_t> loaded, stored;
  for (UOp u : order_) {
    for (UOp r : u.scanned()) axes_[number_.at(r.id())].is_scanned = true;
    if (ClosesStates(u)) axes_[number_.at(u.closed()[0].id())].is_blocks = true;
    if (!u.Is({Op::LOAD, Op::STORE})) continue;
    if (const UOp base = ir::MaybeBaseOf(u.src(0).src(0)))
      (u.Is(Op::LOAD) ? loaded : stored).insert(base.id());
  }
  for (uint32_t id : stored) in_place_ |= loaded.contains(id);
  in_order_ = target_.blocks && in_place_ && FeedsAnother(ctx_, sink);
  unsplit_ = axes_;
  words_ = (axes_.size() + 63) / 64;
  FindDependencies();
}

void OptPlan::FindDependencies() {
  along_.assign(order_.size() * words_, 0);
  uint64_t* mine = along_.data();
  auto bit = [&](UOp range, auto set) {
    const size_t n = number_.at(range.id());
    set(mine[n / 64], uint64_t{1} << (n % 64));
  };
  for (size_t i = 0; i < order_.size(); ++i, mine += words_) {
    const UOp u = order_[i];
    at_->Set(u, static_cast<uint32_t>(i));
    has_stages_ |= u.Is(Op::STAGE);
    for (UOp s : u.srcs()) {
      for (size_t w = 0; w < words_; ++w) mine[w] |= along_[(*at_)[s] * words_ + w];
    }
    if (u.Is(Op::RANGE)) bit(u, [](uint64_t& word, uint64_t b) { word |= b; });
    for (UOp r : u.closed()) bit(r, [](uint64_t& word, uint64_t b) { word &= ~b; });
  }
}

absl::Status OptPlan::Add(const Opt& opt) {
  constexpr OptKind kWhole[] = {OptKind::kPack,     OptKind::kStream,   OptKind::kPrefetch,
                                OptKind::kSwap,     OptKind::kNoLocals, OptKind::kOnline,
                                OptKind::kPipeline, OptKind::kPersist,  OptKind::kMerge};
  const bool splits = std::ranges::find(kWhole, opt.kind) == std::end(kWhole);
  const bool in_range = splits && opt.axis >= 0 && opt.axis < static_cast<int>(axes_.size());
  const Axis before = in_range ? axes_[static_cast<size_t>(opt.axis)] : Axis{};
  const bool threaded = threaded_;
  const size_t packed = packed_.size();
  const std::optional<MatrixInstruction> instruction = instruction_;
  const int64_t parts = parts_;
  const bool pipelined = pipelined_;
  const bool persists = persists_;
  const UOp sink = sink_;
  // TC of a warp splits three axes.
  const std::vector<Axis> all = opt.kind == OptKind::kTensorCore ? axes_ : std::vector<Axis>();
  if (persists_) return Bad(opt, "PERSIST is the last opt");
  absl::Status status = opt.kind == OptKind::kPack         ? Pack(opt)
                        : opt.kind == OptKind::kStream     ? Stream(opt)
                        : opt.kind == OptKind::kPrefetch   ? Prefetch(opt)
                        : opt.kind == OptKind::kTensorCore ? TensorCore(opt)
                        : opt.kind == OptKind::kSwap       ? Swap(opt)
                        : opt.kind == OptKind::kNoLocals   ? NoLocals(opt)
                        : opt.kind == OptKind::kOnline     ? OnlineRow(opt)
                        : opt.kind == OptKind::kPipeline   ? PipelineOf(opt)
                        : opt.kind == OptKind::kRaster     ? Raster(opt)
                        : opt.kind == OptKind::kPersist    ? Persist(opt)
                        : opt.kind == OptKind::kMerge      ? Merge(opt)
                                                           : Split(opt);
  if (status.ok() &&
      (opt.kind == OptKind::kVector || (opt.kind == OptKind::kTensorCore && target_.blocks)))
    status = CheckVectors();
  const bool blocks =
      std::any_of(axes_.begin(), axes_.end(), [](const Axis& a) { return a.HasBlock(); });
  // A merged axis has no other arrays and threads than before.
  if (status.ok() && opt.kind != OptKind::kMerge &&
      (has_stages_ || !packed_.empty() || blocks || target_.blocks)) {
    if (const std::string why = StagedTooMuch(Make()); !why.empty())
      status = absl::InvalidArgumentError(Cat("opts do not apply: ", why));
  }
  if (status.ok()) {
    opts_.push_back(opt);
  } else if (opt.kind == OptKind::kOnline) {
    if (sink_ != given_ && opts_.empty()) Read(given_), online_ = false;
  } else if (sink != sink_) {
    Read(sink);
    warp_rows_.reset();
  } else if (!all.empty()) {
    axes_ = all;
    instruction_ = instruction;
    packed_.resize(packed);
  } else if (in_range) {
    axes_[static_cast<size_t>(opt.axis)] = before;
    threaded_ = threaded;
    instruction_ = instruction;
  } else {
    packed_.resize(packed);
    parts_ = parts;
    pipelined_ = pipelined;
    persists_ = persists;
  }
  return status;
}

void OptPlan::Clear() {
  if (sink_ != given_) Read(given_);
  axes_ = unsplit_;
  threaded_ = no_locals_ = persists_ = pipelined_ = online_ = false;
  warp_rows_.reset();
  loads_words_ = true;
  parts_ = 1;
  instruction_.reset();
  packed_.clear();
  streamed_.clear();
  prefetched_.clear();
  opts_.clear();
}

absl::StatusOr<UOp> OptPlan::Apply() {
  UOPD_TRY(CheckVectors());
  const UOp out = Make();
  if ((has_stages_ || target_.blocks) && opts_.empty()) {  // otherwise Add has checked it
    if (std::string why = StagedTooMuch(out); !why.empty())
      return absl::ResourceExhaustedError(why);
  }
  return out;
}

absl::Status OptPlan::Bad(const Opt& opt, std::string_view why) const {
  return absl::InvalidArgumentError(Cat("opt ", Text(opt), " does not apply: ", why));
}

absl::Status OptPlan::OnlineRow(const Opt& opt) {
  if (!opts_.empty()) return Bad(opt, "ONLINE comes before all other opts");
  if (opt.axis < 0 || opt.axis >= static_cast<int>(axes_.size()))
    return Bad(opt, Cat("the kernel has ", axes_.size(), " axes"));
  UOPD_ASSIGN(const UOp made,
              MakeOnline(ctx_, given_, axes_[static_cast<size_t>(opt.axis)].range, opt.amount));
  Read(made);
  online_ = true;
  return absl::OkStatus();
}

absl::Status OptPlan::WarpRows(const Opt& opt) {
  if (!target_.blocks) return Bad(opt, "the kernel has an ONLINE");
  if (opts_.size() != 1) return Bad(opt, "TC comes directly after ONLINE");
  UOPD_ASSIGN(
      const WarpRowsKernel made,
      MakeWarpRows(ctx_, sink_, target_, axes_[static_cast<size_t>(opt.axis)].range, opt.amount));
  Read(made.sink);
  warp_rows_ =
      WarpRowsSize{0, 0, made.number_of_rows, made.tile_rows, made.registers, 1, made.copies};
  for (size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a].range == made.rows) warp_rows_->rows_axis = a;
    if (axes_[a].is_blocks) warp_rows_->blocks_axis = a;
    const bool output = axes_[a].range.axis_type() == AxisType::LOOP && InEveryEnd(axes_[a].range);
    if (output) warp_rows_->tiles *= static_cast<double>(ctx_.BoundsOf(axes_[a].symbolic).max);
  }
  return absl::OkStatus();
}

absl::Status OptPlan::Split(const Opt& opt) {
  auto bad = [&](std::string_view why) { return Bad(opt, why); };
  if (opt.axis < 0 || opt.axis >= static_cast<int>(axes_.size()))
    return bad(Cat("the kernel has ", axes_.size(), " axes"));
  Axis& axis = axes_[opt.axis];
  if (axis.is_blocks) return bad("the axis is the loop over blocks of ONLINE");
  if (axis.is_merged_away) return bad("the axis is a part of another one");
  if (axis.raster > 1) return bad("RASTER comes after what splits its axis");
  if (warp_rows_ && (axis.range.axis_type() != AxisType::LOOP || opt.kind == OptKind::kVector))
    return bad("a matrix instruction computes the axis");
  if (opt.kind == OptKind::kPadTo) return PadTo(axis, opt);
  if (opt.kind == OptKind::kThread && target_.blocks)
    return bad("the target has blocks; use LOCAL");
  if (opt.kind == OptKind::kThread && opt.amount == 0 && axis.size < 0) return ThreadWhole(opt);
  const int64_t amount = opt.amount == 0 ? axis.size : opt.amount;
  if (amount < 1)
    return bad(opt.amount == 0 ? "the axis has a symbolic size" : "the amount is negative");
  const bool divides = axis.size >= 0 && axis.size % amount == 0;
  const bool copies = opt.kind == OptKind::kUpcast || opt.kind == OptKind::kUnroll;
  if (copies && axis.HasBlock()) return bad("UPCAST and UNROLL come before BLOCK of their axis");
  if (axis.size >= 0 && amount > std::max<int64_t>(axis.size, 1) && opt.kind != OptKind::kVector)
    return bad(Cat("the axis has ", axis.size, " iterations left"));
  switch (opt.kind) {
    case OptKind::kUpcast:
      if (axis.is_reduce) return bad("the axis is reduced; use UNROLL");
      if (axis.is_scanned) return bad("running sums run along the axis");
      if (amount > kMaxUpcast) return bad(Cat("the amount is over ", kMaxUpcast));
      if (amount > 2 && amount % 2 == 0 && HoldsQuadBit(axis)) {
        UOPD_TRY(SplitOff(axis, {AxisType::UPCAST, 2, false}, divides));
        return SplitOff(axis, {AxisType::UPCAST, amount / 2, false}, divides);
      }
      return SplitOff(axis, {AxisType::UPCAST, amount, false}, divides);
    case OptKind::kUnroll:
      if (!axis.is_reduce) return bad("the axis is not reduced; use UPCAST");
      if (amount > kMaxUnroll) return bad(Cat("the amount is over ", kMaxUnroll));
      return SplitOff(axis, {AxisType::UNROLL, amount, false}, divides);
    case OptKind::kVector:
      if (amount > target_.vector_lanes || (amount & (amount - 1)) != 0)
        return bad(Cat("the amount is no power of two up to ", target_.vector_lanes));
      for (const Axis::Part& p : axis.parts) {
        if (p.type == AxisType::VECTOR) return bad("the axis is a vector already");
        if (p.type != AxisType::THREAD)
          return bad("VECTOR comes before UPCAST, UNROLL, LOCAL and GROUP of its axis");
      }
      axis.is_vector |= amount > 1;
      return SplitOff(axis, {AxisType::VECTOR, amount, false}, divides);
    case OptKind::kThread:
      if (axis.is_reduce) return bad("the axis is reduced");
      if (threaded_) return bad("the kernel has THREADs already");
      if (axis.is_scanned) {
        if (std::string why = MaybeNoSplitScan(ctx_, sink_); !why.empty()) return bad(why);
        int64_t scans = 0;
        for (UOp u : order_) scans += u.Is(Op::SCAN) ? 1 : 0;
        if (scans * (amount + 1) > target_.shared_bytes / ir::kSharedElement)
          return bad(Cat("the threads share ", target_.shared_bytes, " bytes"));
      } else if (amount > kMostParts * target_.threads) {
        return bad(Cat("the target has ", target_.threads, " threads"));
      }
      if (axis.size < 0)
        return bad("the axis has a symbolic size; THREAD takes only the whole axis (amount 0)");
      if (!InEveryEnd(axis.range)) return bad("a store is outside of the loop over the axis");
      threaded_ = true;
      return SplitOff(axis, {AxisType::THREAD, amount, true}, divides);
    case OptKind::kLocal:
      return Local(axis, opt, amount, divides);
    case OptKind::kGroup:
    case OptKind::kGroupTop:
      return Group(axis, opt, amount, divides);
    case OptKind::kBlock:
      if (target_.blocks && !axis.is_reduce) return bad("the axis is not reduced");
      if (std::string why = MaybeNoBlock(axis); !why.empty()) return bad(why);
      return SplitOff(axis, {axis.range.axis_type(), amount, false, false, true}, divides);
    case OptKind::kPack:
    case OptKind::kStream:
    case OptKind::kPrefetch:
    case OptKind::kTensorCore:
    case OptKind::kSwap:
    case OptKind::kPadTo:
    case OptKind::kNoLocals:
    case OptKind::kOnline:
    case OptKind::kPipeline:
    case OptKind::kRaster:
    case OptKind::kPersist:
    case OptKind::kMerge:
      break;  // functions of their own
  }
  return bad("unknown kind");
}

std::string OptPlan::MaybeNoBlock(const Axis& axis) const {
  if (axis.size < 0) return "the axis has a symbolic size";
  if (axis.HasBlock()) return "the axis has a BLOCK already";
  if (has_stages_) return "the kernel stages values";
  if (in_place_) return "the kernel loads what it stores";
  for (const Axis& a : axes_) {
    if (a.is_scanned) return "the kernel has running sums";
  }
  if (!axis.is_reduce) return "";
  for (UOp u : order_) {
    const auto closed = u.closed();
    if (std::find(closed.begin(), closed.end(), axis.range) == closed.end()) continue;
    if (ir::IsSmallFloat(u.dtype())) return "partial sums of small floats would be rounded";
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].is_reduce && Along(u, i)) return "the sums are inside of another reduction";
    }
    for (UOp n : ir::Toposort(ctx_, u.srcs().first(1))) {
      if (n.Is(Op::REDUCE)) return "the sums need another reduction";
    }
  }
  return "";
}

absl::Status OptPlan::Pack(const Opt& opt) {
  auto bad = [&](std::string_view why) { return Bad(opt, why); };
  if (opt.axis < 0 || opt.axis >= static_cast<int>(loads_.size()))
    return bad(Cat("the kernel has ", loads_.size(), " loads to pack"));
  if (opt.amount != 0) return bad("PACK has no amount");
  if (warp_rows_) return bad("a matrix instruction has copies of what it multiplies");
  const UOp load = loads_[static_cast<size_t>(opt.axis)];
  if (std::find(packed_.begin(), packed_.end(), load) != packed_.end())
    return bad("the load is packed already");
  for (UOp u : ir::Toposort(ctx_, load.src(0))) {
    if (u.Is({Op::REDUCE, Op::SCAN})) return bad("the address needs a reduction or a running sum");
  }
  double elements = 1;  // a double: a product of sizes may exceed 64 bits
  bool reduced = false;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (!axes_[i].is_reduce || !Along(load, i)) continue;
    reduced = true;
    if (axes_[i].size < 0) return bad("a reduced axis has a symbolic size");
    elements *= static_cast<double>(axes_[i].size);
  }
  if (elements > kMostPacked) return bad("the reduced axes are too long");
  if (!reduced) return bad("the load does not depend on a reduced axis");
  packed_.push_back(load);
  return absl::OkStatus();
}

absl::Status OptPlan::Stream(const Opt& opt) {
  auto bad = [&](std::string_view why) { return Bad(opt, why); };
  if (opt.axis < 0 || opt.axis >= static_cast<int>(stores_.size()))
    return bad(Cat("the kernel has ", stores_.size(), " stores"));
  if (opt.amount != 0) return bad("STREAM has no amount");
  if (target_.blocks) return bad("the target has blocks");
  const UOp store = stores_[static_cast<size_t>(opt.axis)];
  if (std::find(streamed_.begin(), streamed_.end(), store) != streamed_.end())
    return bad("the store is streamed already");
  streamed_.push_back(store);
  return absl::OkStatus();
}

absl::Status OptPlan::Prefetch(const Opt& opt) {
  auto bad = [&](std::string_view why) { return Bad(opt, why); };
  if (opt.axis < 0 || opt.axis >= static_cast<int>(reads_.size()))
    return bad(Cat("the kernel has ", reads_.size(), " loads of what it only reads"));
  if (opt.amount < 0 || opt.amount >= static_cast<int64_t>(axes_.size()))
    return bad(Cat("the kernel has ", axes_.size(), " axes"));
  const auto axis = static_cast<size_t>(opt.amount);
  if (target_.blocks) return bad("the target has blocks");
  const UOp load = reads_[static_cast<size_t>(opt.axis)];
  if (PrefetchDistance(load) != 0) return bad("the load prefetches already");
  const auto stride = StrideAlong(ctx_, load.src(0).src(1), axes_[axis].range);
  // Processors foresee what lies near.
  if (axes_[axis].is_reduce &&
      std::abs(stride.value_or(0)) * ir::ByteSize(load.dtype()) < kNearStep)
    return bad("the axis is reduced, and its steps lie together");
  if (!stride || *stride == 0 || std::abs(*stride) > kMostPrefetched)
    return bad("the load has no stride along the axis");
  prefetched_.push_back({load, axis, *stride});
  return absl::OkStatus();
}

int64_t OptPlan::PrefetchDistance(UOp load) const {
  for (const Prefetched& p : prefetched_) {
    if (p.load != load) continue;
    if (axes_[p.axis].is_reduce) return p.stride * RowsAhead(load);
    int64_t tile = 1, threads = 1;
    for (const Axis::Part& part : axes_[p.axis].parts) {
      tile *= part.outer ? 1 : part.amount;
      threads = part.outer ? part.amount : threads;
    }
    // Neighbouring blocks belong to other threads; this one's next block lies beyond them.
    if (axes_[p.axis].is_scanned && threads > 1)
      return p.stride * tile * axes_[p.axis].size * std::min<int64_t>(target_.threads, threads);
    return p.stride * tile;
  }
  return 0;
}

int64_t OptPlan::RowsAhead(UOp load) const {
  int64_t row = ir::ByteSize(load.dtype());
  for (const Axis& a : axes_) {
    if (a.is_reduce || StrideAlong(ctx_, load.src(0).src(1), a.range) != 1) continue;
    for (const Axis::Part& part : a.parts) row *= part.outer ? 1 : part.amount;
  }
  return std::clamp<int64_t>(kAheadBytes / row, 2, 32);
}

absl::Status OptPlan::TensorCore(const Opt& opt) {
  auto bad = [&](std::string_view why) { return Bad(opt, why); };
  if (opt.axis < 0 || opt.axis >= static_cast<int>(axes_.size()))
    return bad(Cat("the kernel has ", axes_.size(), " axes"));
  Axis& axis = axes_[opt.axis];
  if (!axis.is_reduce) return bad("the axis is not reduced");
  if (axis.is_merged_away) return bad("the axis is a part of another one");
  if (instruction_.has_value()) return bad("the kernel has a TC already");
  if (std::ranges::any_of(axes_, [](const Axis& a) { return a.raster > 1; }))
    return bad("RASTER comes after what splits its axis");
  if (online_) return WarpRows(opt);
  if (target_.blocks) return WarpTile(opt);
  if (has_stages_) return bad("the kernel stages values");
  if (axis.HasBlock()) return bad("TC comes before BLOCK of its axis");
  int64_t fits = 0;
  for (const MatrixInstruction& i : RowInstructions(target_)) {
    bool computes = true, any = false;
    for (UOp u : order_) {
      const auto closed = u.closed();
      if (std::find(closed.begin(), closed.end(), axis.range) == closed.end()) continue;
      const auto factors = SmallFactors(u);
      computes = computes && factors && Computes(i, *factors, u.dtype());
      any = true;
      for (UOp n : ir::Toposort(ctx_, u.srcs().first(1))) computes = computes && !n.Is(Op::REDUCE);
    }
    if (!computes || !any || ++fits < opt.amount) continue;
    instruction_ = i;
    group_axis_ = static_cast<size_t>(opt.axis);
    const bool divides = axis.size >= 0 && axis.size % i.k == 0;
    return SplitOff(axis, {AxisType::UNROLL, i.k, false, true}, divides);
  }
  return bad(Cat(fits, " matrix instructions of the target compute its sums"));
}

// THREAD of a whole axis of symbolic size: one thread per iteration, the number known at launch.
absl::Status OptPlan::ThreadWhole(const Opt& opt) {
  auto bad = [&](std::string_view why) { return Bad(opt, why); };
  Axis& axis = axes_[opt.axis];
  if (axis.is_reduce) return bad("the axis is reduced");
  if (axis.is_scanned) return bad("running sums run along the axis");
  if (threaded_) return bad("the kernel has THREADs already");
  if (!InEveryEnd(axis.range)) return bad("a store is outside of the loop over the axis");
  std::vector<std::string> variables;
  for (const UOp v : ir::Variables(ctx_, sink_)) variables.emplace_back(v.text());
  if (const auto size = LaunchSize::Of(axis.symbolic, variables); !size.ok()) {
    return bad(StatusText(size.status()));
  }
  axis.is_threads = threaded_ = true;
  return absl::OkStatus();
}

absl::Status OptPlan::SplitOff(Axis& axis, Axis::Part part, bool divides) {
  // A block of one iteration: the whole loop of a reduced axis is one over blocks.
  if (part.amount == 1 && !(part.block && axis.is_reduce)) return absl::OkStatus();
  if (divides) {
    axis.size /= part.amount;
  } else {
    axis.padded = true;
    if (axis.size >= 0) {
      axis.size = (axis.size + part.amount - 1) / part.amount;
    } else {
      axis.symbolic =
          ir::Alu(ctx_, Op::FLOORDIV,
                  {ir::Add(ctx_, axis.symbolic, ctx_.Idx(part.amount - 1)), ctx_.Idx(part.amount)});
    }
  }
  axis.parts.push_back(part);
  return absl::OkStatus();
}

bool OptPlan::InEveryEnd(UOp range) const {
  for (UOp root : sink_.srcs()) {
    if (!root.Is(Op::END) ||
        std::find(root.srcs().begin() + 1, root.srcs().end(), range) == root.srcs().end())
      return false;
  }
  return true;
}

bool OptPlan::IsMmaSum(UOp u) const {
  if (!u.Is(Op::REDUCE)) return false;
  const auto closed = u.closed();
  return std::ranges::find(closed, axes_[group_axis_].range) != closed.end();
}

absl::Status OptPlan::CheckVectors() const {
  std::vector<uint64_t> vectors(words_), mine(words_);
  for (size_t i = 0; i < axes_.size(); ++i)
    vectors[i / 64] |= uint64_t{axes_[i].is_vector} << (i % 64);
  for (UOp u : order_) {
    if (u.Is({Op::END, Op::SINK, Op::GROUP})) continue;
    // Count the axes of the sources too: a REDUCE or STAGE runs over the axes that it closes.
    for (size_t w = 0; w < words_; ++w) mine[w] = along_[(*at_)[u] * words_ + w];
    for (UOp s : u.srcs()) {
      for (size_t w = 0; w < words_; ++w) mine[w] |= along_[(*at_)[s] * words_ + w];
    }
    int n = 0;
    for (size_t w = 0; w < words_; ++w) n += std::popcount(mine[w] & vectors[w]);
    if (n > 0 && instruction_ && instruction_->of_warp() && IsMmaSum(u)) {
      return absl::InvalidArgumentError(
          "opts do not apply: operands in the registers of a warp would depend on a VECTOR axis");
    }
    if (n > 1) {
      return absl::InvalidArgumentError(
          "opts do not apply: a value would depend on two VECTOR axes");
    }
  }
  return absl::OkStatus();
}

std::string OptPlan::StagedTooMuch(UOp made) const {
  if (target_.blocks) return BlockTooLarge(made);
  const int64_t bytes = StagedBytes(ctx_, made).thread_bytes;
  if (bytes <= target_.private_bytes) return "";
  return Cat("the kernel would stage ", bytes, " bytes; a thread of the target has ",
             target_.private_bytes);
}

}  // namespace uopd::codegen
