// SPDX-License-Identifier: MIT
#include "server/engine/tune/quarantine_store.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "server/engine/base/lookups.h"

namespace uopd::engine {
namespace {

using worker::QuarantineEntry;

constexpr char kQuarantineStore[] = "quarantine";
// Jobs are named by digests of everything that decides their outcome. So the key needs no facts
// about the machine.
constexpr char kEnvironment[] = "record=2";

std::string Encode(const std::vector<QuarantineEntry>& entries) {
  std::string out;
  PutVarint(out, entries.size());
  for (const QuarantineEntry& entry : entries) {
    PutString(out, entry.job.view());
    PutString(out, entry.reason);
    PutSigned(out, entry.since_s);
  }
  return out;
}

bool Decode(std::string_view bytes, std::vector<QuarantineEntry>& out) {
  ByteReader in(bytes);
  uint64_t n;
  if (!in.Varint(n) || n > QuarantineStore::kMaxEntries) return false;
  for (uint64_t i = 0; i < n; ++i) {
    std::string_view job;
    QuarantineEntry entry;
    if (!in.String(job) || !entry.job.FromBytes(job) || !in.String(entry.reason) ||
        !in.Signed(entry.since_s)) {
      return false;
    }
    out.push_back(std::move(entry));
  }
  return in.done();
}

}  // namespace

QuarantineStore::QuarantineStore(cache::Store& store, std::string pool, size_t max_entries)
    : store_(store),
      key_(kQuarantineStore, std::move(pool), kEnvironment),
      max_entries_(max_entries) {}

std::vector<QuarantineEntry> QuarantineStore::Load() const {
  const cache::GetResult found = store_.Get(key_);
  CountLookup(kQuarantineStore, found.outcome);
  std::vector<QuarantineEntry> out;
  if (!found.hit()) return out;
  if (!Decode(found.entry.bytes, out)) {
    CountCorrupt(kQuarantineStore);
    out.clear();
  }
  return out;
}

void QuarantineStore::Add(const QuarantineEntry& entry) {
  MutexLock lock(mu_);
  std::vector<QuarantineEntry> entries = Load();
  const bool known = std::any_of(entries.begin(), entries.end(),
                                 [&](const QuarantineEntry& e) { return e.job == entry.job; });
  if (known) return;
  if (entries.size() >= max_entries_) entries.erase(entries.begin());
  entries.push_back(entry);
  Save(entries);
}

void QuarantineStore::Remove(const Digest& job) {
  MutexLock lock(mu_);
  std::vector<QuarantineEntry> entries = Load();
  if (std::erase_if(entries, [&](const QuarantineEntry& e) { return e.job == job; }) > 0) {
    Save(entries);
  }
}

void QuarantineStore::Save(const std::vector<QuarantineEntry>& entries) {
  store_.Put(key_, Encode(entries), 1'000'000).IgnoreError();  // the store counts failures
}

}  // namespace uopd::engine
