// SPDX-License-Identifier: MIT
// Limits of control groups, read from trees like those of real systems: Debian 12 (v2), Debian 10
// and Amazon Linux 2 (v1), hybrid systems, and containers of Docker and Kubernetes with and without
// a namespace.
#include "core/base/machine/control_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/fake_tree.h"

namespace uopd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMiB = 1 << 20;
constexpr char kV2[] =
    "22 28 0:20 / /proc rw,nosuid - proc proc rw\n"
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kV1[] =
    "31 23 0:28 / /sys/fs/cgroup ro,nosuid shared:5 - tmpfs tmpfs ro,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/systemd rw shared:6 - cgroup cgroup rw,xattr,name=systemd\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:7 master:3 - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/memory rw shared:8 - cgroup cgroup rw,memory\n"
    "35 31 0:32 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n";
constexpr char kUnified[] =
    "36 31 0:33 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n";
constexpr char kUnlimitedV1[] = "9223372036854771712\n";

class ControlGroupsTest : public ::testing::Test {
 protected:
  void Machine(const std::string& mountinfo, const std::string& cgroup) {
    tree_.File("/proc/self/mountinfo", mountinfo);
    tree_.File("/proc/self/cgroup", cgroup);
  }
  ControlGroups Find() const { return ControlGroups::Find(tree_.root()); }
  // -1: no limit.
  int64_t Limit() const {
    const auto limit = Find().MemoryLimit();
    return limit ? limit->bytes : -1;
  }
  double Quota() const {
    const auto quota = Find().ProcessorQuota();
    return quota ? quota->count : -1;
  }

  test::FakeTree tree_;
};

TEST_F(ControlGroupsTest, Version2OfAServiceOfSystemd) {
  Machine(kV2, "0::/system.slice/uopd.service\n");
  const std::string at = "/sys/fs/cgroup/system.slice/uopd.service/";
  tree_.File(at + "memory.max", "1073741824\n");
  tree_.File(at + "memory.high", "max\n");
  tree_.File(at + "cpu.max", "150000 100000\n");
  tree_.File("/sys/fs/cgroup/system.slice/memory.max", "max\n");
  tree_.File("/sys/fs/cgroup/system.slice/cpu.max", "max 100000\n");
  EXPECT_THAT(Find().names(), ElementsAre("/system.slice/uopd.service", "/system.slice", "/"));
  EXPECT_EQ(Limit(), 1024 * kMiB);
  EXPECT_EQ(Find().MemoryLimit()->group, "/system.slice/uopd.service");
  EXPECT_EQ(Quota(), 1.5);
  EXPECT_EQ(Find().ProcessorQuota()->group, "/system.slice/uopd.service");
}

TEST_F(ControlGroupsTest, TheSmallestLimitOfAllParentsHolds) {
  Machine(kV2, "0::/a.slice/b.slice/c.scope\n");
  tree_.File("/sys/fs/cgroup/a.slice/b.slice/c.scope/memory.max", "4294967296");
  tree_.File("/sys/fs/cgroup/a.slice/b.slice/c.scope/cpu.max", "800000 100000");
  tree_.File("/sys/fs/cgroup/a.slice/b.slice/memory.max", "536870912\n");
  tree_.File("/sys/fs/cgroup/a.slice/b.slice/cpu.max", "max 100000");
  tree_.File("/sys/fs/cgroup/a.slice/memory.max", "2147483648\n");
  tree_.File("/sys/fs/cgroup/a.slice/cpu.max", "100000 200000");
  EXPECT_EQ(Limit(), 512 * kMiB);
  EXPECT_EQ(Find().MemoryLimit()->group, "/a.slice/b.slice");
  EXPECT_EQ(Quota(), 0.5);
  EXPECT_EQ(Find().ProcessorQuota()->group, "/a.slice");
}

TEST_F(ControlGroupsTest, TheLimitAboveWhichTheKernelBrakesCounts) {
  Machine(kV2, "0::/g\n");
  tree_.File("/sys/fs/cgroup/g/memory.max", "1073741824");
  tree_.File("/sys/fs/cgroup/g/memory.high", "805306368");
  EXPECT_EQ(Limit(), 768 * kMiB);
  tree_.File("/sys/fs/cgroup/g/memory.high", "2147483648");
  EXPECT_EQ(Limit(), 1024 * kMiB);
}

