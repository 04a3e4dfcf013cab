// SPDX-License-Identifier: MIT
// Stores that share records by a cache of the Remote Execution API which is slow, gone, full,
// forgetful or lying: that costs time and compiles, and never a wrong value.
#include <gtest/gtest.h>

#include <random>

#include "cache/memory/memory_leases.h"
#include "cache/memory/memory_tier.h"
#include "cache/reapi/reapi_shared_server.h"
#include "cache/store.h"
#include "core/base/text.h"
#include "tests/support/eventually.h"
#include "tests/support/services/certificates.h"
#include "tests/support/services/fake_reapi.h"
#include "tests/unit/cache/cluster/key_files.h"

namespace uopd::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Deadline Soon() { return steady_clock::now() + std::chrono::seconds(10); }

std::string RandomBytes(size_t size) {
  std::mt19937 random(static_cast<uint32_t>(size));
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

class ReapiFaultTest : public KeyFiles {
 protected:
  void SetUp() override { Restart({}); }
  void Restart(const test::FakeReapiOptions& options) {
    fake_ = std::make_unique<test::FakeReapi>(options);
  }
  ReapiOptions Options(std::string_view user = "") const {
    return {.url = *ParseReapiUrl(Cat("reapi://", user, "127.0.0.1:", fake_->port(), "/uopd"))};
  }
  std::unique_ptr<Store> Open(const RefillOptions& refill = {},
                              milliseconds budget = milliseconds(5'000)) const {
    ClusterOptions options{.sign = hmac_,
                           .trusted = {hmac_},
                           .budget = budget,
                           .send_budget = std::chrono::seconds(10)};
    options.breaker = {.failures = 3, .pause_us = 20'000, .max_pause_us = 40'000};
    auto cluster = std::make_unique<Cluster>(std::make_unique<ReapiSharedServer>(Options()),
                                             std::move(options));
    auto stats = std::make_unique<StatsTable>();
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(std::make_unique<MemoryTier>(int64_t{64} << 20, WallClockUs, *stats));
    return std::make_unique<Store>(std::move(stats), std::move(tiers),
                                   std::make_unique<MemoryLeases>(WallClockUs), WallClockUs,
                                   std::move(cluster), refill);
  }
  static Key KeyOf(int i) { return Key("kernel", Cat("graph ", i), "env"); }
  static int64_t Refused(const Store& store, RecordFault fault) {
    return store.maybe_cluster()->stats().refused[static_cast<size_t>(fault)];
  }
  void Share(int i, const std::string& value) const {
    const auto store = Open();
    ASSERT_TRUE(store->Put(KeyOf(i), value, 10).ok());
    ASSERT_TRUE(store->Flush().ok());
    ASSERT_EQ(store->maybe_cluster()->stats().puts, 1);
  }

  std::unique_ptr<test::FakeReapi> fake_;
};

TEST_F(ReapiFaultTest, OneStoreReadsWhatTheOtherPut) {
  const auto a = Open(), b = Open();
  const LeaseResult lease = a->TryLease(KeyOf(1), "a", 10'000'000);
  ASSERT_TRUE(lease.granted());
  EXPECT_TRUE(b->TryLease(KeyOf(1), "b", 10'000'000).granted()) << "of another machine";
  ASSERT_TRUE(a->PutFenced(KeyOf(1), "value", 10, lease.token).ok());
  ASSERT_TRUE(a->Flush().ok());
  const GetResult found = b->Get(KeyOf(1));
  ASSERT_TRUE(found.hit());
  EXPECT_EQ(found.source, Source::kCluster);
  EXPECT_EQ(found.entry.bytes, "value");
  EXPECT_EQ(b->Get(KeyOf(1)).source, Source::kMemory) << "the row is its own now";
  EXPECT_EQ(b->Get(KeyOf(2)).outcome, GetOutcome::kMiss);
}

TEST_F(ReapiFaultTest, ASlowServerCostsItsBudgetAndThenNothing) {
  Share(1, "value");
  const auto store = Open({}, milliseconds(20));
  ASSERT_TRUE(test::Eventually([&] { return store->Get(KeyOf(1)).hit(); })) << "once connected";
  fake_->SetDelay(milliseconds(2'000));
  const int before = fake_->calls();
  for (int i = 0; i < 40; ++i) EXPECT_EQ(store->Get(KeyOf(100 + i)).outcome, GetOutcome::kMiss);
  EXPECT_LT(fake_->calls() - before, 20) << "the breaker opened";
  EXPECT_FALSE(store->maybe_cluster()->server()->reachable());
  fake_->SetDelay(milliseconds(0));
  EXPECT_TRUE(test::Eventually([&] {
    std::ignore = store->Get(KeyOf(7));
    return store->maybe_cluster()->server()->reachable();
  }));
}

TEST_F(ReapiFaultTest, AFullServerStillAnswersLookups) {
  Share(1, "value");
  fake_->SetWriteStatus({grpc::RESOURCE_EXHAUSTED, "no room for the secret"});
  const auto store = Open();
  ASSERT_TRUE(store->Put(KeyOf(2), "small", 1).ok());
  ASSERT_TRUE(store->Put(KeyOf(3), RandomBytes(400'000), 1).ok());
  ASSERT_TRUE(store->Put(KeyOf(4), RandomBytes(5'000'000), 1).ok());
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_TRUE(test::Eventually([&] { return store->maybe_cluster()->stats().dropped == 3; }));
  EXPECT_TRUE(store->maybe_cluster()->server()->reachable());
  EXPECT_TRUE(store->Get(KeyOf(1)).hit());
  const absl::Status status =
      ReapiSharedServer(Options()).Put({}, "record", 1, Stream::kPuts, Soon()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(status.message().find("secret"), std::string::npos) << "the server's words stay away";
}

TEST_F(ReapiFaultTest, AServerThatTakesNothingIsReadOnly) {
  Restart({.update_enabled = false});
  const auto store = Open();
  ASSERT_TRUE(store->Put(KeyOf(1), "value", 1).ok());
  EXPECT_TRUE(test::Eventually([&] { return store->maybe_cluster()->stats().dropped == 1; }));
  EXPECT_TRUE(store->maybe_cluster()->server()->reachable());
  EXPECT_EQ(fake_->results(), 0u);
}

TEST_F(ReapiFaultTest, AServerWithoutTheDigestFunctionIsNotUsed) {
  Restart({.has_sha256 = false});
  EXPECT_TRUE(
      absl::IsUnavailable(ReapiSharedServer(Options()).Get(KeyOf(1).address(), Soon()).status()));
}

TEST_F(ReapiFaultTest, SpoiledRecordsAreRefused) {
  const std::string small = "value", medium = RandomBytes(400'000), large = RandomBytes(5'000'000);
  Share(1, small);
  Share(2, medium);
  Share(3, large);
  struct Case {
    std::function<void(std::string&)> spoil;
    RecordFault fault;
  };
  const Case cases[] = {
      {[](std::string& bytes) { bytes.pop_back(); }, RecordFault::kSignature},
      {[](std::string& bytes) { bytes.resize(bytes.size() / 2); }, RecordFault::kSignature},
      {[](std::string& bytes) { bytes[bytes.size() / 2] ^= 1; }, RecordFault::kSignature},
      {[](std::string& bytes) { bytes += 'x'; }, RecordFault::kSignature},
      {[](std::string& bytes) { bytes = "nonsense"; }, RecordFault::kForeign},
      {[](std::string& bytes) { bytes.clear(); }, RecordFault::kForeign}};
  for (const Case& one : cases) {
    fake_->SetSpoil(one.spoil);
    const auto store = Open();
    for (int i = 1; i <= 3; ++i) EXPECT_EQ(store->Get(KeyOf(i)).outcome, GetOutcome::kMiss) << i;
    EXPECT_EQ(Refused(*store, one.fault), 3) << Name(one.fault);
    EXPECT_TRUE(store->maybe_cluster()->server()->reachable());
  }
  fake_->SetSpoil(nullptr);
  const auto store = Open();
  EXPECT_EQ(store->Get(KeyOf(1)).entry.bytes, small);
  EXPECT_TRUE(store->Get(KeyOf(2)).entry.bytes == medium);
  EXPECT_TRUE(store->Get(KeyOf(3)).entry.bytes == large);
  EXPECT_GT(fake_->streams(), 0);
}

TEST_F(ReapiFaultTest, ARecordOfAnotherKeyIsRefused) {
  Share(1, "one");
  ReapiSharedServer server(Options());
  const std::string record = **server.Get(KeyOf(1).address(), Soon());
  fake_->SetSpoil([&](std::string& bytes) { bytes = record; });
  Share(2, "two");
  const auto store = Open();
  EXPECT_EQ(store->Get(KeyOf(2)).outcome, GetOutcome::kMiss);
  EXPECT_EQ(Refused(*store, RecordFault::kOtherKey), 1);
}

TEST_F(ReapiFaultTest, NamesOfBlobsThatCannotBe) {
  Share(1, RandomBytes(400'000));
  struct Case {
    std::string hash;
    int64_t size;
  };
  const std::string other = HashBytes("another blob").Hex();
  const Case cases[] = {
      {other, 12}, {other, 9'000'000},           {other, 0}, {other, -1}, {other, INT64_MAX},
      {"", 5},     {"../../etc/passwd", 400'000}};
  for (const Case& one : cases) {
    fake_->SetSpoilResult([&](reapi::ActionResult& result) {
      result.mutable_stdout_digest()->set_hash(one.hash);
      result.mutable_stdout_digest()->set_size_bytes(one.size);
    });
    const auto store = Open();
    EXPECT_EQ(store->Get(KeyOf(1)).outcome, GetOutcome::kMiss) << one.hash << " " << one.size;
    EXPECT_TRUE(store->maybe_cluster()->server()->reachable());
  }
  fake_->SetSpoilResult([](reapi::ActionResult& result) {
    result.Clear();
    result.set_stderr_raw("99999999999999999999999");
  });
  const auto store = Open();
  EXPECT_EQ(store->Get(KeyOf(1)).outcome, GetOutcome::kMiss);
  EXPECT_EQ(Refused(*store, RecordFault::kForeign), 1);
  EXPECT_TRUE(*ReapiSharedServer(Options()).Put({.address = KeyOf(1).address()}, "r", 1,
                                                Stream::kPuts, Soon()))
      << "no number is no fence";
}

// A stream that says that it is short, and is not, is given up: nobody keeps what it sends.
TEST_F(ReapiFaultTest, AStreamThatDoesNotEndIsGivenUp) {
  Restart({.max_batch_bytes = 100'000});
  Share(1, RandomBytes(400'000));
  ASSERT_GT(fake_->streams(), 0);
  fake_->SetSpoil([](std::string& bytes) { bytes.resize(size_t{32} << 20); });
  const auto got = ReapiSharedServer(Options()).Get(KeyOf(1).address(), Soon());
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_TRUE(got->has_value());
  EXPECT_LT((*got)->size(), size_t{2} << 20);
}

TEST_F(ReapiFaultTest, ABlobThatWasDroppedIsAMiss) {
  Share(1, RandomBytes(400'000));
  fake_->ClearBlobs();
  const auto store = Open();
  EXPECT_EQ(store->Get(KeyOf(1)).outcome, GetOutcome::kMiss);
  EXPECT_EQ(store->maybe_cluster()->stats().unavailable, 0);
}

TEST_F(ReapiFaultTest, AServerMayMoveTheOutputIntoABlob) {
  Restart({.moves_output = true});
  Share(1, "value");
  EXPECT_GE(fake_->blobs(), 2u);
  EXPECT_EQ(Open()->Get(KeyOf(1)).entry.bytes, "value");
  ReapiSharedServer server(Options());
  const Announcement what{.address = KeyOf(2).address()};
  EXPECT_TRUE(*server.Put(what, "newer", 5, Stream::kPuts, Soon()));
  EXPECT_FALSE(*server.Put(what, "older", 4, Stream::kPuts, Soon())) << "the fence is found there";
  const auto first = server.AskKeysAge(Soon());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(server.AskKeysAge(Soon())->born_us, first->born_us);
}

TEST_F(ReapiFaultTest, AServerThatLostItsDiskIsFilledAgain) {
  const RefillOptions often{.look = milliseconds(5)};
  const auto a = Open(often), b = Open(often);
  ASSERT_TRUE(a->Put(KeyOf(1), "one", 1).ok());
  ASSERT_TRUE(b->Put(KeyOf(2), "two", 1).ok());
  ASSERT_TRUE(a->Flush().ok());
  ASSERT_TRUE(b->Flush().ok());
  fake_->Clear();
  EXPECT_TRUE(test::Eventually([&] { return fake_->results() == 3; })) << "and the time of birth";
  const auto c = Open();
  EXPECT_EQ(c->Get(KeyOf(1)).entry.bytes, "one");
  EXPECT_EQ(c->Get(KeyOf(2)).entry.bytes, "two");
}

TEST_F(ReapiFaultTest, PasswordsAreHeaders) {
  ReapiOptions options = Options("joe@");
  options.password = "hunter2";
  EXPECT_TRUE(ReapiSharedServer(options).Get(KeyOf(1).address(), Soon()).ok());
  EXPECT_EQ(fake_->last_authorization(), "Basic am9lOmh1bnRlcjI=");
  options = Options();
  options.password = "hunter2";
  EXPECT_TRUE(ReapiSharedServer(options).Get(KeyOf(1).address(), Soon()).ok());
  EXPECT_EQ(fake_->last_authorization(), "Bearer hunter2");
  fake_->SetReadStatus({grpc::UNAUTHENTICATED, "not hunter2"});
  const absl::Status status = ReapiSharedServer(options).Get(KeyOf(1).address(), Soon()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(status.message().find("hunter2"), std::string::npos) << status;
}

TEST_F(ReapiFaultTest, TlsChecksTheServer) {
  ASSERT_TRUE(test::MakeCertificates(folder_).ok());
  const auto text = [&](const char* name) {
    std::ostringstream out;
    out << std::ifstream(folder_ + "/" + name).rdbuf();
    return out.str();
  };
  Restart({.certificates = folder_});
  ReapiOptions options{.url = *ParseReapiUrl(Cat("reapis://127.0.0.1:", fake_->port())),
                       .ca = text("ca.pem")};
  const auto got = ReapiSharedServer(options).Get(KeyOf(1).address(), Soon());
  ASSERT_TRUE(got.ok()) << got.status();
  const auto second = [] { return steady_clock::now() + std::chrono::seconds(1); };
  options.ca = "";  // the machine's own certificates
  EXPECT_FALSE(ReapiSharedServer(options).Get(KeyOf(1).address(), second()).ok());
  options.url.tls = false;
  EXPECT_FALSE(ReapiSharedServer(options).Get(KeyOf(1).address(), second()).ok());
}

}  // namespace
}  // namespace uopd::cache
