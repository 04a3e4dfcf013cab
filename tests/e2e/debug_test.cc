// SPDX-License-Identifier: MIT
// DEBUG=1..7 and profiles as clients see them: who gets which text, and what is in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "core/base/digest.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSize = 1000;

class DebugTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon_.running());
    ASSERT_TRUE(client_.OpenSession().ok());
  }

  // Adds two vectors of `n` elements and checks the result.
  v1::ExecuteResponse Add(uint32_t debug, bool profile = false, int64_t n = kSize,
                          uint64_t request_id = 0) {
    v1::Options options;
    options.set_debug(debug);
    options.set_profile(profile);
    return ExpectAdds(client_, n, options, request_id);
  }

  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path()};
  Client client_{daemon_};
};

TEST_F(DebugTest, EveryLevelAddsText) {
  EXPECT_EQ(Add(0).debug_text(), "");
  const std::string one = Add(1).debug_text();
  EXPECT_THAT(one, ContainsRegex("^run of 1 kernels: [0-9.]+ us, [0-9.]+ us in kernels"));
  EXPECT_THAT(one, Not(HasSubstr("GFLOPS")));
  const std::string two = Add(2).debug_text();
  EXPECT_THAT(
      two,
      ContainsRegex("^ +0  e_[0-9a-z_]+ +CPU:0 +[0-9.]+ us +[0-9.]+ GFLOPS +[0-9.]+ GB/s +[0-9.]+ "
                    "% of roof\nrun of 1 kernels"));
  EXPECT_THAT(two, Not(HasSubstr("opts")));
  const std::string three = Add(3).debug_text();
  EXPECT_THAT(three,
              ContainsRegex("^kernel e_[0-9a-z_]+ on CPU:0\n  opts \\[.*\\]\n  buffer 0: 1000 x "
                            "f32, written\n  buffer 1: 1000 x f32, read\n"));
  EXPECT_THAT(three, Not(HasSubstr("source:")));
  const std::string four = Add(4).debug_text();
  EXPECT_THAT(four, AllOf(HasSubstr("  source:\n"), HasSubstr("define void @e_"), HasSubstr("fadd"),
                          Not(HasSubstr("  lines:\n"))));
  const std::string five = Add(5).debug_text();
  EXPECT_THAT(five, AllOf(HasSubstr("  source:\n"), HasSubstr("  lines:\n"), HasSubstr("LINEAR"),
                          Not(HasSubstr("  assembly:\n"))));
  const std::string six = Add(6).debug_text();
  EXPECT_THAT(six,
              AllOf(HasSubstr("  assembly:\n"), HasSubstr("ret"), Not(HasSubstr("  graph:\n"))));
  EXPECT_THAT(Add(7).debug_text(), AllOf(HasSubstr("  graph:\n"), HasSubstr("SINK")));
  EXPECT_THAT(Add(1000).debug_text(), HasSubstr("  graph:\n"));  // as much as there is
}

TEST_F(DebugTest, NobodyElseGetsTheText) {
  Client other(daemon_);
  ASSERT_TRUE(other.OpenSession().ok());
  EXPECT_NE(Add(7).debug_text(), "");
  const Executed executed = other.Execute(
      "", AddGraph(kSize),
      {Returned(), Data(Bytes(Scattered(kSize, 1))), Data(Bytes(Scattered(kSize, 2)))});
  ASSERT_TRUE(executed.status.ok());
  EXPECT_EQ(executed.response.debug_text(), "");
  EXPECT_FALSE(executed.response.has_profile());
  EXPECT_THAT(daemon_.Log(), AllOf(Not(HasSubstr("define void")), Not(HasSubstr("msg=kernel "))));
}

TEST_F(DebugTest, RunReturnsItToo) {
  v1::RunRequest request;
  request.set_graph(AddGraph(kSize));
  *request.add_arguments() = Returned();
  *request.add_arguments() = Data(Bytes(Scattered(kSize, 1)));
  *request.add_arguments() = Data(Bytes(Scattered(kSize, 2)));
  request.mutable_options()->set_debug(2);
  request.mutable_options()->set_profile(true);
  v1::RunResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(client_.stub().Run(&context, request, &response).ok());
  EXPECT_THAT(response.debug_text(), HasSubstr("% of roof"));
  EXPECT_EQ(response.profile().kernels_size(), 1);
}

