// SPDX-License-Identifier: MIT
#include "server/engine/session/result_memory.h"

#include <algorithm>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

// About the memory for an id and for the places where its result was.
constexpr int64_t kKnownBytes = sizeof(ResultMemory::Known) + 128;

}  // namespace

absl::StatusOr<const ResultMemory::Known*> ResultMemory::Find(uint64_t request_id,
                                                              const Digest& program) const {
  auto it = known_.find(request_id);
  if (it == known_.end()) return nullptr;
  if (it->second.program != program) {
    return absl::InvalidArgumentError(
        Cat("request id (", request_id, ") was used for another program"));
  }
  return &it->second;
}

void ResultMemory::Remember(uint64_t request_id, const Digest& program, const ExecuteResult& result,
                            std::vector<ResultSource> sources) {
  Known* known = Add(request_id, program);
  if (known == nullptr) return;
  for (const std::string& data : result.data) known->bytes += data.size();
  if (sources.size() <= kMaxSources) known->sources = std::move(sources);
  if (result.data.empty()) {  // takes no place of a result with data, and is kept as long as its id
    known->maybe_result = std::make_shared<const ExecuteResult>();
    return;
  }
  if (known->bytes > most_bytes()) return;
  known->maybe_result = std::make_shared<const ExecuteResult>(result);
  known->charge = Charge::Always(quota_, static_cast<int64_t>(known->bytes + sizeof(ExecuteResult)),
                                 ByteClass::kResults);
  with_data_.push_back(request_id);
  bytes_ += known->bytes;
  while (bytes_ > most_bytes()) DropData(with_data_.front());
}

// Nothing takes the data of a result away when its session needs memory. So a small session keeps
// few results.
size_t ResultMemory::most_bytes() const {
  return static_cast<size_t>(std::clamp<int64_t>(quota_.limit() / kPartOfLimit, 0, kMaxBytes));
}

void ResultMemory::RememberLoss(uint64_t request_id, const Digest& program, absl::Status lost) {
  if (Known* known = Add(request_id, program)) known->lost = std::move(lost);
}

// Returns null if the id is known already.
ResultMemory::Known* ResultMemory::Add(uint64_t request_id, const Digest& program) {
  if (known_.contains(request_id)) return nullptr;
  if (ids_.size() == kMaxIds) {
    const uint64_t oldest = ids_.front();
    if (!with_data_.empty() && with_data_.front() == oldest) DropData(oldest);
    known_.erase(oldest);
    ids_.pop_front();
  }
  ids_.push_back(request_id);
  Known& known = known_[request_id];
  known.program = program;
  known.known = Charge::Always(quota_, kKnownBytes, ByteClass::kResults);
  return &known;
}

// REQUIRES: this id is the oldest one with data.
void ResultMemory::DropData(uint64_t request_id) {
  Known& known = known_.at(request_id);
  bytes_ -= known.bytes;
  known.maybe_result = nullptr;
  known.charge = {};
  with_data_.pop_front();
}

}  // namespace uopd::engine
