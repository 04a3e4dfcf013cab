// SPDX-License-Identifier: MIT
// What operators do with the cache: look at it, check it, make room in it, keep entries in it.
//
// Every call is bounded: it handles a page and returns a token for the next one. A token is valid
// for the same call with the same arguments; it does not end. Thread-safe: the calls block on the
// disk, and Verify on workers. Those that may take long end with their request. Errors:
// INVALID_ARGUMENT for a bad filter or token, NOT_FOUND, PERMISSION_DENIED for a cache that is only
// read, and those of the file system.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cache/store.h"
#include "server/engine/base/device_set.h"
#include "server/engine/base/request_context.h"
#include "server/engine/compile/source/graph_compiler.h"
#include "server/engine/operate/environments.h"
#include "server/engine/tune/tuning_service.h"

namespace uopd::engine {

struct EntryView {
  cache::EntryInfo info;
  cache::UseCounts::Uses uses;  // since the daemon started
  double seconds = 0;           // of a winner
  std::string title;            // TitleOf; empty for entries that are too large to look into
};

class CacheOperator {
 public:
  static constexpr int64_t kMaxPage = 500;

  struct Order {
    enum By : uint8_t { kLastUsed, kBytes, kCost, kCreated, kKey, kHits, kSaved };
  };
  struct Page {
    std::vector<EntryView> entries;
    std::string next;  // empty: the last page
  };

  // All references outlive this object. `maybe_tuner` is the tuner of `tuning`, or null.
  CacheOperator(cache::Store& store, const GraphCompiler& graph_compiler, DeviceSet& devices,
                TuningService& tuning, const KernelTuner* maybe_tuner)
      : store_(store),
        graph_compiler_(graph_compiler),
        devices_(devices),
        tuning_(tuning),
        tuner_(maybe_tuner) {}

  // By kHits and kSaved only entries are listed that were found since the daemon started.
  absl::StatusOr<Page> List(const RequestContext& request, const cache::EntryFilter& filter,
                            Order::By order, int64_t limit, std::string_view token);

  struct Details {
    EntryView view;
    cache::Row row;
    bool damaged = false;  // the checksum does not match
    bool used = false;     // requests of this daemon may find it
    std::string
        facts;  // behind the digest in the environment of a choice, if this daemon knows them
  };
  // The one entry whose address begins with `key_prefix`. INVALID_ARGUMENT: there are several.
  absl::StatusOr<Details> Get(const std::string& key_prefix);

  struct Verdict {
    enum Outcome : uint8_t {
      kDamaged,      // the checksum does not match
      kOtherKey,     // the row lies at the address of another key
      kUnreadable,   // the value does not decode
      kWrongWinner,  // the winner does not compute what the reference computes
      kRightWinner,  // ran and agreed
      kPromoted,     // the same, and an imported winner is used from now on
      kNotRun,       // a winner that could not be run here
    };
    Digest address;
    std::string store;
    Outcome outcome = kDamaged;
    std::string detail;
  };
  struct Verified {
    int64_t checked = 0, removed = 0;
    std::vector<Verdict>
        verdicts;  // of entries that are bad, and of every winner that was to be run
    std::string next;
  };
  // Checks the next entries, in the order of their keys: key, checksum and value. `run`: also runs
  // winners against the reference; the filter's store "unproven" chooses those that were imported.
  // `remove`: removes what is bad.
  absl::StatusOr<Verified> Verify(RequestContext& request, const cache::EntryFilter& filter,
                                  bool run, bool remove, std::string_view token);

  struct Evicted {
    int64_t entries = 0, bytes = 0;
    int64_t pinned = 0;  // that stay
    std::string next;
  };
  absl::StatusOr<Evicted> Evict(const cache::EntryFilter& filter, bool with_pinned, bool dry_run,
                                std::string_view token);

  // Pins the one entry, or ends that. RESOURCE_EXHAUSTED: cache.pinned_percent.
  absl::StatusOr<EntryView> Pin(const std::string& key_prefix, bool pinned);
  void set_pinned_percent(int64_t percent) { pinned_percent_ = percent; }

  Environments MakeEnvironments() const { return {graph_compiler_, tuner_, devices_}; }
  cache::Store& store() { return store_; }

 private:
  absl::StatusOr<Page> ListByUse(const RequestContext& request, const cache::EntryFilter& filter,
                                 Order::By order, int64_t limit, std::string_view token);
  absl::StatusOr<EntryView> View(cache::EntryInfo info);
  absl::StatusOr<cache::EntryInfo> Only(const std::string& key_prefix);
  Verdict Run(RequestContext& request, Environments& environments, const cache::Row& row,
              const Digest& address);

  cache::Store& store_;
  const GraphCompiler& graph_compiler_;
  DeviceSet& devices_;
  TuningService& tuning_;
  const KernelTuner* const tuner_;
  std::atomic<int64_t> pinned_percent_{25};
};

const char* Name(CacheOperator::Verdict::Outcome outcome);

}  // namespace uopd::engine