TEST_F(DebugTest, AProfileHasTimesWorkAndRoofs) {
  constexpr int64_t kMany = 1 << 20;
  const v1::ExecuteResponse response = Add(0, true, kMany);
  EXPECT_EQ(response.debug_text(), "");
  const v1::Profile& profile = response.profile();
  ASSERT_EQ(profile.kernels_size(), 1);
  const v1::KernelProfile& kernel = profile.kernels(0);
  EXPECT_EQ(kernel.device(), "CPU:0");
  EXPECT_THAT(kernel.opts(), HasSubstr("VECTOR"));
  EXPECT_EQ(kernel.flops(), 1.0 * kMany);
  EXPECT_EQ(kernel.bytes(), 12.0 * kMany);
  EXPECT_GT(kernel.us(), 0);
  EXPECT_LE(kernel.us(), response.timings().run_us());
  EXPECT_DOUBLE_EQ(profile.kernels_us(), kernel.us());
  ASSERT_EQ(profile.roofs_size(), 1);
  const v1::DeviceRoof& roof = profile.roofs(0);
  EXPECT_EQ(roof.device(), "CPU:0");
  EXPECT_GT(roof.memory_bytes_per_s(), 1e8);
  EXPECT_GT(roof.cache_bytes_per_s(), 1e8);
  ASSERT_EQ(roof.dtypes_size(), 1);
  EXPECT_GT(roof.dtypes(0).ops_per_s(), 1e9);
  const double rate = kernel.bytes() <= roof.cache_bytes()
                          ? std::max(roof.cache_bytes_per_s(), roof.memory_bytes_per_s())
                          : roof.memory_bytes_per_s();
  EXPECT_NEAR(kernel.roof_us(),
              1e6 * std::max(kernel.bytes() / rate, kernel.flops() / roof.dtypes(0).ops_per_s()),
              1e-3 * kernel.roof_us());
  // A device is measured once.
  const v1::ExecuteResponse again = Add(0, true, kMany);
  EXPECT_EQ(again.profile().roofs(0).SerializeAsString(), roof.SerializeAsString());
}

TEST_F(DebugTest, ARepeatedRequestIsNotReported) {
  EXPECT_NE(Add(2, true, kSize, 5).debug_text(), "");
  const v1::ExecuteResponse repeated = Add(2, true, kSize, 5);
  EXPECT_EQ(repeated.debug_text(), "");
  EXPECT_FALSE(repeated.has_profile());
}

TEST_F(DebugTest, LargeKernelsHaveLongTextWithinTheLimit) {
  v1::RunRequest request;
  request.set_graph(SlowToCompile(0, 150));
  *request.add_arguments() = Returned();
  *request.add_arguments() = Data(Bytes(Scattered(16, 3)));
  v1::RunResponse response;
  {
    grpc::ClientContext context;
    const grpc::Status status = client_.stub().Run(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  request.mutable_options()->set_debug(7);
  grpc::ClientContext context;
  ASSERT_TRUE(client_.stub().Run(&context, request, &response).ok());
  EXPECT_GT(response.debug_text().size(), 1u << 14);
  EXPECT_LE(response.debug_text().size(), 1u << 20);
}

// The output of uopctl, standard error included.
std::string Uopctl(const DaemonProcess& daemon, const std::string& environment,
                   const std::string& arguments) {
  FILE* pipe = popen((environment + " " UOPCTL_BINARY " --address=" + daemon.listen() + " " +
                      arguments + " " UOPD_SOURCE_DIR "/docs/examples/matmul.uop 2>&1")
                         .c_str(),
                     "r");
  EXPECT_NE(pipe, nullptr);
  if (pipe == nullptr) return "";
  std::string out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  EXPECT_EQ(pclose(pipe), 0) << out;
  return out;
}

TEST_F(DebugTest, UopctlShowsTextAndProfiles) {
  EXPECT_THAT(
      Uopctl(daemon_, "DEBUG=2", "run"),
      AllOf(HasSubstr("a2 f32 (3, 2)"), HasSubstr("% of roof"), HasSubstr("run of 1 kernels")));
  EXPECT_THAT(Uopctl(daemon_, "DEBUG=0", "run"), Not(HasSubstr("run of")));
  EXPECT_THAT(Uopctl(daemon_, "", "profile --runs=3"),
              AllOf(ContainsRegex("\n +1 +[0-9.]+ +100 % .* CPU:0 +r_3_2_4_"),
                    ContainsRegex("\nkernels [0-9.]+ us; between kernels [0-9.]+ us; "),
                    ContainsRegex("\nroof of CPU:0: f32 [0-9.]+ GFLOPS, memory [0-9.]+ GB/s")));
  EXPECT_THAT(Uopctl(daemon_, "", "--json profile"), HasSubstr("\"launches\":1"));
}

TEST(DebugLevelTest, TheSettingWritesToTheLogAndToNoClient) {
  const TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--debug-level=6"});
  ASSERT_TRUE(daemon.running());
  Client client(daemon);
  ASSERT_TRUE(client.OpenSession().ok());
  for (int i = 0; i < 2; ++i) {
    const Executed executed = client.Execute(
        "", AddGraph(kSize),
        {Returned(), Data(Bytes(Scattered(kSize, 1))), Data(Bytes(Scattered(kSize, 2)))});
    ASSERT_TRUE(executed.status.ok());
    EXPECT_EQ(executed.response.debug_text(), "");
  }
  EXPECT_THAT(daemon.Log(), ContainsRegex("msg=kernel step=0 name=e_[0-9a-z_]+ us="));
  ASSERT_TRUE(
      test::Eventually([&] { return daemon.Log().find("kernel code") != std::string::npos; }));
  const std::string log = daemon.Log();
  EXPECT_THAT(log, HasSubstr("define void @e_"));
  const size_t first = log.find("kernel code");
  EXPECT_EQ(log.find("kernel code", first + 1), std::string::npos) << "code is logged once";
}

}  // namespace
}  // namespace uopd::e2e
