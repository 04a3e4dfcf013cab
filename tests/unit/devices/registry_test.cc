// SPDX-License-Identifier: MIT
#include "devices/registry.h"

#include <atomic>
#include <thread>

#include "devices/null/null_device.h"
#include "devices/opencl/opencl_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/pocl.h"

namespace uopd::devices {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

const bool kRegistryUsesPocl = tests::UsePocl();

TEST(DeviceNameTest, ParsesNames) {
  EXPECT_EQ(DeviceName::Parse("CPU")->Text(), "CPU:0");
  EXPECT_EQ(DeviceName::Parse("cpu:1")->Text(), "CPU:1");
  EXPECT_EQ(DeviceName::Parse("Null:255")->Text(), "NULL:255");
  for (const char* wrong : {"", ":", "CPU:", "CPU:x", "CPU:-1", "CPU:+1", "CPU: 1", "CPU:256",
                            "CPU:1:2", "CPU:99999999999", "GPU"}) {
    EXPECT_EQ(DeviceName::Parse(wrong).status().code(), absl::StatusCode::kInvalidArgument)
        << wrong;
  }
  EXPECT_THAT(StatusText(DeviceName::Parse("GPU").status()), HasSubstr("CPU, NULL"));
}

TEST(RegistryTest, OpensEveryDeviceOnce) {
  auto registry = Registry::Create({.devices = "NULL, cpu:1,CPU:0", .cpu_threads = 2}).value();
  auto null = registry->Get("").value();
  EXPECT_EQ(null->info().name, "NULL:0");
  EXPECT_EQ(registry->Get("null").value(), null);
  auto cpu0 = registry->Get("CPU").value();
  EXPECT_EQ(cpu0->info().name, "CPU:0");
  EXPECT_EQ(cpu0->target().threads, 2);
  EXPECT_NE(registry->Get("CPU:1").value(), cpu0);
  EXPECT_EQ(registry->Get("CPU:2").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(StatusText(registry->Get("CPU:2").status()), HasSubstr("NULL:0, CPU:1, CPU:0"));
}

TEST(RegistryTest, TakesDevicesThatAreOpen) {
  const std::shared_ptr<Device> devices[] = {null::NullDevice::Open({.index = 3}),
                                             null::NullDevice::Open({.index = 1})};
  auto registry = Registry::Of(devices).value();
  EXPECT_EQ(registry->size(), 2u);
  EXPECT_EQ(registry->Get("").value(), devices[0]);
  EXPECT_EQ(registry->Get("null:1").value(), devices[1]);
  EXPECT_EQ(registry->Get("NULL:0").status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Registry::Of({}).ok());
}

TEST(RegistryTest, RefusesWrongLists) {
  for (const char* wrong : {"", " , ", "CPU,cpu:0", "CPU,TPU", "all,CPU,all", "all:1"}) {
    EXPECT_EQ(Registry::Create({.devices = wrong}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

std::vector<std::string> NamesOf(const std::string& list) {
  std::vector<std::string> out;
  const std::vector<DeviceName> names = ParseDeviceList(list).value();
  for (const DeviceName& name : names) out.push_back(name.Text());
  return out;
}

// PoCL has the devices that the environment names.
TEST(RegistryTest, AllStandsForTheDevicesThatDriversFind) {
  const int count = opencl::CountDevices();
  std::vector<std::string> cl;
  for (int i = 0; i < count; ++i) cl.push_back(DeviceName{"CL", i}.Text());
  const std::vector<std::string> all = NamesOf("All");
  EXPECT_EQ(all.front(), "CPU:0");
  EXPECT_THAT(all, IsSupersetOf(cl));
  EXPECT_THAT(all, Not(Contains(HasSubstr("NULL"))));
  EXPECT_EQ(Registry::Create({.devices = "all"}).value()->names(), all);
  EXPECT_EQ(NamesOf("all,NULL,CPU:1").size(), all.size() + 2);
  // What the list names elsewhere comes where it is named.
  std::vector<std::string> cpu_last(all.begin() + 1, all.end());
  cpu_last.insert(cpu_last.begin(), "NULL:0");
  cpu_last.push_back("CPU:0");
  EXPECT_EQ(NamesOf("NULL, all, CPU"), cpu_last);
  EXPECT_GE(count, tests::WhyNoOpenCl().empty() ? 2 : 0);
}

TEST(RegistryTest, ListSaysWhyADeviceIsMissing) {
  auto registry = Registry::Create({.devices = "NULL:0,NULL:1"}).value();
  auto lost = std::static_pointer_cast<null::NullDevice>(registry->Get("NULL:1").value());
  lost->SetStatus(absl::UnavailableError("The cable is out"));
  const auto list = registry->List();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[0].status.ok());
  EXPECT_EQ(list[1].name, "NULL:1");
  EXPECT_EQ(StatusText(list[1].status), "The cable is out");
}

// A driver that is missing costs one try now and then, however many ask.
TEST(RegistryTest, AFailureIsRememberedForAWhile) {
  std::atomic<int> tries{0};
  RegistryOptions options{.devices = "NULL", .retry = std::chrono::hours(1)};
  options.open = [&](const DeviceName&) -> absl::StatusOr<std::shared_ptr<Device>> {
    ++tries;
    return absl::UnavailableError("No driver");
  };
  auto registry = Registry::Create(options).value();
  EXPECT_FALSE(registry->Settled());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(registry->Get("").status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(StatusText(registry->List()[0].status), HasSubstr("No driver"));
  }
  EXPECT_EQ(tries, 1);
  EXPECT_TRUE(registry->Settled());

  options.retry = std::chrono::milliseconds(0);
  registry = Registry::Create(options).value();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(registry->Get("").ok());
  EXPECT_EQ(tries, 4);
  EXPECT_FALSE(registry->Settled());
}

// The lost device is what callers get until it is tried again.
TEST(RegistryTest, OpensLostDevicesAgain) {
  int opened = 0;
  bool works = true;
  RegistryOptions options{.devices = "NULL", .retry = std::chrono::milliseconds(0)};
  options.open = [&](const DeviceName&) -> absl::StatusOr<std::shared_ptr<Device>> {
    ++opened;
    if (!works) return absl::UnavailableError("No driver");
    return null::NullDevice::Open({});
  };
  auto registry = Registry::Create(options).value();
  auto device = std::static_pointer_cast<null::NullDevice>(registry->Get("").value());
  EXPECT_EQ(registry->Get("").value(), device);
  device->SetStatus(absl::UnavailableError("The cable is out"));
  works = false;
  EXPECT_EQ(registry->Get("").value(), device);
  EXPECT_EQ(StatusText(registry->List()[0].status), "The cable is out");
  EXPECT_EQ(opened, 3);
  works = true;
  EXPECT_NE(registry->Get("").value(), device);
  EXPECT_TRUE(registry->List()[0].status.ok());
  EXPECT_EQ(opened, 4);

  options.retry = std::chrono::hours(1);
  registry = Registry::Create(options).value();
  device = std::static_pointer_cast<null::NullDevice>(registry->Get("").value());
  device->SetStatus(absl::UnavailableError("The cable is out"));
  EXPECT_EQ(registry->Get("").value(), device);
  EXPECT_TRUE(registry->Settled());
  device->SetStatus(absl::OkStatus());  // it came back by itself
  EXPECT_TRUE(registry->List()[0].status.ok());
  EXPECT_EQ(opened, 5);
}

TEST(RegistryTest, GivesTheCompilerOfADevice) {
  auto registry = Registry::Create({.devices = "NULL"}).value();
  EXPECT_EQ(registry->CompilerFor("", "null-1").value()->Compile("text").value(), "text");
  EXPECT_TRUE(registry->CompilerFor("NULL", "").ok());
  EXPECT_EQ(registry->CompilerFor("NULL", "null-2").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(registry->CompilerFor("CPU", "").status().code(), absl::StatusCode::kNotFound);
}

TEST(RegistryTest, CompilesForAChipThatIsNotHere) {
  auto registry = Registry::Create({.devices = "CPU,amd", .compile_only = "AMD:0=gfx942"}).value();
  const auto device = registry->Get("AMD").value();
  EXPECT_TRUE(device->status().ok());
  EXPECT_TRUE(device->info().compiles_only);
  EXPECT_TRUE(registry->CompilesOnly("AMD:0"));
  EXPECT_FALSE(registry->CompilesOnly("CPU:0"));
  EXPECT_EQ(device->target().arch, "gfx942");
  EXPECT_EQ(device->target().units, 304);
  EXPECT_EQ(registry->CompilerFor("AMD", device->target().toolchain).status(), absl::OkStatus());
  const absl::Status absent = device->Allocate(16, MemoryKind::kDevice).status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(StatusText(absent), HasSubstr("AMD:0 is not in this machine"));
  const auto kernel = device->Load({.entry = "kernel"}).value();
  const auto stream = device->NewStream().value();
  EXPECT_TRUE(stream->Launch(*kernel, {}, {}, {}).ok());  // queued
  EXPECT_EQ(stream->Synchronize().code(), absl::StatusCode::kFailedPrecondition);

  const auto error = [](std::string compile_only) {
    RegistryOptions options{.devices = "CPU,AMD:0", .compile_only = std::move(compile_only)};
    const auto made = Registry::Create(options);
    return made.ok() ? (*made)->Get("AMD").status() : made.status();
  };
  EXPECT_THAT(StatusText(error("AMD:0=gfx1")), HasSubstr("No AMD chip \"gfx1\" is known"));
  EXPECT_THAT(StatusText(error("AMD:0")), HasSubstr("\"AMD:0\" is no device with its chip"));
  EXPECT_THAT(StatusText(error("AMD:1=gfx942")), HasSubstr("AMD:1 cannot be compiled for alone"));
  EXPECT_THAT(StatusText(error("CPU=gfx942")), HasSubstr("CPU:0 cannot be compiled for alone"));
  EXPECT_THAT(StatusText(error("AMD:0=gfx942,AMD:0=gfx90a")), HasSubstr("be named once"));
}

TEST(RegistryTest, ADriverThatHangsHoldsUpNobodyElse) {
  std::atomic<bool> opening{false}, end{false};
  RegistryOptions options{.devices = "NULL:0,NULL:1"};
  options.open = [&](const DeviceName& name) -> absl::StatusOr<std::shared_ptr<Device>> {
    if (name.index == 1) {
      opening = true;
      while (!end) std::this_thread::yield();
    }
    return null::NullDevice::Open({.index = name.index});
  };
  auto registry = Registry::Create(options).value();
  std::thread slow([&] { EXPECT_TRUE(registry->Get("NULL:1").ok()); });
  while (!opening) std::this_thread::yield();
  EXPECT_TRUE(registry->Get("NULL:0").ok());
  EXPECT_FALSE(registry->Settled());
  end = true;
  slow.join();
  EXPECT_TRUE(registry->Settled());
}

#if defined(__x86_64__)
TEST(RegistryTest, CpuDevicesKeepToTheBaseline) {
  if (!__builtin_cpu_supports("sse4.2")) GTEST_SKIP() << "the processor is older than the baseline";
  auto registry = Registry::Create({.devices = "CPU:0", .cpu_features = "x86-64-v2"});
  ASSERT_TRUE(registry.ok()) << registry.status();
  const auto device = (*registry)->Get("CPU:0");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->target().vector_bytes, 16);
  EXPECT_FALSE((*device)->target().has_fma);
  EXPECT_TRUE((*device)->target().matrix_instructions.empty());
  EXPECT_EQ((*device)->info().baseline, "x86-64-v2");
}

TEST(RegistryTest, ABaselineThatNobodyKnowsIsRefusedByName) {
  const absl::Status status = Registry::Create({.cpu_features = "avx3"}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(StatusText(status), ::testing::HasSubstr("device.cpu_features"));
}
#endif

}  // namespace
}  // namespace uopd::devices
