// SPDX-License-Identifier: MIT
#include "devices/registry.h"

#include "devices/null/null_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace uopd::devices {
namespace {

using testing::HasSubstr;

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
  EXPECT_EQ(cpu0->info().hardware_threads, 2);
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
  for (const char* wrong : {"", " , ", "CPU,cpu:0", "CPU,TPU"}) {
    EXPECT_EQ(Registry::Create({.devices = wrong}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

TEST(RegistryTest, ListSaysWhyADeviceIsMissing) {
  auto registry = Registry::Create({.devices = "NULL:0,NULL:1"}).value();
  auto lost = std::static_pointer_cast<null::NullDevice>(registry->Get("NULL:1").value());
  lost->SetStatus(absl::UnavailableError("The cable is out."));
  const auto list = registry->List();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[0].status.ok());
  EXPECT_EQ(list[1].name, "NULL:1");
  EXPECT_EQ(StatusText(list[1].status), "The cable is out.");
}

}  // namespace
}  // namespace uopd::devices
