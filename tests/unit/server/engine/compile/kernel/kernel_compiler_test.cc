// SPDX-License-Identifier: MIT
#include "server/engine/compile/kernel/kernel_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <latch>
#include <thread>

#include "core/base/text.h"
#include "server/worker/fork/fork_loop.h"
#include "server/worker/job/compile_job.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;
using worker::ForkServer;
using worker::Supervisor;

std::unique_ptr<ForkServer> forks;

// A compiler that does what its source says.
absl::StatusOr<std::string> Compile(worker::WorkerState&, std::string_view payload) {
  UOPD_ASSIGN(const auto request, worker::CompileRequest::Decode(payload));
  if (request.source == "crash") {
    signal(SIGSEGV, SIG_DFL);  // sanitizers handle it
    raise(SIGSEGV);
  }
  if (request.source == "be killed") raise(SIGKILL);
  if (request.source == "hang") {
    for (;;) pause();
  }
  if (request.source == "refuse") return absl::UnimplementedError("not on this machine");
  return Cat("object by ", getpid());
}

class KernelCompilerTest : public testing::Test {
 protected:
  static Supervisor::Options Pool() {
    Supervisor::Options options;
    options.max_workers = 2;
    return options;
  }
  absl::StatusOr<std::string> Compile(const std::string& source) {
    return compiler_.Compile(device_->device(), "r_3_4", source);
  }

  DeviceSet devices_{NullRegistry()};
  DeviceState* const device_ = *devices_.Get("");
  Supervisor supervisor_{*forks, Pool()};
  KernelCompiler compiler_{&supervisor_, std::chrono::milliseconds(20'000)};
};

TEST_F(KernelCompilerTest, CompilesInAnotherProcess) {
  const auto object = Compile("text");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_THAT(*object, HasSubstr("object by "));
  EXPECT_NE(*object, Cat("object by ", getpid()));
}

TEST_F(KernelCompilerTest, ACrashIsInternalAndNotTriedAgain) {
  const auto crashed = Compile("crash");
  EXPECT_TRUE(absl::IsInternal(crashed.status()));
  EXPECT_THAT(StatusText(crashed.status()), HasSubstr("kernel r_3_4"));
  EXPECT_THAT(StatusText(crashed.status()), HasSubstr("SIGSEGV"));
  const uint64_t spawned = supervisor_.stats().spawned;
  const auto again = Compile("crash");
  EXPECT_TRUE(absl::IsInternal(again.status()));
  EXPECT_THAT(StatusText(again.status()), HasSubstr("quarantine"));
  EXPECT_EQ(supervisor_.stats().spawned, spawned);
  EXPECT_TRUE(Compile("text").ok());
}

TEST_F(KernelCompilerTest, ARunawayIsEnded) {
  KernelCompiler hasty(&supervisor_, std::chrono::milliseconds(50));
  const auto object = hasty.Compile(device_->device(), "r_3_4", "hang");
  EXPECT_TRUE(absl::IsInternal(object.status()));
  EXPECT_THAT(StatusText(object.status()), HasSubstr("time limit"));
}

TEST_F(KernelCompilerTest, WhatTheCompilerSaysKeepsItsCode) {
  const auto refused = Compile("refuse");
  EXPECT_TRUE(absl::IsUnimplemented(refused.status()));
  EXPECT_THAT(StatusText(refused.status()), HasSubstr("while compiling kernel r_3_4"));
}

TEST_F(KernelCompilerTest, StopEndsWhatRuns) {
  std::thread call([&] { EXPECT_TRUE(absl::IsCancelled(Compile("hang").status())); });
  while (supervisor_.stats().spawned == 0) std::this_thread::yield();
  compiler_.Stop();
  call.join();
  EXPECT_TRUE(absl::IsCancelled(Compile("text").status()));
  EXPECT_EQ(supervisor_.quarantine().size(), 0u);
}

TEST_F(KernelCompilerTest, WhatNobodyWaitsForIsEndedAndNobodyIsBlamed) {
  const auto compile = [&](const WorkLimits& limits) {
    return compiler_.Compile(device_->device(), "r_3_4", "hang", limits).status();
  };
  const absl::Status late =
      compile({.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  const uint64_t spawned = supervisor_.stats().spawned;
  const absl::Status left =
      compile({.cancelled = [&] { return supervisor_.stats().spawned > spawned; }});
  EXPECT_TRUE(absl::IsCancelled(left)) << left;
  EXPECT_EQ(supervisor_.quarantine().size(), 0u);
  EXPECT_TRUE(Compile("text").ok());
}

TEST_F(KernelCompilerTest, WithoutWorkersItCompilesHere) {
  KernelCompiler here(nullptr, std::chrono::milliseconds(1));
  EXPECT_EQ(here.Compile(device_->device(), "k", "text").value(), "text");  // what NULL does
  const auto empty = here.Compile(device_->device(), "k", "");
  EXPECT_THAT(StatusText(empty.status()), HasSubstr("while compiling kernel k"));
}

TEST_F(KernelCompilerTest, WhenNoWorkerCanBeHadItIsUnavailable) {
  ForkServer::Options options;
  options.program = "/does/not/exist";
  options.await_limit = std::chrono::milliseconds(1);
  const auto none = ForkServer::Start(options).value();
  Supervisor pool(*none, Pool());
  KernelCompiler compiler(&pool, std::chrono::milliseconds(20'000));
  const auto object = compiler.Compile(device_->device(), "r_3_4", "text");
  EXPECT_TRUE(absl::IsUnavailable(object.status())) << object.status();
  EXPECT_THAT(StatusText(object.status()), HasSubstr("kernel r_3_4"));
}

TEST_F(KernelCompilerTest, KillsFromOutsideAreNotTheKernelsFault) {
  const auto object = Compile("be killed");
  EXPECT_TRUE(absl::IsUnavailable(object.status())) << object.status();
  EXPECT_TRUE(absl::IsUnavailable(Compile("be killed").status()));
  EXPECT_TRUE(supervisor_.quarantine().entries().at(0).passing());
}

}  // namespace
}  // namespace uopd::engine

int main(int argc, char** argv) {
  using uopd::engine::Compile;
  uopd::worker::BecomeForkServer(argc, argv, {{uopd::worker::CompileRequest::kJob, Compile}});
  testing::InitGoogleTest(&argc, argv);
  uopd::engine::forks = uopd::worker::ForkServer::Start().value();
  const int rc = RUN_ALL_TESTS();
  uopd::engine::forks.reset();
  return rc;
}
