// SPDX-License-Identifier: MIT
#include "server/engine/operate/tune_rows.h"

#include <utility>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

// Rows of this cost outlive most others of the cache. An operation that runs is written again and
// again, and so stays.
constexpr int64_t kCostUs = 60'000'000;
constexpr int64_t kPageOfRows = 256;

}  // namespace

cache::Key TuneRows::KeyOf(std::string_view id) {
  return {cache::kTuneStore, std::string(id), Cat("record=", kTuneStateVersion)};
}

std::vector<Digest> TuneRows::List() const {
  std::vector<Digest> out;
  cache::EntryQuery query{.filter = {.store = cache::kTuneStore},
                          .order = cache::EntryOrder::kCreated,
                          .limit = kPageOfRows};
  while (static_cast<int64_t>(out.size()) < kMaxRows) {
    const auto page = store_.Select(query);
    if (!page.ok()) break;  // the store counts its failures
    for (const cache::EntryInfo& info : *page) out.push_back(info.address);
    if (static_cast<int64_t>(page->size()) < kPageOfRows) break;
    query.after = {OrderValue(page->back(), query.order), page->back().address};
  }
  return out;
}

std::optional<TuneState> TuneRows::Read(const Digest& address) const {
  const auto row = store_.ReadRow(address);
  if (!row.ok() || !row->has_value() || Checksum(**row) != (*row)->checksum) return std::nullopt;
  auto state = TuneState::Decode((*row)->value);
  if (!state.ok() || KeyOf(state->id).address() != address) return std::nullopt;
  return *std::move(state);
}

void TuneRows::Put(const TuneState& state) {
  cache::Row row = cache::MakeRow(KeyOf(state.id), state.Encode(), kCostUs, state.created_us, 0);
  store_.Import(std::move(row)).IgnoreError();  // the store counts failures
}

void TuneRows::Remove(std::string_view id) {
  const Digest address = AddressOf(id);
  store_.Remove({&address, 1}).IgnoreError();
}

TuneRows::Claim TuneRows::TryClaim(std::string_view id) {
  cache::Key key = KeyOf(id);
  const cache::LeaseResult lease = store_.TryLease(key, owner_, lease_us_);
  Claim out;
  if (lease.granted()) {
    out.maybe_lease = std::make_unique<Lease>(store_, std::move(key), lease.token, lease_us_);
  } else if (lease.outcome == cache::LeaseOutcome::kBusy) {
    out.holder = lease.holder;
  }
  return out;
}

}  // namespace uopd::engine
