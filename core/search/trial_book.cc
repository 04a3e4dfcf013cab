// SPDX-License-Identifier: MIT
#include "core/search/trial_book.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/base/bytes.h"

namespace uopd::search {

std::optional<double> TrialBook::Find(const Digest& program) const {
  const auto found = seconds_.find(program);
  return found == seconds_.end() ? std::nullopt : std::optional(found->second);
}

void TrialBook::Add(const Digest& program, double seconds) {
  if (seconds_.size() < kMost || seconds_.contains(program)) seconds_[program] = seconds;
}

std::string TrialBook::Encode() const {
  std::vector<std::pair<Digest, double>> sorted(seconds_.begin(), seconds_.end());
  std::ranges::sort(sorted, {}, [](const auto& entry) { return entry.first.view(); });
  std::string out;
  PutVarint(out, sorted.size());
  for (const auto& [program, seconds] : sorted) {
    PutString(out, program.view());
    PutVarint(out, std::bit_cast<uint64_t>(seconds));
  }
  return out;
}

absl::StatusOr<TrialBook> TrialBook::Decode(std::string_view bytes) {
  absl::Status malformed = absl::DataLossError("malformed book of trials");
  ByteReader reader(bytes);
  uint64_t count;
  if (!reader.Varint(count) || count > kMost) return malformed;
  TrialBook out;
  for (uint64_t i = 0; i < count; ++i) {
    std::string program;
    uint64_t bits;
    Digest digest;
    if (!reader.String(program) || !reader.Varint(bits) || !digest.FromBytes(program))
      return malformed;
    const double seconds = std::bit_cast<double>(bits);
    if (!(seconds >= 0) || std::isinf(seconds)) return malformed;
    out.Add(digest, seconds);
  }
  if (!reader.done() || out.size() != count) return malformed;
  return out;
}

}  // namespace uopd::search