TEST_F(ControlGroupsTest, Version1) {
  Machine(kV1,
          "9:memory:/system.slice/uopd.service\n5:cpu,cpuacct:/system.slice\n"
          "3:cpuset:/\n1:name=systemd:/system.slice/uopd.service\n");
  tree_.File("/sys/fs/cgroup/memory/system.slice/uopd.service/memory.limit_in_bytes",
             "268435456\n");
  tree_.File("/sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes", kUnlimitedV1);
  tree_.File("/sys/fs/cgroup/memory/memory.limit_in_bytes", kUnlimitedV1);
  tree_.File("/sys/fs/cgroup/cpu,cpuacct/system.slice/cpu.cfs_quota_us", "250000\n");
  tree_.File("/sys/fs/cgroup/cpu,cpuacct/system.slice/cpu.cfs_period_us", "100000\n");
  tree_.File("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  tree_.File("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Limit(), 256 * kMiB);
  EXPECT_EQ(Quota(), 2.5);
  EXPECT_EQ(Find().ProcessorQuota()->group, "/system.slice");
}

TEST_F(ControlGroupsTest, Version1KnowsTheLimitsOfGroupsThatAreHidden) {
  Machine("34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "9:memory:/\n");
  tree_.File("/sys/fs/cgroup/memory/memory.limit_in_bytes", kUnlimitedV1);
  tree_.File("/sys/fs/cgroup/memory/memory.stat",
             "cache 4096\nhierarchical_memory_limit 402653184\n"
             "hierarchical_memsw_limit 9223372036854771712\n");
  EXPECT_EQ(Limit(), 384 * kMiB);
  tree_.File("/sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600");
  EXPECT_EQ(Find().MemoryRoom()->bytes, 284 * kMiB);
}

TEST_F(ControlGroupsTest, HybridSystemsHaveTheControllersInVersion1) {
  Machine(std::string(kV1) + kUnified, "9:memory:/s/u\n5:cpu,cpuacct:/s/u\n0::/s/u\n");
  tree_.Folder("/sys/fs/cgroup/unified/s/u");
  tree_.File("/sys/fs/cgroup/memory/s/u/memory.limit_in_bytes", "1048576000");
  tree_.File("/sys/fs/cgroup/cpu,cpuacct/s/u/cpu.cfs_quota_us", "50000");
  tree_.File("/sys/fs/cgroup/cpu,cpuacct/s/u/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Limit(), 1000 * kMiB);
  EXPECT_EQ(Quota(), 0.5);
}

TEST_F(ControlGroupsTest, HybridSystemsMayHaveThemInVersion2) {
  Machine(std::string(kV1) + kUnified, "5:cpu,cpuacct:/s\n1:name=systemd:/s/u\n0::/s/u\n");
  tree_.File("/sys/fs/cgroup/unified/s/u/memory.max", "1048576000");
  tree_.File("/sys/fs/cgroup/cpu,cpuacct/s/cpu.cfs_quota_us", "300000");
  EXPECT_EQ(Limit(), 1000 * kMiB);
  EXPECT_EQ(Quota(), 3) << "a period that cannot be read is the kernel's usual one";
}

TEST_F(ControlGroupsTest, ContainersWithANamespaceSeeThemselvesAtTheTop) {
  Machine("30 24 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n", "0::/\n");
  tree_.File("/sys/fs/cgroup/memory.max", "134217728\n");
  tree_.File("/sys/fs/cgroup/cpu.max", "10000 100000\n");
  EXPECT_EQ(Limit(), 128 * kMiB);
  EXPECT_EQ(Find().MemoryLimit()->group, "/");
  EXPECT_EQ(Quota(), 0.1);
}

TEST_F(ControlGroupsTest, ContainersWithoutANamespaceSeeTheirPartOfTheTree) {
  Machine(
      "34 31 0:31 /kubepods/burstable/pod1/cont2 /sys/fs/cgroup/memory ro - cgroup cgroup "
      "rw,memory\n"
      "35 31 0:32 /kubepods/burstable/pod1/cont2 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n",
      "9:memory:/kubepods/burstable/pod1/cont2\n5:cpu:/kubepods/burstable/pod1/cont2/deep\n");
  tree_.File("/sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n");
  tree_.File("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000");
  tree_.File("/sys/fs/cgroup/cpu/deep/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(Limit(), 128 * kMiB);
  EXPECT_EQ(Find().MemoryLimit()->group, "/kubepods/burstable/pod1/cont2");
  EXPECT_EQ(Quota(), 2);
}

TEST_F(ControlGroupsTest, AGroupThatIsNotBelowTheMountIsUnknown) {
  Machine("34 31 0:31 /docker/a /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
          "9:memory:/docker/ab\n");
  tree_.File("/sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n");
  EXPECT_EQ(Limit(), -1);
  Machine(kV2, "0::/../elsewhere\n");  // the process was moved out of the namespace
  tree_.File("/sys/fs/cgroup/memory.max", "134217728\n");
  EXPECT_EQ(Limit(), -1);
}

// A namespace over mounts that were made before it: the names between are hidden, so the folder is
// found by the process.
TEST_F(ControlGroupsTest, NamesThatANamespaceHidesAreFound) {
  Machine(
      "34 31 0:31 /../.. /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "35 31 0:32 /../../.. /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
      "9:memory:/in/side\n0::/../x\n");
  const std::string mine = std::to_string(getpid()), other = "1" + mine;
  tree_.File("/sys/fs/cgroup/memory/s1/u1/in/side/cgroup.procs", other + "\n0\n");
  tree_.File("/sys/fs/cgroup/memory/s1/u1/in/side/memory.limit_in_bytes", "4096\n");
  tree_.File("/sys/fs/cgroup/memory/s2/u2/in/side/cgroup.procs", other + "\n" + mine + "\n");
  tree_.File("/sys/fs/cgroup/memory/s2/u2/in/side/memory.limit_in_bytes", "268435456\n");
  tree_.File("/sys/fs/cgroup/memory/s2/memory.limit_in_bytes", "134217728\n");
  tree_.File("/sys/fs/cgroup/unified/a/b/x/cgroup.procs", mine);
  tree_.File("/sys/fs/cgroup/unified/a/b/x/memory.max", "max");
  tree_.File("/sys/fs/cgroup/unified/a/cpu.max", "100000 100000");
  EXPECT_THAT(Find().names(), ElementsAre("/s2/u2/in/side", "/s2/u2/in", "/s2/u2", "/s2", "/",
                                          "/a/b/x", "/a/b", "/a", "/"));
  EXPECT_EQ(Limit(), 128 * kMiB);
  EXPECT_EQ(Find().MemoryLimit()->group, "/s2");
  EXPECT_EQ(Quota(), 1);
}

TEST_F(ControlGroupsTest, OfSeveralMountsTheOneThatShowsMostCounts) {
  Machine(
      "30 24 0:26 /s/u /run/part rw - cgroup2 cgroup2 rw\n"
      "31 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
      "32 24 0:26 / /not/there rw - cgroup2 cgroup2 rw\n",
      "0::/s/u\n");
  tree_.File("/run/part/memory.max", "1073741824\n");
  tree_.File("/sys/fs/cgroup/s/u/memory.max", "1073741824\n");
  tree_.File("/sys/fs/cgroup/s/memory.max", "536870912\n");
  EXPECT_EQ(Limit(), 512 * kMiB);
}

TEST_F(ControlGroupsTest, PathsMayHaveBlanksAndColons) {
  Machine("30 24 0:26 / /sys/c\\040g\\134 rw - cgroup2 cgroup2 rw\n", "0::/a b:c\n");
  tree_.File("/sys/c g\\/a b:c/memory.max", "4096\n");
  EXPECT_EQ(Limit(), 4096);
  EXPECT_EQ(Find().MemoryLimit()->group, "/a b:c");
}

TEST_F(ControlGroupsTest, SaysWhetherAllProcessesDieTogether) {
  Machine(kV2, "0::/s/u\n");
  tree_.File("/sys/fs/cgroup/s/u/memory.oom.group", "0\n");
  EXPECT_FALSE(Find().KillsTogether());
  tree_.File("/sys/fs/cgroup/s/memory.oom.group", "1\n");
  EXPECT_TRUE(Find().KillsTogether());
}

TEST_F(ControlGroupsTest, WhatIsNoLimit) {
  Machine(kV2, "0::/g\n");
  tree_.Folder("/sys/fs/cgroup/g");
  EXPECT_EQ(Limit(), -1) << "no file";
  for (const char* text : {"max", "", "garbage", "-1", "9223372036854771712", "12 34",
                           "99999999999999999999999", "0x100"}) {
    tree_.File("/sys/fs/cgroup/g/memory.max", text);
    EXPECT_EQ(Limit(), -1) << text;
  }
  for (const char* text :
       {"max", "", "garbage", "max 100000", "-1 100000", "0 100000", "x 1", " \n"}) {
    tree_.File("/sys/fs/cgroup/g/cpu.max", text);
    EXPECT_EQ(Quota(), -1) << text;
  }
  tree_.File("/sys/fs/cgroup/g/cpu.max", "200000 0");  // a period that cannot be
  EXPECT_EQ(Quota(), 2);
}

TEST_F(ControlGroupsTest, FilesThatAreMissingOrMakeNoSenseAreNoLimit) {
  EXPECT_EQ(Limit(), -1);  // neither file is there
  EXPECT_EQ(Quota(), -1);
  EXPECT_FALSE(Find().MemoryRoom());
  for (const char* text : {"", "\n\n", "x", "0::", "::/", "a:b:c", ":::::", "0:/"}) {
    Machine(kV2, text);
    EXPECT_EQ(Limit(), -1) << text;
  }
  for (const char* text :
       {"", "\n", "- cgroup2", "1 2 3 4 5 6 7 8 9 10 11 - cgroup2", "30 24 0:26 / /sys rw",
        "30 24 0:26 / /sys rw - cgroup2 x", "a b c d e f - cgroup",
        "30 24 0:26 / /sys rw shared:9 no dash here x y"}) {
    Machine(text, "0::/\n");
    EXPECT_EQ(Limit(), -1) << text;
    EXPECT_THAT(Find().names(), IsEmpty()) << text;
  }
}

TEST_F(ControlGroupsTest, RoomIsWhatIsLeftWithoutPagesOfFiles) {
  Machine(kV2, "0::/s/u\n");
  tree_.File("/sys/fs/cgroup/s/u/memory.max", "1048576000");
  tree_.File("/sys/fs/cgroup/s/u/memory.current", "943718400");  // 900 MiB
  tree_.File("/sys/fs/cgroup/s/u/memory.stat",
             "anon 524288000\nfile 419430400\ninactive_anon 5\ninactive_file 314572800\n"
             "active_file 104857600\nshmem 0\n");
  EXPECT_EQ(Find().MemoryRoom()->bytes, 500 * kMiB);
  tree_.File("/sys/fs/cgroup/s/memory.max", "2097152000");
  tree_.File("/sys/fs/cgroup/s/memory.current", "1992294400");  // 1900 MiB, of others too
  EXPECT_EQ(Find().MemoryRoom()->bytes, 100 * kMiB);
  EXPECT_EQ(Find().MemoryRoom()->group, "/s");
  tree_.File("/sys/fs/cgroup/s/memory.current", "2202009600");  // above a limit that was lowered
  EXPECT_EQ(Find().MemoryRoom()->bytes, 0);
}

TEST_F(ControlGroupsTest, RoomOfVersion1CountsTheGroupsBelow) {
  Machine(kV1, "9:memory:/g\n");
  tree_.File("/sys/fs/cgroup/memory/g/memory.limit_in_bytes", "1048576000");
  tree_.File("/sys/fs/cgroup/memory/g/memory.usage_in_bytes", "943718400");
  tree_.File("/sys/fs/cgroup/memory/g/memory.stat",
             "cache 1\ninactive_file 1\nactive_file 1\ntotal_inactive_file 209715200\n"
             "total_active_file 104857600\n");
  EXPECT_EQ(Find().MemoryRoom()->bytes, 400 * kMiB);
}

TEST_F(ControlGroupsTest, ThisProcessHasGroupsOrNone) {
  const ControlGroups groups = ControlGroups::Find();
  if (const auto limit = groups.MemoryLimit()) {
    EXPECT_GT(limit->bytes, 0);
  }
  if (const auto quota = groups.ProcessorQuota()) {
    EXPECT_GT(quota->count, 0);
  }
}

}  // namespace
}  // namespace uopd
