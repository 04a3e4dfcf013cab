// SPDX-License-Identifier: MIT
// The operators' view of a cache that real schedules filled: lists, checks, room, and bundles
// between two daemons.
#include "server/engine/operate/cache_operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/text.h"
#include "server/engine/operate/cache_transfer.h"
#include "server/engine/operate/entry_view.h"
#include "tests/support/eventually.h"
#include "tests/unit/cache/cluster/key_files.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using test::Eventually;
using ::testing::HasSubstr;

// The bytes of a row whose checksum no writer of this program made.
cache::Row WithChecksum(cache::Row row, std::string checksum) {
  row.checksum = std::move(checksum);
  return row;
}

// Finds one set of opts for every kernel, and proves what it is told to prove.
class OperatorsTuner final : public KernelTuner {
 public:
  std::string Environment(const devices::Device&, const CompileOptions& options) const override {
    return Cat("tuner ", name, " beam=", options.beam, " fast_math=", options.fast_math ? 1 : 0);
  }
  absl::StatusOr<TuningRecord> Tune(std::string_view, const devices::Device&, const CompileOptions&,
                                    const SearchControl&) override {
    return TuningRecord{.opts = {{codegen::OptKind::kUpcast, 0, 4}},
                        .seconds = found_seconds,
                        .heuristic_seconds = 2e-6};
  }
  absl::StatusOr<TuningRecord> Prove(std::string_view, const devices::Device&,
                                     const CompileOptions&, const Opts& opts,
                                     const WorkLimits&) override {
    UOPD_TRY(proof);
    return TuningRecord{.opts = opts, .seconds = proven_seconds, .heuristic_seconds = 2e-6};
  }
  std::string name = "a";
  double found_seconds = 1e-6, proven_seconds = 3e-6;
  absl::Status proof;
};

// A daemon without its network side.
struct TestDaemon {
  explicit TestDaemon(int64_t cache_bytes = 4 << 20) : store(cache_bytes) {
    CompileService::Options options;
    options.tuner = &tuner;
    service = std::make_unique<CompileService>(std::move(options), compiler, store, devices, pool);
    op = std::make_unique<CacheOperator>(store, compiler, devices, service->tuning(), &tuner);
  }
  // Compiles and tunes a graph.
  void Run(const std::string& graph) {
    RequestContext request;
    const auto program = WaitForProgram(*service, request, {"", graph}, {.beam = 2});
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_TRUE(Eventually([&] { return (*program)->Get()->tuned_kernels == 1; }));
    EXPECT_TRUE(Eventually([&] { return service->kernels_to_tune() == 0; }));
  }
  size_t Count(const std::string& kind) {
    return store.Select({.filter = {.store = kind}, .limit = 1000})->size();
  }
  cache::EntryInfo First(const std::string& kind) {
    return store.Select({.filter = {.store = kind}})->at(0);
  }

  FakeCompiler compiler;
  OperatorsTuner tuner;
  cache::Store store;
  DeviceSet devices{NullRegistry()};
  TaskPool pool{2, SIZE_MAX};
  std::unique_ptr<CompileService> service;
  std::unique_ptr<CacheOperator> op;
};

using Order = CacheOperator::Order;

