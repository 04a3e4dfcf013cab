// SPDX-License-Identifier: MIT
#include "server/engine/operate/tune_state.h"

#include <algorithm>
#include <cmath>

#include "core/base/bytes.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

// Bounds of what is decoded, above all that is encoded.
constexpr uint64_t kMostDecodedKernels = 1 << 16, kMostDecodedPoints = 1 << 16;

// Reads one field after the other; after the first one that is damaged, nothing.
class TuneFields {
 public:
  explicit TuneFields(std::string_view bytes) : in_(bytes) {}
  bool done() const { return ok_ && in_.done(); }
  bool ok() const { return ok_; }
  void Read(std::string& out) { ok_ = ok_ && in_.String(out); }
  void Read(double& out) { ok_ = ok_ && in_.Double(out); }
  void Read(bool& out) { ok_ = ok_ && in_.Bool(out); }
  void Read(int64_t& out) { ok_ = ok_ && in_.Signed(out); }
  void Read(uint64_t& out) { ok_ = ok_ && in_.Varint(out); }
  void Read(Digest& out) {
    std::string bytes;
    Read(bytes);
    ok_ = ok_ && out.FromBytes(bytes);
  }
  // A number that is at most `last`.
  template <class T>
  void Read(T& out, uint64_t last) {
    uint64_t v = 0;
    Read(v);
    ok_ = ok_ && v <= last;
    if (ok_) out = static_cast<T>(v);
  }

 private:
  ByteReader in_;
  bool ok_ = true;
};

void PutTuneOptions(std::string& out, const CompileOptions& options) {
  for (const bool v : {options.noopt, options.fast_math, options.allow_bf16, options.allow_f16,
                       options.allow_tf32, options.ignore_beam_cache})
    PutBool(out, v);
  PutVarint(out, static_cast<uint64_t>(options.beam));
  PutVarint(out, static_cast<uint64_t>(options.cache_level));
}

void GetTuneOptions(TuneFields& in, CompileOptions& out) {
  for (bool* v : {&out.noopt, &out.fast_math, &out.allow_bf16, &out.allow_f16, &out.allow_tf32,
                  &out.ignore_beam_cache})
    in.Read(*v);
  in.Read(out.beam, CompileOptions::kMaxBeam);
  in.Read(out.cache_level, CompileOptions::kMaxCacheLevel);
}

void PutTunedKernel(std::string& out, const TunedKernelState& k) {
  PutString(out, k.graph.view());
  PutString(out, k.name);
  PutString(out, k.device);
  PutVarint(out, k.launches);
  PutDouble(out, k.estimate_s);
  PutVarint(out, static_cast<uint64_t>(k.phase));
  PutString(out, k.detail);
  PutString(out, k.opts);
  PutDouble(out, k.best_s);
  PutDouble(out, k.heuristic_s);
  PutVarint(out, k.measured);
  PutVarint(out, k.failed);
  PutVarint(out, k.pruned);
  PutSigned(out, k.search_us);
  PutVarint(out, k.search);
  PutBool(out, k.limited);
  PutVarint(out, k.points.size());
  for (const TunePoint& point : k.points) {
    PutVarint(out, point.candidate);
    PutDouble(out, point.seconds);
  }
}

void GetTunedKernel(TuneFields& in, TunedKernelState& k) {
  in.Read(k.graph);
  in.Read(k.name);
  in.Read(k.device);
  in.Read(k.launches, UINT32_MAX);
  in.Read(k.estimate_s);
  in.Read(k.phase, static_cast<uint64_t>(KernelPhase::kSkipped));
  in.Read(k.detail);
  in.Read(k.opts);
  in.Read(k.best_s);
  in.Read(k.heuristic_s);
  in.Read(k.measured);
  in.Read(k.failed);
  in.Read(k.pruned);
  in.Read(k.search_us);
  in.Read(k.search, UINT32_MAX);
  in.Read(k.limited);
  uint64_t points = 0;
  in.Read(points, kMostDecodedPoints);
  for (uint64_t i = 0; in.ok() && i < points; ++i) {
    TunePoint& point = k.points.emplace_back();
    in.Read(point.candidate, UINT32_MAX);
    in.Read(point.seconds);
  }
}

}  // namespace

