// SPDX-License-Identifier: MIT
#include "server/engine/report/measured_speeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/engine/base/device_set.h"

namespace uopd::engine {
namespace {

using testing::SizeIs;

constexpr std::string_view kStore = "machine";

class CountingDevice final : public devices::Device {
 public:
  CountingDevice(std::string model, std::optional<Speeds> speeds)
      : Device({.name = "CPU:0", .model = std::move(model)}, Target()), speeds_(speeds) {}

  const devices::Compiler& compiler() const override { std::abort(); }
  absl::Status status() const override { return absl::OkStatus(); }
  devices::MemoryStats memory() const override { return {}; }
  absl::StatusOr<std::shared_ptr<devices::Buffer>> Allocate(size_t, devices::MemoryKind) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::shared_ptr<devices::Executable>> Load(const devices::KernelCode&) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::unique_ptr<devices::Stream>> NewStream() override {
    return absl::UnimplementedError("");
  }
  std::optional<Speeds> MeasureSpeeds() override {
    ++measured;
    return speeds_;
  }

  int measured = 0;

 private:
  const std::optional<Speeds> speeds_;
};

class MeasuredSpeedsTest : public testing::Test {
 protected:
  static std::optional<Speeds> Get(MeasuredSpeeds& speeds,
                                   const std::shared_ptr<CountingDevice>& device) {
    KernelUsage usage;
    DeviceState state(device, usage);
    return speeds.Get(state);
  }

  cache::Store store_{1 << 20};
  const Speeds speeds_{.memory_bytes = 3.5, .clock_ghz = 2.25};
};

TEST_F(MeasuredSpeedsTest, AMachineIsMeasuredOnce) {
  const auto device = std::make_shared<CountingDevice>("a processor", speeds_);
  MeasuredSpeeds first(store_);
  EXPECT_EQ(Get(first, device), speeds_);
  EXPECT_EQ(Get(first, device), speeds_);
  MeasuredSpeeds after_a_restart(store_);
  EXPECT_EQ(Get(after_a_restart, device), speeds_);
  EXPECT_EQ(device->measured, 1);
  const auto other = std::make_shared<CountingDevice>("another processor", Speeds());
  EXPECT_EQ(Get(first, other), Speeds());
  EXPECT_EQ(other->measured, 1);
  EXPECT_THAT(store_.List(std::string(kStore), 10), SizeIs(2));
}

TEST_F(MeasuredSpeedsTest, WhatIsNoMeasurementIsMeasuredAgain) {
  const auto device = std::make_shared<CountingDevice>("a processor", speeds_);
  MeasuredSpeeds first(store_);
  ASSERT_EQ(Get(first, device), speeds_);
  const auto rows = store_.List(std::string(kStore), 10);
  ASSERT_THAT(rows, SizeIs(1));
  ASSERT_TRUE(store_.Put(*store_.KeyOf(rows[0].address), "memory_bytes=?", 1).ok());
  MeasuredSpeeds second(store_);
  EXPECT_EQ(Get(second, device), speeds_);
  EXPECT_EQ(device->measured, 2);
}

TEST_F(MeasuredSpeedsTest, ADeviceThatMeasuresNothingKeepsNothing) {
  const auto device = std::make_shared<CountingDevice>("a chip", std::nullopt);
  MeasuredSpeeds speeds(store_);
  EXPECT_EQ(Get(speeds, device), std::nullopt);
  EXPECT_THAT(store_.List(std::string(kStore), 10), SizeIs(0));
}

}  // namespace
}  // namespace uopd::engine