class CacheOperatorTest : public cache::KeyFiles {
 protected:
  CacheOperatorTest() {
    for (int i = 1; i <= 3; ++i) a_.Run(ScaleGraph(4, i));
  }
  std::vector<EntryView> ListAll(TestDaemon& daemon, const cache::EntryFilter& filter,
                                 Order::By order, int64_t page_size) {
    std::vector<EntryView> out;
    std::string token;
    do {
      auto page = daemon.op->List({}, filter, order, page_size, token);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return out;
      for (EntryView& view : page->entries) out.push_back(std::move(view));
      token = page->next;
    } while (!token.empty());
    return out;
  }
  CacheOperator::Verified Verify(TestDaemon& daemon, bool run, bool remove,
                                 const cache::EntryFilter& filter = {}) {
    CacheOperator::Verified out;
    do {
      RequestContext request;
      auto page = daemon.op->Verify(request, filter, run, remove, out.next);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) return out;
      out.checked += page->checked;
      out.removed += page->removed;
      out.verdicts.insert(out.verdicts.end(), page->verdicts.begin(), page->verdicts.end());
      out.next = page->next;
    } while (!out.next.empty());
    return out;
  }
  absl::StatusOr<std::string> Export(TestDaemon& daemon, const cache::EntryFilter& filter = {}) {
    UOPD_ASSIGN(CacheExport bundle, CacheExport::Begin({}, *daemon.op, {.sign = hmac_}, filter));
    std::string out;
    for (;;) {
      UOPD_ASSIGN(const std::string chunk, bundle.Next());
      if (chunk.empty()) return out;
      out += chunk;
    }
  }
  std::map<std::string, int> Import(TestDaemon& daemon, std::string_view bundle,
                                    bool dry_run = false) {
    CacheImport import(*daemon.op, {.trusted = {hmac_}}, dry_run);
    std::vector<ImportedRecord> records;
    absl::Status status;
    for (; !bundle.empty() && status.ok();
         bundle.remove_prefix(std::min<size_t>(bundle.size(), 1000)))
      status = import.Feed(bundle.substr(0, 1000), records);
    if (status.ok()) status = import.End();
    EXPECT_TRUE(status.ok()) << status;
    std::map<std::string, int> out;
    for (const ImportedRecord& record : records) ++out[Name(record.outcome)];
    return out;
  }

  TestDaemon a_, b_;
};

TEST_F(CacheOperatorTest, ListsEntriesByEveryOrder) {
  for (const auto order :
       {Order::kLastUsed, Order::kBytes, Order::kCost, Order::kCreated, Order::kKey}) {
    std::set<Digest> seen;
    for (const EntryView& view : ListAll(a_, {}, order, 2)) seen.insert(view.info.address);
    EXPECT_EQ(seen.size(), a_.Count(""));
  }
  for (const EntryView& view : ListAll(a_, {.store = "kernel"}, Order::kBytes, 100))
    EXPECT_EQ(view.title, "fake");
  const auto winners = ListAll(a_, {.store = "tuning"}, Order::kKey, 1);
  ASSERT_EQ(winners.size(), 3u);
  EXPECT_THAT(winners[0].title, HasSubstr("UPCAST"));
  EXPECT_EQ(winners[0].seconds, 1e-6);
  EXPECT_TRUE(absl::IsInvalidArgument(a_.op->List({}, {}, Order::kKey, 5, "nonsense").status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(a_.op->List({}, {.key_prefix = "xy"}, Order::kKey, 5, "").status()));
}

TEST_F(CacheOperatorTest, TheTopIsWhatWasFoundMost) {
  const auto kernels = a_.store.Select({.filter = {.store = "kernel"}, .limit = 3});
  ASSERT_EQ(kernels->size(), 3u);
  for (int hits : {100, 200, 300}) {
    const auto key = a_.store.KeyOf(kernels->at(static_cast<size_t>(hits / 100 - 1)).address);
    for (int i = 0; i < hits; ++i) a_.store.Get(*key);
  }
  const auto all = ListAll(a_, {}, Order::kHits, 2);
  ASSERT_GE(all.size(), 3u);
  EXPECT_EQ(all[0].info.address, kernels->at(2).address);
  EXPECT_EQ(all[1].info.address, kernels->at(1).address);
  EXPECT_EQ(all[2].info.address, kernels->at(0).address);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i - 1].uses.hits, all[i].uses.hits);
  EXPECT_EQ(
      ListAll(a_, {.key_prefix = kernels->at(1).address.Hex().substr(0, 20)}, Order::kSaved, 9)
          .size(),
      1u);
}