const char* Name(TunePhase phase) {
  switch (phase) {
    case TunePhase::kPlanning:
      return "planning";
    case TunePhase::kRunning:
      return "running";
    case TunePhase::kDone:
      return "done";
    case TunePhase::kFailed:
      return "failed";
    case TunePhase::kCancelled:
      return "cancelled";
    case TunePhase::kInterrupted:
      return "interrupted";
  }
  return "?";
}

const char* Name(KernelPhase phase) {
  switch (phase) {
    case KernelPhase::kPending:
      return "pending";
    case KernelPhase::kWaiting:
      return "waiting";
    case KernelPhase::kSearching:
      return "searching";
    case KernelPhase::kTuned:
      return "tuned";
    case KernelPhase::kFound:
      return "found";
    case KernelPhase::kFailed:
      return "failed";
    case KernelPhase::kSkipped:
      return "skipped";
  }
  return "?";
}

double TunedKernelState::Weight() const {
  const double once = std::isfinite(heuristic_s) ? heuristic_s : estimate_s;
  return once * launches;
}

void TunedKernelState::AddPoint(const TunePoint& point, size_t limit) {
  points.push_back(point);
  if (points.size() <= limit) return;
  // Every second point goes, except those that were the fastest when they came. If there are too
  // many of these, every second one of them goes too. The last point always stays.
  for (const bool keep_best : {true, false}) {
    double best = std::numeric_limits<double>::infinity();
    size_t number = 0;
    std::vector<TunePoint> kept;
    for (const TunePoint& p : points) {
      const bool is_best = p.seconds < best;
      best = std::min(best, p.seconds);
      const bool last = ++number == points.size();
      if (last || (keep_best && is_best) || number % 2 == 1) kept.push_back(p);
    }
    points = std::move(kept);
    if (points.size() <= limit) return;
  }
}

std::string TuneState::Encode() const {
  std::string out;
  PutString(out, id);
  PutString(out, tenant);
  PutString(out, request_id);
  PutString(out, title);
  PutString(out, graph.view());
  PutTuneOptions(out, options);
  PutSigned(out, budget_us);
  PutVarint(out, budget_candidates);
  PutSigned(out, created_us);
  PutVarint(out, static_cast<uint64_t>(phase));
  PutString(out, error);
  PutVarint(out, static_cast<uint64_t>(attempts));
  PutSigned(out, ended_us);
  PutSigned(out, spent_us);
  PutVarint(out, candidates);
  PutVarint(out, kernels.size());
  for (const TunedKernelState& k : kernels) PutTunedKernel(out, k);
  // Behind everything else, where the states of older daemons end.
  for (const TunedKernelState& k : kernels) PutVarint(out, k.duplicates);
  return out;
}

absl::StatusOr<TuneState> TuneState::Decode(std::string_view bytes) {
  TuneFields in(bytes);
  TuneState out;
  in.Read(out.id);
  in.Read(out.tenant);
  in.Read(out.request_id);
  in.Read(out.title);
  in.Read(out.graph);
  GetTuneOptions(in, out.options);
  in.Read(out.budget_us);
  in.Read(out.budget_candidates);
  in.Read(out.created_us);
  in.Read(out.phase, static_cast<uint64_t>(TunePhase::kInterrupted));
  in.Read(out.error);
  in.Read(out.attempts, 1 << 20);
  in.Read(out.ended_us);
  in.Read(out.spent_us);
  in.Read(out.candidates);
  uint64_t kernels = 0;
  in.Read(kernels, kMostDecodedKernels);
  for (uint64_t i = 0; in.ok() && i < kernels; ++i) GetTunedKernel(in, out.kernels.emplace_back());
  if (in.done()) return out;
  for (TunedKernelState& k : out.kernels) in.Read(k.duplicates);
  if (!in.done()) return absl::DataLossError("the state of a tuning operation is damaged");
  return out;
}

}  // namespace uopd::engine
