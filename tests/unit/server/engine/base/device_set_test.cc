// SPDX-License-Identifier: MIT
#include "server/engine/base/device_set.h"

#include <gtest/gtest.h>

#include "devices/null/null_device.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

class DeviceSetTest : public ::testing::Test {
 protected:
  devices::null::NullDevice& null(DeviceState& state) {
    return dynamic_cast<devices::null::NullDevice&>(state.device());
  }
  DeviceSet devices_{NullRegistry()};
};

TEST_F(DeviceSetTest, OneStateForEveryDevice) {
  DeviceState* const first = *devices_.Get("");
  EXPECT_EQ(first->name(), "NULL:0");
  EXPECT_EQ(*devices_.Get("null"), first);
  EXPECT_EQ(*devices_.Get("NULL:0"), first);
  EXPECT_NE(*devices_.Get("NULL:1"), first);
  EXPECT_EQ(devices_.size(), 2u);
  EXPECT_EQ(devices_.Get("NULL:2").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(devices_.Get("nothing").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DeviceSetTest, AStreamThatIsDoneIsUsedAgain) {
  DeviceState& state = **devices_.Get("");
  devices::Stream* used = nullptr;
  {
    auto lease = StreamLease::Take(state);
    ASSERT_TRUE(lease.ok());
    used = &**lease;
    auto other = StreamLease::Take(state);
    ASSERT_TRUE(other.ok());
    EXPECT_NE(&**other, used);  // two at a time are two
    EXPECT_TRUE(lease->Finish().ok());
  }
  auto again = StreamLease::Take(state);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(&**again, used);
}

TEST_F(DeviceSetTest, ALostDeviceGivesNoStream) {
  DeviceState& state = **devices_.Get("");
  null(state).SetStatus(absl::UnavailableError("gone"));
  EXPECT_TRUE(absl::IsUnavailable(StreamLease::Take(state).status()));
  null(state).SetStatus(absl::OkStatus());
  EXPECT_TRUE(StreamLease::Take(state).ok());
}

// A device that was opened again has a new state; the old one stays what it was.
TEST(LostDeviceTest, ANewDeviceHasANewState) {
  devices::RegistryOptions options{.devices = "NULL", .retry = std::chrono::milliseconds(0)};
  bool opens = true;
  options.open =
      [&](const devices::DeviceName&) -> absl::StatusOr<std::shared_ptr<devices::Device>> {
    if (!opens) return absl::UnavailableError("no driver");
    return devices::null::NullDevice::Open({});
  };
  DeviceSet devices(*devices::Registry::Create(options));
  DeviceState* const first = *devices.Get("NULL:0");
  EXPECT_FALSE(devices.IsReplaced(*first));
  dynamic_cast<devices::null::NullDevice&>(first->device())
      .SetStatus(absl::UnavailableError("gone"));
  opens = false;
  EXPECT_EQ(*devices.Get(""), first);
  EXPECT_FALSE(devices.IsReplaced(*first));
  opens = true;
  EXPECT_TRUE(devices.IsReplaced(*first));
  DeviceState* const second = *devices.Get("");
  EXPECT_NE(second, first);
  EXPECT_EQ(*devices.Get("NULL:0"), second);
  EXPECT_FALSE(devices.IsReplaced(*second));
  EXPECT_TRUE(absl::IsUnavailable(StreamLease::Take(*first).status()));
  EXPECT_TRUE(StreamLease::Take(*second).ok());
}

}  // namespace
}  // namespace uopd::engine
