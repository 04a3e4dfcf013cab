// SPDX-License-Identifier: MIT
#include "server/engine/tune/search_memory.h"

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "server/worker/job/measure_job.h"

namespace uopd::engine {
namespace {

constexpr int64_t kCostUs = 1'000'000;  // to the eviction: measurements cost more than other rows

cache::Key BookKey(std::string_view graph, const Target& target) {
  return {SearchMemory::kBooks, std::string(graph),
          Cat("measure=", worker::kMeasurePolicyVersion, " ", target.Key())};
}

cache::Key ModelKey(const Target& target) {
  return {SearchMemory::kModels, Cat("features=", search::kFeaturesVersion),
          Cat("measure=", worker::kMeasurePolicyVersion, " ", target.Key())};
}

void Put(cache::Store& store, const cache::Key& key, std::string bytes) {
  const absl::Status status = store.Put(key, std::move(bytes), kCostUs);
  if (!status.ok()) UOPD_LOG(kDebug, "what a search learned is not kept", {"error", status});
}

template <class T>
T Read(cache::Store& store, const cache::Key& key) {
  const auto found = store.Get(key);
  if (!found.hit()) return T();
  auto read = T::Decode(found.entry.bytes);
  return read.ok() ? *std::move(read) : T();
}

}  // namespace

search::TrialBook SearchMemory::Book(std::string_view graph, const Target& target) const {
  return Read<search::TrialBook>(store_, BookKey(graph, target));
}

search::CostModel SearchMemory::Model(const Target& target) const {
  return Read<search::CostModel>(store_, ModelKey(target));
}

void SearchMemory::Keep(std::string_view graph, const Target& target,
                        const search::TrialBook& book) const {
  if (book.size() > 0) Put(store_, BookKey(graph, target), book.Encode());
}

void SearchMemory::Keep(const Target& target, const search::CostModel& model) const {
  if (model.observations() > 0) Put(store_, ModelKey(target), model.Encode());
}

}  // namespace uopd::engine
