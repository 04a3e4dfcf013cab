// SPDX-License-Identifier: MIT
#include "server/engine/result_memory.h"

#include "core/base/text.h"

namespace uopd::engine {

absl::StatusOr<std::shared_ptr<const ExecuteResult>> ResultMemory::Find(
    uint64_t request_id, const Digest& program) const {
  auto it = results_.find(request_id);
  if (it == results_.end()) return nullptr;
  if (it->second.program != program) {
    return absl::InvalidArgumentError(
        Cat("request id (", request_id, ") was used for another program"));
  }
  return it->second.result;
}

void ResultMemory::Remember(uint64_t request_id, const Digest& program,
                            const ExecuteResult& result) {
  size_t bytes = 0;
  for (const std::string& data : result.data) bytes += data.size();
  if (bytes > kMaxBytes) return;
  auto [it, added] = results_.try_emplace(request_id);
  if (!added) return;
  it->second = {program, std::make_shared<const ExecuteResult>(result), bytes};
  order_.push_back(request_id);
  bytes_ += bytes;
  while (bytes_ > kMaxBytes || order_.size() > kMaxResults) {
    auto oldest = results_.find(order_.front());
    bytes_ -= oldest->second.bytes;
    results_.erase(oldest);
    order_.pop_front();
  }
}

}  // namespace uopd::engine
