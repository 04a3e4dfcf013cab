// SPDX-License-Identifier: MIT
// Programs that run to their end.
#include "devices/gpu/run_program.h"

#include <gtest/gtest.h>

namespace uopd::devices::gpu {
namespace {

TEST(RunProgramTest, PassesInputAndOutput) {
  const std::string input(300'000, 'x');
  const ProgramEnd end =
      RunProgram("/bin/sh", {"-c", "cat; echo problem >&2; exit 3"}, input).value();
  EXPECT_EQ(end.exit_status, 3);
  EXPECT_EQ(end.output, input);
  EXPECT_EQ(end.errors, "problem\n");
  EXPECT_EQ(RunProgram("/bin/sh", {"-c", "kill -SEGV $$"}, "").value().exit_status, 128 + 11);
  EXPECT_EQ(RunProgram("/nowhere/uopd-ptxc", {}, "").status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace uopd::devices::gpu
