// SPDX-License-Identifier: MIT
// Machines that are not alike: daemons on other processors and with other numbers of threads share
// what was compiled wherever the code is the same, and device.cpu_features keeps a fleet to
// instructions that all its processors have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdio>

#include "tests/e2e/graphs.h"
#include "tests/e2e/shared_cache_fixture.h"
#include "tests/support/redis/redis_process.h"

namespace uopd::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Until its end the calling thread, and every process that it starts, may run on one processor
// only.
class OnProcessor {
 public:
  // `number`: counted among the processors that this process may use; the last one if there are
  // fewer.
  explicit OnProcessor(int number) {
    EXPECT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && number >= 0; ++i) {
      if (!CPU_ISSET(i, &before_)) continue;
      CPU_ZERO(&one);
      CPU_SET(i, &one);
      --number;
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  }
  ~OnProcessor() { EXPECT_EQ(sched_setaffinity(0, sizeof before_, &before_), 0); }
  OnProcessor(const OnProcessor&) = delete;
  OnProcessor& operator=(const OnProcessor&) = delete;

 private:
  cpu_set_t before_;
};

class MixedFleetTest : public SharedCacheFixture {
 protected:
  void SetUp() override {
    auto started = test::RedisProcess::Start({});
    ASSERT_TRUE(started.ok()) << started.status();
    redis_ = *std::move(started);
  }
  std::unique_ptr<DaemonProcess> Start(const std::string& name,
                                       const std::vector<std::string>& more) const {
    const std::string url = "redis://127.0.0.1:" + std::to_string(redis_->port());
    return StartWith(name, FlagsFor(url, "key"), more);
  }
  // Adds two vectors of n elements; `debug` as in ExecuteOptions.
  static v1::ExecuteResponse Add(const DaemonProcess& daemon, int64_t n, uint32_t debug = 0) {
    Client client(daemon);
    EXPECT_TRUE(client.OpenSession().ok());
    v1::Options options;
    options.set_debug(debug);
    return ExpectAdds(client, n, options);
  }

  std::unique_ptr<test::RedisProcess> redis_;
};

TEST_F(MixedFleetTest, ADaemonWithOtherProcessorsAndThreadsCompilesNothingAnew) {
  constexpr int kGraphs = 3;
  std::unique_ptr<DaemonProcess> one;
  {
    const OnProcessor first(0);
    one = Start("a", {});
  }
  for (int g = 0; g < kGraphs; ++g) Prepare(*one, SlowToCompile(200 + g, 10));
  Add(*one, 1000);
  EXPECT_EQ(Compiled(*one), kGraphs + 1);
  EXPECT_TRUE(AwaitSent(*one)) << one->Log();
  std::unique_ptr<DaemonProcess> other;
  {
    const OnProcessor second(1);
    other = Start("b", {"--device-cpu-threads=5"});
  }
  for (int g = 0; g < kGraphs; ++g) Prepare(*other, SlowToCompile(200 + g, 10));
  Add(*other, 1000);
  EXPECT_EQ(Compiled(*other), 0) << other->Log();
  EXPECT_GE(Count(*other, "uopd_cluster_lookups_total{result=\"hit\"}"), kGraphs + 1);
  // A kernel that is divided among the threads is another one for another number of them.
  Add(*one, 1 << 19);
  EXPECT_EQ(Compiled(*one), kGraphs + 2);
  EXPECT_TRUE(AwaitSent(*one)) << one->Log();
  Add(*other, 1 << 19);
  EXPECT_EQ(Compiled(*other), 1) << other->Log();
  // Who knows its choices finds the kernels on its own disk.
  other->Signal(SIGTERM);
  EXPECT_EQ(other->Wait(), 0);
  const auto again = Start("b", {"--device-cpu-threads=5"});
  for (int g = 0; g < kGraphs; ++g)
    EXPECT_EQ(Prepare(*again, SlowToCompile(200 + g, 10)).kernels_disk(), 1u);
  EXPECT_EQ(Compiled(*again), 0);
}

// Instructions of AVX begin with a v, and their wide registers are called ymm and zmm.
constexpr char kAvx[] = "[^a-z]v(add|mov|mul)[a-z]*[^a-z]|ymm|zmm";

TEST_F(MixedFleetTest, ABaselineKeepsKernelsToItsInstructions) {
  if (!__builtin_cpu_supports("sse4.2")) GTEST_SKIP() << "the processor is older than the baseline";
  const std::vector<std::string> baseline = {"--device-cpu-features=x86-64-v2"};
  const auto plain = Start("a", baseline);
  Client client(*plain);
  v1::HelloResponse hello;
  grpc::ClientContext context;
  ASSERT_TRUE(client.stub().Hello(&context, {}, &hello).ok());
  EXPECT_EQ(hello.devices(0).baseline(), "x86-64-v2");
  for (const int64_t n : {1, 1000}) Add(*plain, n);
  EXPECT_EQ(Compiled(*plain), 2);
  EXPECT_TRUE(AwaitSent(*plain)) << plain->Log();
  // A daemon with all instructions has kernels of its own.
  const auto all = Start("b", {});
  for (const int64_t n : {1, 1000}) Add(*all, n);
  EXPECT_EQ(Compiled(*all), 2);
  // One with the same baseline has not, whatever else differs.
  const auto same = Start("c", {baseline[0], "--device-cpu-threads=3"});
  for (const int64_t n : {1, 1000}) Add(*same, n);
  EXPECT_EQ(Compiled(*same), 0) << same->Log();
  // The kernel of one element is a single function, so its assembly is all of it.
  for (const DaemonProcess* daemon : {plain.get(), same.get()}) {
    const std::string text = Add(*daemon, 1, 6).debug_text();
    EXPECT_THAT(text, AllOf(HasSubstr("  assembly:\n"), HasSubstr("addss")));
    EXPECT_THAT(text, Not(ContainsRegex(kAvx)));
    // Its registers have four lanes.
    EXPECT_THAT(Add(*daemon, 1000, 6).debug_text(),
                AllOf(HasSubstr("<4 x float>"), Not(HasSubstr("<8 x float>")),
                      Not(HasSubstr("<16 x float>"))));
  }
  if (__builtin_cpu_supports("avx2")) {
    EXPECT_THAT(Add(*all, 1, 6).debug_text(), ContainsRegex(kAvx));
  }
}

TEST_F(MixedFleetTest, ABaselineThatCannotHoldStopsTheStart) {
  const auto output = [&](const std::string& features) {
    const std::string line = std::string(UOPD_BINARY) +
                             " --listen=127.0.0.1:0 --data-dir=" + File("data") +
                             " '--device-cpu-features=" + features + "' 2>&1";
    FILE* pipe = popen(line.c_str(), "r");
    std::string out;
    for (int c; (c = fgetc(pipe)) != EOF;) out += static_cast<char>(c);
    return out + "exit " + std::to_string(WEXITSTATUS(pclose(pipe)));
  };
  EXPECT_THAT(output("avx2,avx3"),
              AllOf(HasSubstr("device.cpu_features"), HasSubstr("\"avx3\""), HasSubstr("exit 2")));
  EXPECT_THAT(output("x86-64-v9"), AllOf(HasSubstr("\"x86-64-v9\""), HasSubstr("exit 2")));
  // Nobody has both.
  const char* missing = __builtin_cpu_supports("sse4a") ? "amx-tile" : "sse4a";
  EXPECT_THAT(output(std::string("x86-64,") + missing),
              AllOf(HasSubstr(std::string("has no ") + missing), HasSubstr("exit 2")));
}

}  // namespace
}  // namespace uopd::e2e
