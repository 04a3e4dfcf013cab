// SPDX-License-Identifier: MIT
// Entries of the cache on their way to another daemon and from one, as a bundle
// (cache/bundle/bundle.h).
//
// Graphs, schedules, kernels and winners of tuning travel. Both classes work in steps that take
// little memory, each on the thread of its caller; one thread at a time. The bundle's bytes come
// and go in pieces.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cache/bundle/bundle.h"
#include "server/engine/operate/cache_operator.h"

namespace uopd::engine {

// The keys of a daemon for bundles.
struct BundleKeys {
  cache::SealKey sign;                  // can_sign(), or nothing is exported
  std::vector<cache::SealKey> trusted;  // of whom bundles are taken
};

class CacheExport {
 public:
  static constexpr size_t kChunkBytes = size_t{1} << 20;

  // `op` outlives the export. FAILED_PRECONDITION: this daemon has no key to sign with.
  // INVALID_ARGUMENT: the filter names a store that does not travel, or chooses more than
  // cache::kMaxBundleRecords entries. NOT_FOUND: it chooses none. DATA_LOSS: an entry is damaged.
  // Entries that are too large for the readers of bundles are left out.
  static absl::StatusOr<CacheExport> Begin(const RequestContext& request, CacheOperator& op,
                                           const BundleKeys& keys,
                                           const cache::EntryFilter& filter);

  // The next bytes of the bundle, at most kChunkBytes; empty at the end. ABORTED: an entry changed
  // since Begin, so the export has to begin again. DATA_LOSS: an entry is damaged.
  absl::StatusOr<std::string> Next();
  size_t entries() const { return list_.items.size(); }
  size_t left_out() const { return left_out_; }

 private:
  CacheExport(CacheOperator& op, cache::SealKey sign) : op_(&op), sign_(std::move(sign)) {}

  CacheOperator* op_;
  cache::SealKey sign_;
  cache::BundleList list_;
  std::string ready_;  // bytes that were made and not taken, from `at_` on
  size_t at_ = 0;
  size_t next_ = 0;  // record
  size_t left_out_ = 0;
};

// What became of one record of a bundle.
struct ImportedRecord {
  enum Outcome : uint8_t {
    kImported,
    kUnproven,          // a winner: it is kept, and used after a run against the reference
    kPresent,           // the cache has an entry of this key
    kStale,             // a winner, and the cache has a newer one
    kOtherEnvironment,  // of a device, a version or settings that this daemon does not have
    kOtherStore,        // of a kind that does not travel
    kRefused,           // not sealed, sealed by somebody else, changed, or not what its place says
    kNotKept,           // the cache did not take it
  };
  size_t number = 0;  // from 1, in the order of the bundle
  Digest address;
  Outcome outcome = kRefused;
  // Empty for records that were refused.
  std::string store, title;
  std::string reason;
  double seconds = 0;  // of a winner
};
const char* Name(ImportedRecord::Outcome outcome);

class CacheImport {
 public:
  // `op` outlives the import. With `dry_run` everything is checked and nothing is kept.
  CacheImport(CacheOperator& op, const BundleKeys& keys, bool dry_run)
      : op_(op),
        environments_(op.MakeEnvironments()),
        reader_(keys.trusted, {}),
        dry_run_(dry_run) {}

  // Takes the next bytes, and adds to `out` the records that they complete. Errors are those of
  // BundleReader.
  absl::Status Feed(std::string_view bytes, std::vector<ImportedRecord>& out);
  absl::Status End() const { return reader_.End(); }
  // Null: the head was not read yet.
  const cache::BundleList* maybe_list() const {
    return reader_.has_list() ? &reader_.list() : nullptr;
  }

 private:
  ImportedRecord Take(cache::BundleReader::Record record);
  // Decides about a sound row, and keeps it.
  void TakeRow(cache::Row row, ImportedRecord& out);
  void TakeWinner(cache::Row row, ImportedRecord& out);
  void Keep(cache::Row row, ImportedRecord& out);

  CacheOperator& op_;
  Environments environments_;
  cache::BundleReader reader_;
  const bool dry_run_;
};

}  // namespace uopd::engine
