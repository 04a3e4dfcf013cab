// SPDX-License-Identifier: MIT
// What an entry of the cache is, in words: for people who look at the cache.
//
// Pure functions. Values that do not decode have no facts beyond their size.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cache/base/row/row.h"
#include "server/engine/tune/tuning_record.h"

namespace uopd::engine {

// One phrase: a kernel's name, the opts of a winner, the digest of a graph. Empty if there is
// nothing to say.
std::string TitleOf(const cache::Row& row);

// More about the value, as pairs of a name and a text.
std::vector<std::pair<std::string, std::string>> FactsOf(const cache::Row& row);

// "12.34 us".
std::string Microseconds(double seconds);

// The winner in an entry of the stores "tuning" and "unproven". NOT_FOUND for other stores; the
// errors of TuningRecord::Decode.
absl::StatusOr<TuningRecord> WinnerOf(const cache::Row& row);

}  // namespace uopd::engine
