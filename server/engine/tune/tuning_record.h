// SPDX-License-Identifier: MIT
// What tuning found for one kernel, as plain data: the value of store "tuning".
//
// Its bytes (core/base/bytes.h): the number of opts as a varint; for each opt the varints of its
// kind and its axis, and its amount, signed (opt.h, StoredOpt); seconds and heuristic_seconds as
// doubles; measured and failed, signed. An older version of it is not read: the version is in the
// key.
#pragma once
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/codegen/codegen.h"

namespace uopd::engine {

// Version of the encoding; part of the environment key.
inline constexpr int kTuningRecordVersion = 1;

using Opts = std::vector<codegen::Opt>;

struct TuningRecord {
  Opts opts;                         // the fastest opts; may be the heuristic's choice
  double seconds = 0;                // time of one run with these opts
  double heuristic_seconds = 0;      // time of one run with the heuristic's; infinity: it failed
  int64_t measured = 0, failed = 0;  // numbers of candidates

  // How many times as long a run takes with the heuristic's opts; 1 if that is not known.
  double gain() const {
    const double ratio = heuristic_seconds / seconds;
    return std::isfinite(ratio) && ratio > 1 ? ratio : 1;
  }

  std::string Encode() const;
  // DATA_LOSS when the bytes are not a whole record. FAILED_PRECONDITION when they have an opt of a
  // later version.
  static absl::StatusOr<TuningRecord> Decode(std::string_view bytes);
};

}  // namespace uopd::engine
