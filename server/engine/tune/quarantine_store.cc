// SPDX-License-Identifier: MIT
#include "server/engine/tune/quarantine_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "core/base/bytes.h"
#include "core/base/text.h"
#include "server/engine/base/lookups.h"

namespace uopd::engine {
namespace {

using worker::QuarantineEntry;

constexpr char kQuarantineStore[] = "quarantine";
// Jobs are named by digests of everything that decides their outcome. So the key needs no facts
// about the machine.
constexpr char kEnvironment[] = "record=4";
constexpr int64_t kPage = 256;

}  // namespace

QuarantineStore::QuarantineStore(cache::Store& store, std::string pool, size_t max_entries)
    : store_(store), pool_(std::move(pool)), max_entries_(max_entries) {}

cache::Key QuarantineStore::KeyOf(const Digest& job) const {
  return {kQuarantineStore, Cat(pool_, " ", job.Hex()), kEnvironment};
}

std::optional<QuarantineStore::Change> QuarantineStore::Read(std::string_view semantic,
                                                             std::string_view value) const {
  if (!semantic.starts_with(Cat(pool_, " "))) return std::nullopt;
  Change out;
  ByteReader in(value);
  uint64_t removed = 0;
  const std::string job = absl::HexStringToBytes(
      {semantic.data() + pool_.size() + 1, semantic.size() - pool_.size() - 1});
  if (!out.entry.job.FromBytes(job) || !in.Varint(removed) || removed > 1 ||
      !in.String(out.entry.reason) || !in.Signed(out.entry.since_s) || !in.done()) {
    CountCorrupt(kQuarantineStore);
    return std::nullopt;
  }
  out.removed = removed == 1;
  return out;
}

std::vector<QuarantineEntry> QuarantineStore::Load() const {
  std::vector<QuarantineEntry> out;
  cache::EntryQuery query{.filter = {.store = kQuarantineStore, .environment = kEnvironment},
                          .order = cache::EntryOrder::kCreated,
                          .limit = kPage};
  while (out.size() < max_entries_) {
    const auto page = store_.Select(query);
    if (!page.ok()) break;  // the store counts its failures
    for (const cache::EntryInfo& info : *page) {
      const auto row = store_.ReadRow(info.address);
      if (!row.ok() || !row->has_value() || Checksum(**row) != (*row)->checksum) continue;
      std::optional<Change> change = Read((*row)->semantic, (*row)->value);
      if (change && !change->removed && out.size() < max_entries_)
        out.push_back(std::move(change->entry));
    }
    if (static_cast<int64_t>(page->size()) < kPage) break;
    query.after = {OrderValue(page->back(), query.order), page->back().address};
  }
  std::ranges::reverse(out);
  return out;
}

std::optional<QuarantineEntry> QuarantineStore::FindInCluster(const Digest& job) const {
  if (store_.maybe_cluster() == nullptr) return std::nullopt;
  const cache::Key key = KeyOf(job);
  const cache::GetResult found = store_.Get(key);
  std::optional<Change> change;
  if (found.hit()) change = Read(key.semantic(), found.entry.bytes);
  if (!change || change->removed) return std::nullopt;
  return std::move(change->entry);
}

void QuarantineStore::Add(const QuarantineEntry& entry) {
  const cache::Key key = KeyOf(entry.job);
  const cache::GetResult found = store_.Get(key);
  if (found.hit()) {
    const std::optional<Change> known = Read(key.semantic(), found.entry.bytes);
    if (known && !known->removed) return;  // the first reason stays
  }
  Put({entry});
}

void QuarantineStore::Remove(const Digest& job) { Put({{.job = job}, true}); }

void QuarantineStore::Put(const Change& change) {
  std::string value;
  PutVarint(value, change.removed ? 1 : 0);
  PutString(value, change.entry.reason);
  PutSigned(value, change.entry.since_s);
  store_.Put(KeyOf(change.entry.job), std::move(value), 1'000'000)
      .IgnoreError();  // the store counts failures
}

std::unique_ptr<cache::Arrivals::Subscription> QuarantineStore::Follow(
    std::function<void(const QuarantineEntry&)> on_added,
    std::function<void(const Digest&)> on_removed) const {
  store_.Follow(kEnvironment);
  return std::make_unique<cache::Arrivals::Subscription>(
      store_.arrivals(), [this, on_added = std::move(on_added),
                          on_removed = std::move(on_removed)](const cache::Row& row) {
        if (row.store != kQuarantineStore) return;
        const std::optional<Change> change = Read(row.semantic, row.value);
        if (!change) return;
        change->removed ? on_removed(change->entry.job) : on_added(change->entry);
      });
}

}  // namespace uopd::engine
