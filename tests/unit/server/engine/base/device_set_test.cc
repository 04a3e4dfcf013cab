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

}  // namespace
}  // namespace uopd::engine
