// SPDX-License-Identifier: MIT
#include "core/base/machine/process_limits.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>

#include "tests/support/fake_tree.h"

namespace uopd {
namespace {

// What a process may use in the only group of a fake machine.
ProcessLimits In(const std::string& memory_max, const std::string& cpu_max) {
  test::FakeTree tree;
  tree.File("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  tree.File("/proc/self/cgroup", "0::/g\n");
  tree.File("/sys/fs/cgroup/g/memory.max", memory_max);
  tree.File("/sys/fs/cgroup/g/cpu.max", cpu_max);
  return ProcessLimits::Read(ControlGroups::Find(tree.root()));
}

TEST(ProcessLimits, MemoryIsTheSmallerOfGroupAndMachine) {
  const ProcessLimits none = In("max", "max");
  EXPECT_GT(none.machine_bytes, 64 << 20);
  EXPECT_EQ(none.memory_bytes(), none.machine_bytes);
  EXPECT_EQ(none.MemoryText(), BytesText(none.machine_bytes) + " (RAM)");
  const ProcessLimits some = In("33554432", "max");
  EXPECT_EQ(some.memory_bytes(), 32 << 20);
  EXPECT_EQ(some.MemoryText(), "32 MiB (cgroup /g)");
  EXPECT_FALSE(In("1000000000000000", "max").memory) << "more than the RAM is no limit";
}

TEST(ProcessLimits, ProcessorsAreTheSmallerOfQuotaAndAffinity) {
  ProcessLimits limits;
  limits.affinity = 8;
  EXPECT_EQ(limits.processors(), 8);
  EXPECT_EQ(limits.ProcessorsText(), "8 (affinity)");
  for (const auto& [quota, processors] :
       {std::pair(0.01, 1), {0.5, 1}, {1.0, 1}, {1.01, 2}, {2.0, 2}, {7.5, 8}, {100.0, 8}}) {
    limits.quota = ControlGroups::Processors{quota, "/g"};
    EXPECT_EQ(limits.processors(), processors) << quota;
  }
  limits.quota = ControlGroups::Processors{1.5, "/g"};
  EXPECT_EQ(limits.ProcessorsText(), "2 (quota of cgroup /g)");
  EXPECT_EQ(In("max", "1000 100000").processors(), 1);
  EXPECT_FALSE(In("max", "100000000 100").quota) << "more than the affinity is no limit";
}

TEST(ProcessLimits, AffinityIsThatOfTheThread) {
  int all = 0, one = 0;
  std::thread([&] {
    all = AffinityProcessors();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    one = AffinityProcessors();
  }).join();
  EXPECT_GE(all, 1);
  EXPECT_EQ(one, 1);
}

TEST(ProcessLimits, SizesAreTextForPeople) {
  EXPECT_EQ(BytesText(0), "0 bytes");
  EXPECT_EQ(BytesText(1023), "1023 bytes");
  EXPECT_EQ(BytesText(1024), "1 KiB");
  EXPECT_EQ(BytesText(int64_t{4} << 30), "4 GiB");
  EXPECT_EQ(BytesText((int64_t{3} << 30) / 2), "1.5 GiB");
  EXPECT_EQ(BytesText(1000 << 20), "1000 MiB");
  EXPECT_EQ(BytesText(int64_t{5} << 50), "5120 TiB");
}

}  // namespace
}  // namespace uopd
