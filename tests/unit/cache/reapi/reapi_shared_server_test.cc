// SPDX-License-Identifier: MIT
// Records in a real cache of the Remote Execution API (BuildGrid), and in the fake one of the other
// tests, which must agree with it. One server for all tests of a kind: each has keys and an
// instance of its own.
#include "cache/reapi/reapi_shared_server.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>

#include "core/base/text.h"
#include "tests/support/services/fake_reapi.h"
#include "tests/support/services/service_process.h"

namespace uopd::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Long enough for a busy machine.
Deadline In(int ms = 120'000) { return steady_clock::now() + milliseconds(ms); }

class ReapiSharedServerTest : public ::testing::TestWithParam<const char*> {
 protected:
  static bool IsReal() { return GetParam() == std::string_view("buildgrid"); }
  void SetUp() override {
    if (!IsReal()) {
      fake_ = std::make_unique<test::FakeReapi>();
      return;
    }
    if (!test::HasServices()) GTEST_SKIP() << "UOPD_SERVICES names no server of BuildGrid";
    if (real_ == nullptr) {
      auto started = test::ServiceProcess::StartBuildGrid();
      ASSERT_TRUE(started.ok()) << started.status();
      real_ = *std::move(started);
    }
  }
  static void TearDownTestSuite() { real_.reset(); }
  ReapiOptions Options() const {
    const int port = IsReal() ? real_->port() : fake_->port();
    return {.url = *ParseReapiUrl(Cat("reapi://127.0.0.1:", port, "/uopd"))};
  }
  static Announcement Of(const Digest& address) {
    return {address, "kernel", HashBytes("env"), {}};
  }
  // An address of this test.
  static Digest Address(std::string_view name) {
    return HashBytes(Cat(::testing::UnitTest::GetInstance()->current_test_info()->name(), name));
  }

  static std::unique_ptr<test::ServiceProcess> real_;
  std::unique_ptr<test::FakeReapi> fake_;
};
std::unique_ptr<test::ServiceProcess> ReapiSharedServerTest::real_;

TEST_P(ReapiSharedServerTest, TheGreaterFenceStays) {
  ReapiSharedServer server(Options());
  const Digest one = Address("one"), two = Address("two");
  EXPECT_FALSE(server.coordinates());
  ASSERT_EQ(*server.Get(one, In()), std::nullopt);
  EXPECT_FALSE(*server.Has(one, In()));
  const std::string bytes("a\0b", 3);
  EXPECT_TRUE(*server.Put(Of(one), bytes, 5, Stream::kPuts, In()));
  EXPECT_TRUE(*server.Has(one, In()));
  EXPECT_EQ(**server.Get(one, In()), bytes);
  EXPECT_FALSE(*server.Put(Of(one), "older", 4, Stream::kPuts, In()));
  EXPECT_EQ(**server.Get(one, In()), bytes);
  EXPECT_TRUE(*server.Put(Of(one), "same", 5, Stream::kPuts, In()));
  EXPECT_TRUE(*server.Put(Of(one), "newer", 1'800'000'000'000'000, Stream::kPuts, In()));
  EXPECT_FALSE(*server.Put(Of(one), "one less", 1'799'999'999'999'999, Stream::kPuts, In()));
  EXPECT_EQ(**server.Get(one, In()), "newer");
  EXPECT_EQ(*server.Get(two, In()), std::nullopt);
  EXPECT_TRUE(*server.Put(Of(two), "no fence", 0, std::nullopt, In()));
  ReapiSharedServer other(Options());
  EXPECT_EQ(**other.Get(two, In()), "no fence");
}

// In the result, in one message and as a stream, and at the borders between them.
TEST_P(ReapiSharedServerTest, RecordsOfAllSizes) {
  ReapiSharedServer server(Options());
  std::mt19937 random(7);
  constexpr size_t kInline = size_t{256} << 10, kBatch = (size_t{4} << 20) - (size_t{64} << 10);
  for (const size_t size : {size_t{1}, kInline, kInline + 1, size_t{1'000'003}, kBatch, kBatch + 1,
                            size_t{9'000'001}}) {
    std::string record(size, '\0');
    for (char& c : record) c = static_cast<char>(random());
    const Digest address = Address(Cat(size));
    const auto put = server.Put(Of(address), record, 1, Stream::kPuts, In());
    ASSERT_TRUE(put.ok()) << size << " " << put.status();
    const auto got = server.Get(address, In());
    ASSERT_TRUE(got.ok()) << size << " " << got.status();
    ASSERT_TRUE(got->has_value()) << size;
    EXPECT_TRUE(**got == record) << size;
  }
}

TEST_P(ReapiSharedServerTest, TheKeysGetOlder) {
  ReapiSharedServer server(Options()), other(Options());
  const absl::StatusOr<KeysAge> first = server.AskKeysAge(In());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT(first->born_us, 1'700'000'000'000'000);
  std::this_thread::sleep_for(milliseconds(20));
  const absl::StatusOr<KeysAge> later = other.AskKeysAge(In());
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->born_us, first->born_us);
  EXPECT_GE(later->age_us, first->age_us + 20'000);
}

INSTANTIATE_TEST_SUITE_P(Servers, ReapiSharedServerTest, ::testing::Values("buildgrid", "fake"),
                         [](const auto& server) { return std::string(server.param); });

// With a server of its own, which it ends.
TEST(ReapiRealServerTest, AServerThatStopsOrIsGoneCostsTheDeadlines) {
  if (!test::HasServices()) GTEST_SKIP() << "UOPD_SERVICES names no server of BuildGrid";
  auto started = test::ServiceProcess::StartBuildGrid();
  ASSERT_TRUE(started.ok()) << started.status();
  const std::unique_ptr<test::ServiceProcess> real = *std::move(started);
  ReapiSharedServer server(
      {.url = *ParseReapiUrl(Cat("reapi://127.0.0.1:", real->port(), "/uopd"))});
  const Digest one = HashBytes("one");
  const Announcement what{one, "kernel", HashBytes("env")};
  ASSERT_TRUE(*server.Put(what, "record", 1, Stream::kPuts, In()));
  real->Pause();
  for (int i = 0; i < 3; ++i) {
    const auto got = server.Get(one, In(20));
    EXPECT_TRUE(absl::IsDeadlineExceeded(got.status())) << got.status();
  }
  real->Continue();
  EXPECT_EQ(**server.Get(one, In()), "record");
  real->Kill();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(server.Get(one, In(20)).ok());
}

}  // namespace
}  // namespace uopd::cache