TEST_F(CacheOperatorTest, ShowsOneEntry) {
  const cache::EntryInfo info = a_.First("tuning");
  const auto found = a_.op->Get(info.address.Hex().substr(0, 16));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->view.info.address, info.address);
  EXPECT_FALSE(found->damaged);
  EXPECT_TRUE(found->used);
  EXPECT_EQ(FactsOf(found->row)[0].first, "opts");
  EXPECT_TRUE(absl::IsNotFound(a_.op->Get(HashBytes("none").Hex()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(a_.op->Get("").status()));
  a_.tuner.name = "of another version";
  EXPECT_FALSE(a_.op->Get(info.address.Hex())->used);
}

TEST_F(CacheOperatorTest, VerifyFindsBadRowsAndRunsWinners) {
  CacheOperator::Verified all = Verify(a_, false, false);
  EXPECT_EQ(all.checked, static_cast<int64_t>(a_.Count("")));
  EXPECT_TRUE(all.verdicts.empty());
  // A row that is sound for its checksum, but no winner.
  const auto winner = a_.store.ReadRow(a_.First("tuning").address);
  const cache::Key key = cache::KeyOf(**winner);
  ASSERT_TRUE(a_.store.Import(cache::MakeRow(key, "no winner", 1, 1, (*winner)->fence + 1)).ok());
  // A row with a wrong checksum.
  cache::Row bad = cache::MakeRow(cache::Key("kernel", "bad", "env"), "value", 1, 1, 0);
  bad.value = "other";
  ASSERT_TRUE(a_.store.Import(bad).ok());
  all = Verify(a_, true, true);
  std::map<std::string, int> outcomes;
  for (const auto& verdict : all.verdicts) ++outcomes[Name(verdict.outcome)];
  EXPECT_EQ(outcomes,
            (std::map<std::string, int>{{"damaged", 1}, {"right_winner", 2}, {"unreadable", 1}}));
  EXPECT_EQ(all.removed, 2);
  EXPECT_EQ(a_.Count("tuning"), 2u);
  // A winner that computes something else.
  a_.tuner.proof = absl::InternalError("differs from the reference");
  all = Verify(a_, true, true, {.store = "tuning"});
  ASSERT_EQ(all.verdicts.size(), 2u);
  EXPECT_THAT(all.verdicts[0].detail, HasSubstr("differs"));
  EXPECT_EQ(all.removed, 2);
  EXPECT_EQ(a_.Count("tuning"), 0u);
}

// A result of tuning with an opt that a later version of the daemon has.
TEST_F(CacheOperatorTest, WhatALaterVersionWroteStays) {
  const auto winner = a_.store.ReadRow(a_.First("tuning").address);
  std::string later = (*winner)->value;
  later[1] = 99;  // the kind of the first opt
  const cache::Key key = cache::KeyOf(**winner);
  ASSERT_TRUE(a_.store.Import(cache::MakeRow(key, later, 1, 1, (*winner)->fence + 1)).ok());
  const size_t rows = a_.Count("tuning");
  const CacheOperator::Verified all = Verify(a_, true, true, {.store = "tuning"});
  const auto not_run = std::ranges::find(all.verdicts, CacheOperator::Verdict::kNotRun,
                                         &CacheOperator::Verdict::outcome);
  ASSERT_NE(not_run, all.verdicts.end());
  EXPECT_THAT(not_run->detail, HasSubstr("opt of kind 99 is of a later version"));
  EXPECT_EQ(all.removed, 0);
  EXPECT_EQ(a_.Count("tuning"), rows);
}

TEST_F(CacheOperatorTest, NothingIsRemovedBecauseItCouldNotBeRun) {
  a_.tuner.proof = absl::UnavailableError("no workers");
  CacheOperator::Verified all = Verify(a_, true, true);
  EXPECT_EQ(all.verdicts.size(), 3u);
  a_.tuner.proof = absl::OkStatus();
  a_.tuner.name = "of another version";
  for (const auto& verdict : Verify(a_, true, true).verdicts)
    EXPECT_EQ(verdict.outcome, CacheOperator::Verdict::kNotRun);
  EXPECT_EQ(a_.Count("tuning"), 3u);
}

TEST_F(CacheOperatorTest, EvictsWhatIsChosenAndKeepsWhatIsPinned) {
  const cache::EntryInfo kept = a_.First("kernel");
  ASSERT_TRUE(a_.op->Pin(kept.address.Hex(), true).ok());
  const size_t kernels = a_.Count("kernel"), all = a_.Count("");
  const auto would = a_.op->Evict({.store = "kernel"}, false, true, "");
  EXPECT_EQ(would->entries, static_cast<int64_t>(kernels - 1));
  EXPECT_EQ(a_.Count(""), all);
  const auto gone = a_.op->Evict({.store = "kernel"}, false, false, "");
  EXPECT_EQ(gone->entries, would->entries);
  EXPECT_EQ(gone->bytes, would->bytes);
  EXPECT_EQ(gone->pinned, 1);
  EXPECT_EQ(a_.Count("kernel"), 1u);
  EXPECT_EQ(a_.Count(""), all - kernels + 1);
  EXPECT_EQ(a_.op->Evict({}, true, false, "")->entries, static_cast<int64_t>(all - kernels + 1));
  EXPECT_EQ(a_.Count(""), 0u);
  EXPECT_TRUE(absl::IsNotFound(a_.op->Pin(kept.address.Hex(), true).status()));
}

TEST_F(CacheOperatorTest, ABundleMakesAnotherDaemonWarm) {
  const auto bundle = Export(a_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  // A trial keeps nothing.
  const auto trial = Import(b_, *bundle, true);
  EXPECT_EQ(b_.Count(""), 0u);
  auto outcomes = Import(b_, *bundle);
  EXPECT_EQ(outcomes, trial);
  EXPECT_EQ(outcomes["unproven"], 3);
  EXPECT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes["imported"], static_cast<int>(a_.Count("graph") + a_.Count("schedule") +
                                                   a_.Count("kernel") + a_.Count("choice")));
  // Winners are not used before they are proven.
  EXPECT_EQ(b_.Count("tuning"), 0u);
  // A bundle that comes again changes nothing.
  outcomes = Import(b_, *bundle);
  EXPECT_EQ(outcomes.size(), 1u);
  EXPECT_GT(outcomes["present"], 3);
  const auto proven = Verify(b_, true, true, {.store = "unproven"});
  ASSERT_EQ(proven.verdicts.size(), 3u);
  for (const auto& verdict : proven.verdicts)
    EXPECT_EQ(verdict.outcome, CacheOperator::Verdict::kPromoted) << verdict.detail;
  EXPECT_EQ(b_.Count("unproven"), 0u);
  EXPECT_EQ(b_.Count("tuning"), 3u);
  for (int i = 1; i <= 3; ++i) b_.Run(ScaleGraph(4, i));
  EXPECT_EQ(b_.compiler.builds, 0);
  EXPECT_EQ(b_.compiler.schedules, 0);
}

TEST_F(CacheOperatorTest, AWrongWinnerIsNeverServed) {
  const auto bundle = Export(a_, {.store = "tuning"});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(Import(b_, *bundle)["unproven"], 3);
  b_.tuner.proof = absl::InternalError("differs from the reference");
  const auto proven = Verify(b_, true, true, {.store = "unproven"});
  EXPECT_EQ(proven.removed, 3);
  EXPECT_EQ(b_.Count(""), 0u);
}

TEST_F(CacheOperatorTest, AFasterWinnerOfItsOwnStays) {
  b_.Run(ScaleGraph(4, 1));
  const auto row = b_.store.ReadRow(b_.First("tuning").address);
  // Found later, on a daemon where it was slower.
  const cache::Key key = cache::KeyOf(**row);
  const TuningRecord other{.opts = {{codegen::OptKind::kUpcast, 0, 2}}, .seconds = 5e-6};
  ASSERT_TRUE(
      a_.store
          .Import(cache::MakeRow(key, other.Encode(), 1, (*row)->created_us + 1, (*row)->fence + 1))
          .ok());
  const auto bundle = Export(a_, {.store = "tuning", .key_prefix = key.address().Hex()});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(Import(b_, *bundle)["unproven"], 1);
  const auto proven = Verify(b_, true, true, {.store = "unproven"});
  ASSERT_EQ(proven.verdicts.size(), 1u);
  EXPECT_EQ(proven.verdicts[0].outcome, CacheOperator::Verdict::kRightWinner);
  EXPECT_THAT(proven.verdicts[0].detail, HasSubstr("stays"));
  EXPECT_EQ((*b_.store.ReadRow(key.address()))->value, (*row)->value);
  // An older one is not even kept.
  ASSERT_TRUE(a_.store.Remove({&key.address(), 1}).ok());
  ASSERT_TRUE(a_.store.Import(cache::MakeRow(key, other.Encode(), 1, 1, 0)).ok());
  const auto old = Export(a_, {.store = "tuning", .key_prefix = key.address().Hex()});
  EXPECT_EQ(Import(b_, *old)["stale"], 1);
}

TEST_F(CacheOperatorTest, ASlowerWinnerOfItsOwnIsReplaced) {
  b_.tuner.found_seconds = 9e-6;
  b_.Run(ScaleGraph(4, 1));
  const Digest address = b_.First("tuning").address;
  const auto own = b_.store.ReadRow(address);
  ASSERT_GT((*own)->fence, 0);  // it was found under a lease
  const cache::Key key = cache::KeyOf(**own);
  const TuningRecord better{.opts = {{codegen::OptKind::kUpcast, 0, 2}}, .seconds = 1e-6};
  // The second time, what the daemon has is no record at all.
  for (const bool readable : {true, false}) {
    if (!readable) {
      ASSERT_TRUE(b_.store.Import(cache::MakeRow(key, "no record", 1, 1, (*own)->fence + 5)).ok());
    }
    const auto kept = b_.store.ReadRow(address);
    ASSERT_TRUE(a_.store
                    .Import(cache::MakeRow(key, better.Encode(), 1, (*kept)->created_us + 1,
                                           (*kept)->fence + 1))
                    .ok());
    const auto bundle = Export(a_, {.store = "tuning", .key_prefix = address.Hex()});
    ASSERT_TRUE(bundle.ok()) << bundle.status();
    EXPECT_EQ(Import(b_, *bundle)["unproven"], 1);
    const auto proven = Verify(b_, true, false, {.store = "unproven"});
    ASSERT_EQ(proven.verdicts.size(), 1u);
    EXPECT_EQ(proven.verdicts[0].outcome, CacheOperator::Verdict::kPromoted)
        << proven.verdicts[0].detail;
    const cache::GetResult found = b_.store.Get(key);
    ASSERT_TRUE(found.hit());
    const auto record = TuningRecord::Decode(found.entry.bytes);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->opts, better.opts);
    EXPECT_EQ(record->seconds, 3e-6);  // as it was measured here
    EXPECT_EQ(b_.Count("unproven"), 0u);
  }
}

