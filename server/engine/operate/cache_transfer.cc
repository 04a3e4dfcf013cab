// SPDX-License-Identifier: MIT
#include "server/engine/operate/cache_transfer.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "server/engine/operate/entry_view.h"

namespace uopd::engine {
namespace {

// Drafts are made in milliseconds; a quarantine and winners that were not proven are one daemon's
// own affair.
constexpr std::array<std::string_view, 5> kTravelling = {"graph", "schedule", "tuning", "kernel",
                                                         "choice"};
constexpr int64_t kListPage = 1000;
// The readers of bundles take no larger ones, and refuse the rest of the bundle then.
constexpr int64_t kMaxRowBytes =
    cache::MaxBundleRowBytes(cache::BundleReader::Limits().record_bytes);

bool Travels(std::string_view store) {
  return std::ranges::find(kTravelling, store) != kTravelling.end();
}

absl::Status Damaged(const Digest& address) {
  return absl::DataLossError(
      Cat("the entry ", address.Hex(), " is damaged: uopctl cache verify --remove removes it"));
}

bool IsSound(const cache::Row& row) { return Checksum(row) == row.checksum; }

}  // namespace

const char* Name(ImportedRecord::Outcome outcome) {
  switch (outcome) {
    case ImportedRecord::kImported:
      return "imported";
    case ImportedRecord::kUnproven:
      return "unproven";
    case ImportedRecord::kPresent:
      return "present";
    case ImportedRecord::kStale:
      return "stale";
    case ImportedRecord::kOtherEnvironment:
      return "other_environment";
    case ImportedRecord::kOtherStore:
      return "other_store";
    case ImportedRecord::kRefused:
      return "refused";
    case ImportedRecord::kNotKept:
      return "not_kept";
  }
  UOPD_CHECK(false);
}

absl::StatusOr<CacheExport> CacheExport::Begin(const RequestContext& request, CacheOperator& op,
                                               const BundleKeys& keys,
                                               const cache::EntryFilter& filter) {
  if (!keys.sign.can_sign()) {
    return absl::FailedPreconditionError(
        "this daemon has no key to sign a bundle with (cache.cluster_sign_key)");
  }
  if (!filter.store.empty() && !Travels(filter.store))
    return Invalid(Cat("entries of the kind ", filter.store, " do not travel"));
  if (!cache::RangeOf(filter.key_prefix))
    return Invalid(Cat("\"", filter.key_prefix, "\" is not the beginning of a key"));
  CacheExport out(op, keys.sign);
  out.list_.created_us = cache::WallClockUs();
  std::set<std::string> environments;
  for (const std::string_view store : kTravelling) {
    if (!filter.store.empty() && filter.store != store) continue;
    cache::EntryQuery query{.filter = filter, .limit = kListPage};
    query.filter.store = store;
    for (bool more = true; more;) {
      UOPD_TRY(request.Check());
      UOPD_ASSIGN(const std::vector<cache::EntryInfo> page, op.store().Select(query));
      more = static_cast<int64_t>(page.size()) == kListPage;
      if (out.list_.items.size() + page.size() > cache::kMaxBundleRecords) {
        return Invalid(Cat("a bundle has at most ", cache::kMaxBundleRecords,
                           " entries: choose fewer by a filter"));
      }
      for (const cache::EntryInfo& info : page) {
        if (info.bytes > kMaxRowBytes) {
          ++out.left_out_;
          continue;
        }
        // The checksum comes from the file as it is.
        if (info.checksum.size() != cache::BundleList::kChecksumBytes) return Damaged(info.address);
        out.list_.items.push_back({info.address, info.checksum});
        // The opts of a tuned kernel stand at the end of the environment of its choice: without
        // them there are few environments.
        environments.insert(info.environment.substr(0, info.environment.find(" opts=")));
      }
      if (more) query.after = {0, page.back().address};
    }
  }
  if (out.list_.items.empty()) {
    return absl::NotFoundError(out.left_out_ == 0
                                   ? "the cache has no entry of this choice"
                                   : "all entries of this choice are too large for a bundle");
  }
  out.list_.environments.assign(environments.begin(), environments.end());
  out.ready_ = WriteBundleHead(out.list_, out.sign_);
  if (out.ready_.size() > cache::BundleReader::Limits().list_bytes)
    return Invalid("the list of the bundle would be too long: choose fewer entries by a filter");
  return out;
}

absl::StatusOr<std::string> CacheExport::Next() {
  while (ready_.size() - at_ < kChunkBytes && next_ < list_.items.size()) {
    const cache::BundleList::Item& item = list_.items[next_];
    UOPD_ASSIGN(const std::optional<cache::Row> row, op_->store().ReadRow(item.address));
    if (!row || row->checksum != item.checksum) {
      return absl::AbortedError(
          Cat("the entry ", item.address.Hex(), " changed while it was exported: try again"));
    }
    if (!IsSound(*row) || cache::KeyOf(*row).address() != item.address) {
      return Damaged(item.address);
    }
    ready_.erase(0, std::exchange(at_, 0));
    ready_ += WriteBundleRecord(*row, sign_);
    ++next_;
  }
  std::string out = ready_.substr(at_, kChunkBytes);
  at_ += out.size();
  return out;
}

absl::Status CacheImport::Feed(std::string_view bytes, std::vector<ImportedRecord>& out) {
  return reader_.Feed(
      bytes, [&](cache::BundleReader::Record record) { out.push_back(Take(std::move(record))); });
}

ImportedRecord CacheImport::Take(cache::BundleReader::Record record) {
  ImportedRecord out{.number = record.number, .address = record.address};
  if (record.result.fault != cache::RecordFault::kNone) {
    out.reason = Name(record.result.fault);
    return out;
  }
  cache::Row& row = *record.result.row;
  out.store = row.store;
  out.title = TitleOf(row);
  TakeRow(std::move(row), out);
  return out;
}

void CacheImport::TakeRow(cache::Row row, ImportedRecord& out) {
  if (!Travels(row.store)) {
    out.outcome = ImportedRecord::kOtherStore;
    return;
  }
  if (!environments_.Uses(row.store, row.environment)) {
    out.outcome = ImportedRecord::kOtherEnvironment;
    if (const auto winner = WinnerOf(row); winner.ok()) out.seconds = winner->seconds;
    return;
  }
  if (row.store == "graph" && HashBytes(row.value).view() != row.semantic) {
    out.reason = "the graph is not the one of its digest";
    return;
  }
  if (row.store == "tuning") return TakeWinner(std::move(row), out);
  const auto known = op_.store().ReadRow(out.address);
  if (known.ok() && known->has_value() && IsSound(**known)) {
    out.outcome = ImportedRecord::kPresent;  // an old bundle replaces nothing
    return;
  }
  out.outcome = ImportedRecord::kImported;
  Keep(std::move(row), out);
}

void CacheImport::TakeWinner(cache::Row row, ImportedRecord& out) {
  const auto winner = WinnerOf(row);
  if (!winner.ok()) {
    out.reason = StatusText(winner.status());
    return;
  }
  out.seconds = winner->seconds;
  const cache::Key key(std::string(cache::kUnprovenStore), row.semantic, row.environment);
  for (const Digest& place : {out.address, key.address()}) {
    const auto known = op_.store().ReadRow(place);
    if (!known.ok() || !known->has_value() || !IsSound(**known)) continue;
    if ((*known)->value == row.value) {
      out.outcome = ImportedRecord::kPresent;
      return;
    }
    if ((*known)->fence >= row.fence && (*known)->created_us >= row.created_us) {
      out.outcome = ImportedRecord::kStale;
      return;
    }
  }
  out.outcome = ImportedRecord::kUnproven;
  Keep(MakeRow(key, std::move(row.value), row.cost_us, row.created_us, row.fence), out);
}

void CacheImport::Keep(cache::Row row, ImportedRecord& out) {
  if (dry_run_) return;
  if (absl::Status kept = op_.store().Import(std::move(row)); !kept.ok()) {
    out.outcome = ImportedRecord::kNotKept;
    out.reason = StatusText(kept);
  }
}

}  // namespace uopd::engine
