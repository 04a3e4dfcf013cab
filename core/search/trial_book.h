// SPDX-License-Identifier: MIT
// TrialBook: the times of the candidates of one kernel that were measured before, by program.
//
// A candidate is known by the digest of its text and launch (Candidate::digest), not by its opts.
// So a book stays good when the search or the code generator changes: a program that is still made
// is still known, and the others are never asked for. A search that was stopped goes through the
// programs that it knows without measuring them, and goes on from there.
//
// Used by one thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "core/base/digest.h"
#include "core/base/status.h"

namespace uopd::search {

class TrialBook {
 public:
  static constexpr size_t kMost = 4096;  // programs; more are not added

  std::optional<double> Find(const Digest& program) const;  // seconds
  void Add(const Digest& program, double seconds);
  size_t size() const { return seconds_.size(); }

  std::string Encode() const;
  // DATA_LOSS: the bytes are not a whole book.
  static absl::StatusOr<TrialBook> Decode(std::string_view bytes);

 private:
  absl::flat_hash_map<Digest, double> seconds_;
};

}  // namespace uopd::search