// A tuner says by the code of an error whether it found something out.
TEST_F(CacheOperatorTest, OnlyAnAnswerAboutTheWinnerRemovesIt) {
  const auto bundle = Export(a_, {.store = "tuning"});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(Import(b_, *bundle)["unproven"], 3);
  for (const absl::StatusCode code :
       {absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kResourceExhausted,
        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kAborted,
        absl::StatusCode::kUnavailable}) {
    b_.tuner.proof = absl::Status(code, "not the winner's doing");
    for (const auto& verdict : Verify(b_, true, true, {.store = "unproven"}).verdicts)
      EXPECT_EQ(verdict.outcome, CacheOperator::Verdict::kNotRun) << verdict.detail;
    EXPECT_EQ(b_.Count("unproven"), 3u);
  }
}

TEST_F(CacheOperatorTest, WhatDoesNotBelongHereIsNotImported) {
  const auto bundle = Export(a_);
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  b_.tuner.name = "of another device";
  auto outcomes = Import(b_, *bundle);
  EXPECT_EQ(outcomes["other_environment"], 3);
  EXPECT_EQ(b_.Count("unproven"), 0u);
  // A graph that is not the one of its digest, and an entry of a kind that does not travel.
  cache::BundleList list;
  std::string records;
  for (const cache::Row& row :
       {cache::MakeRow(GraphKey(HashBytes("x").view()), "y", 1, 1, 0),
        cache::MakeRow(cache::Key("quarantine", "tuning", "env"), "y", 1, 1, 0)}) {
    list.items.push_back({cache::KeyOf(row).address(), row.checksum});
    records += WriteBundleRecord(row, hmac_);
  }
  outcomes = Import(b_, WriteBundleHead(list, hmac_) + records);
  EXPECT_EQ(outcomes, (std::map<std::string, int>{{"refused", 1}, {"other_store", 1}}));
}

