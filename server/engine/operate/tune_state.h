// SPDX-License-Identifier: MIT
// All that is known about one tuning operation, as plain data: what was asked for, how far it is,
// and what it found.
//
//   planning ──► running ──► done
//       │           ├─ Cancel ─────────────────────────► cancelled ──┐
//       │           └─ the daemon died too often with it ► interrupted ┼─ Resume ──► planning
//       └─ the graph cannot be planned any more ────────► failed ────┘
//
// A daemon that starts goes on with what was planning or running. The encoded form is a row of
// store "tune", which stays with its data folder (tune_rows.h).
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/digest.h"
#include "core/base/status.h"
#include "server/engine/base/compile_options.h"

namespace uopd::engine {

// Version of the encoding; part of the key.
inline constexpr int kTuneStateVersion = 1;

enum class TunePhase : uint8_t { kPlanning, kRunning, kDone, kFailed, kCancelled, kInterrupted };
const char* Name(TunePhase phase);  // "running"
// Nothing happens any more unless somebody resumes it.
inline bool IsOver(TunePhase phase) { return phase > TunePhase::kRunning; }

enum class KernelPhase : uint8_t {
  kPending,
  kWaiting,  // for something else than its turn among the kernels of the operation
  kSearching,
  kTuned,  // by this operation
  kFound,  // it was tuned before, or by somebody else
  kFailed,
  kSkipped,  // the budget was used up
};
const char* Name(KernelPhase phase);
inline bool IsOver(KernelPhase phase) { return phase > KernelPhase::kSearching; }

// A candidate that was measured.
struct TunePoint {
  uint32_t candidate = 0;  // its number in the search, from 1
  double seconds = 0;      // of one run
  bool operator==(const TunePoint&) const = default;
};

struct TunedKernelState {
  static constexpr size_t kMaxText = 512;

  Digest graph;
  std::string name, device;
  uint32_t launches = 0;  // in one run of the program
  double estimate_s = 0;  // of one launch, before anything was measured; 0: unknown
  KernelPhase phase = KernelPhase::kPending;
  std::string detail;  // kWaiting: for what; kFailed, kSkipped: why
  std::string opts;    // of the best candidate
  std::string trying;  // the candidate that was tried last
  double best_s = std::numeric_limits<double>::infinity();
  double heuristic_s = std::numeric_limits<double>::infinity();
  uint64_t measured = 0, failed = 0;
  uint64_t pruned = 0;  // candidates that were made, and of which the search expected too little
  uint64_t duplicates = 0;  // candidates whose program another one had
  int64_t search_us = 0;    // time of its searches
  uint32_t search = 0;      // number of the search that the counts and points are of
  bool limited = false;     // the last search ended early, because of the budget
  std::vector<TunePoint> points;

  // The time of all launches in one run of the program, as far as it is known.
  double Weight() const;
  // Adds a point. Above `limit` points others go; the fastest so far stay as long as they fit.
  void AddPoint(const TunePoint& point, size_t limit);
};

struct TuneState {
  // What was asked for.
  std::string id, tenant, request_id;
  std::string title;  // for people: the name of the model, or of the file
  Digest graph;
  CompileOptions options;
  int64_t budget_us = 0;           // time of searches; 0: no limit
  uint64_t budget_candidates = 0;  // the same for candidates
  int64_t created_us = 0;          // since the epoch
  // How far it is.
  TunePhase phase = TunePhase::kPlanning;
  std::string error;     // kFailed, kInterrupted: why
  int attempts = 0;      // daemons that began with it and did not end well
  int64_t ended_us = 0;  // 0: not yet
  int64_t spent_us = 0;  // of the budget
  uint64_t candidates = 0;
  std::vector<TunedKernelState> kernels;  // in the order of tuning

  std::string Encode() const;
  // DATA_LOSS when the bytes are not a whole state. What daemons before the field `duplicates`
  // wrote has none.
  static absl::StatusOr<TuneState> Decode(std::string_view bytes);
};

}  // namespace uopd::engine