TEST_F(CacheOperatorTest, ExportsNeedAKeyAndAChoice) {
  EXPECT_TRUE(absl::IsFailedPrecondition(CacheExport::Begin({}, *a_.op, {}, {}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Export(a_, {.store = "quarantine"}).status()));
  EXPECT_TRUE(absl::IsNotFound(Export(a_, {.environment = "nowhere"}).status()));
  // An entry that is damaged travels nowhere.
  cache::Row bad = cache::MakeRow(cache::Key("kernel", "bad", "env"), "value", 1, 1, 0);
  bad.value = "other";
  ASSERT_TRUE(a_.store.Import(bad).ok());
  EXPECT_TRUE(absl::IsDataLoss(Export(a_).status()));
  // So does a checksum that is none: of a file that was damaged, all columns come as they are.
  for (const size_t size : {size_t{0}, size_t{15}, size_t{17}, size_t{1000}}) {
    ASSERT_TRUE(a_.store.Import(WithChecksum(bad, std::string(size, 'c'))).ok());
    EXPECT_TRUE(absl::IsDataLoss(Export(a_).status())) << size;
  }
  // An entry that goes away meanwhile.
  auto bundle = CacheExport::Begin({}, *a_.op, {.sign = hmac_}, {.store = "graph"});
  ASSERT_TRUE(bundle.ok());
  ASSERT_TRUE(a_.store.Clear("graph").ok());
  EXPECT_TRUE(absl::IsAborted(bundle->Next().status()));
}

// Rows that a reader of the bundle would refuse, and with them all that follows.
TEST_F(CacheOperatorTest, EntriesThatAreTooLargeAreLeftOut) {
  TestDaemon daemon(int64_t{256} << 20);
  const cache::Key large("kernel", "large", "env");
  ASSERT_TRUE(daemon.store.Put(large, std::string(size_t{64} << 20, 'x'), 1).ok());
  EXPECT_TRUE(absl::IsNotFound(Export(daemon).status()));
  ASSERT_TRUE(daemon.store.Put(cache::Key("kernel", "small", "env"), "x", 1).ok());
  const auto bundle = CacheExport::Begin({}, *daemon.op, {.sign = hmac_}, {});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  EXPECT_EQ(bundle->entries(), 1u);
  EXPECT_EQ(bundle->left_out(), 1u);
  EXPECT_EQ(Import(b_, *Export(daemon)), (std::map<std::string, int>{{"other_environment", 1}}));
}

TEST_F(CacheOperatorTest, DraftsOfThisDaemonAreUsed) {
  const auto kernel = a_.store.ReadRow(a_.First("kernel").address);
  const cache::Key draft("draft", (*kernel)->semantic, (*kernel)->environment);
  ASSERT_TRUE(a_.store.Put(draft, (*kernel)->value, 1).ok());
  EXPECT_TRUE(a_.op->Get(draft.address().Hex())->used);
  const cache::Key foreign("draft", (*kernel)->semantic, "of another device");
  ASSERT_TRUE(a_.store.Put(foreign, (*kernel)->value, 1).ok());
  EXPECT_FALSE(a_.op->Get(foreign.address().Hex())->used);
}

}  // namespace
}  // namespace uopd::engine
