// SPDX-License-Identifier: MIT
#include "server/engine/run/streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "devices/null/null_device.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;

class StreamsTest : public testing::Test {
 protected:
  // What a call of DoneOr came to.
  struct Outcome {
    bool here = false;  // it returned true
    std::shared_ptr<std::vector<absl::Status>> told = std::make_shared<std::vector<absl::Status>>();
    absl::Status status;  // where it returned true
  };
  static Outcome DoneOr(Streams& streams) {
    Outcome out;
    out.here = streams.DoneOr(
        &out.status, [told = out.told](const absl::Status& status) { told->push_back(status); });
    return out;
  }
  Program ProgramOn(std::vector<std::string> names) {
    Program out;
    for (const std::string& name : names) out.devices.push_back(*devices_.Get(name));
    return out;
  }
  // Streams of two devices; the first one waits for gate_, the second for other_.
  absl::StatusOr<Streams> TwoThatWait() {
    UOPD_ASSIGN(Streams out, Streams::Take(ProgramOn({"NULL:0", "NULL:1"})));
    UOPD_TRY(out.Of(Device("NULL:0")).Wait(gate_, 1));
    UOPD_TRY(out.Of(Device("NULL:1")).Wait(other_, 1));
    return out;
  }
  DeviceState* Device(const char* name) { return *devices_.Get(name); }

  // Inline: work behind the gate runs on the thread that opens it.
  DeviceSet devices_{NullRegistry(devices::RegistryOptions())};
  const std::shared_ptr<devices::Semaphore> gate_ = std::make_shared<devices::Semaphore>();
  const std::shared_ptr<devices::Semaphore> other_ = std::make_shared<devices::Semaphore>();
};

TEST_F(StreamsTest, WorkOfAnInlineDeviceIsDoneHere) {
  auto streams = Streams::Take(ProgramOn({"NULL:0", "NULL:1"}));
  ASSERT_TRUE(streams.ok());
  EXPECT_NE(&streams->Of(Device("NULL:0")), &streams->Of(Device("NULL:1")));
  const Outcome outcome = DoneOr(*streams);
  EXPECT_TRUE(outcome.here);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_TRUE(outcome.told->empty());
}

TEST_F(StreamsTest, NoStreamsAreDone) {
  auto streams = Streams::Take(Program());
  ASSERT_TRUE(streams.ok());
  EXPECT_TRUE(DoneOr(*streams).here);
}

TEST_F(StreamsTest, TheLastStreamTells) {
  auto streams = TwoThatWait();
  ASSERT_TRUE(streams.ok());
  const Outcome outcome = DoneOr(*streams);
  EXPECT_FALSE(outcome.here);
  gate_->Signal(1);
  EXPECT_TRUE(outcome.told->empty());
  other_->Signal(1);
  ASSERT_EQ(outcome.told->size(), 1u);
  EXPECT_TRUE(outcome.told->front().ok());
}

// Several ends may be waited for, each with what was queued before it.
TEST_F(StreamsTest, AnEndIsThatOfWhatIsQueuedSoFar) {
  auto streams = Streams::Take(ProgramOn({"NULL:0"}));
  ASSERT_TRUE(streams.ok());
  ASSERT_TRUE(streams->Of(Device("NULL:0")).Wait(gate_, 1).ok());
  const Outcome first = DoneOr(*streams);
  ASSERT_TRUE(streams->Of(Device("NULL:0")).Wait(gate_, 2).ok());
  const Outcome second = DoneOr(*streams);
  gate_->Signal(1);
  EXPECT_EQ(first.told->size(), 1u);
  EXPECT_EQ(second.told->size(), 0u);
  gate_->Signal(2);
  EXPECT_EQ(first.told->size(), 1u);
  EXPECT_EQ(second.told->size(), 1u);
}

TEST_F(StreamsTest, TheErrorOfOneStreamIsTold) {
  auto streams = TwoThatWait();
  ASSERT_TRUE(streams.ok());
  const Outcome outcome = DoneOr(*streams);
  other_->Fail(absl::UnavailableError("fell off the bus"));
  EXPECT_TRUE(outcome.told->empty()) << "the other stream still works";
  gate_->Signal(1);
  ASSERT_EQ(outcome.told->size(), 1u);
  EXPECT_THAT(StatusText(outcome.told->front()), HasSubstr("fell off the bus"));
}

TEST_F(StreamsTest, AnErrorThatIsThereIsReturned) {
  auto streams = Streams::Take(ProgramOn({"NULL:0", "NULL:1"}));
  ASSERT_TRUE(streams.ok());
  gate_->Fail(absl::UnavailableError("fell off the bus"));
  ASSERT_TRUE(streams->Of(Device("NULL:1")).Wait(gate_, 1).ok());
  const Outcome outcome = DoneOr(*streams);
  EXPECT_TRUE(outcome.here);
  EXPECT_THAT(StatusText(outcome.status), HasSubstr("fell off the bus"));
  EXPECT_TRUE(outcome.told->empty());
}

TEST_F(StreamsTest, OnlyStreamsThatAreGivenBackAreUsedAgain) {
  const Program program = ProgramOn({"NULL:0"});
  const devices::Stream* first = nullptr;
  {
    auto streams = Streams::Take(program);
    ASSERT_TRUE(streams.ok());
    first = &streams->Of(Device("NULL:0"));
    EXPECT_TRUE(DoneOr(*streams).here);
    streams->GiveBack();
  }
  {
    auto again = Streams::Take(program);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(&again->Of(Device("NULL:0")), first);
    // One that waits for ever is not.
    ASSERT_TRUE(again->Of(Device("NULL:0")).Wait(gate_, 1).ok());
  }
  auto fresh = Streams::Take(program);
  ASSERT_TRUE(fresh.ok());
  EXPECT_TRUE(DoneOr(*fresh).here);
}

TEST_F(StreamsTest, AProgramRunsInlineIfAllItsDevicesDo) {
  const std::shared_ptr<devices::Device> all[] = {
      devices::null::NullDevice::Open({.index = 0}),
      devices::null::NullDevice::Open({.index = 1, .background = std::chrono::microseconds(1)})};
  DeviceSet devices(*devices::Registry::Of(all));
  Program program;
  EXPECT_TRUE(RunsInline(program));
  program.devices = {*devices.Get("NULL:0")};
  EXPECT_TRUE(RunsInline(program));
  program.devices = {*devices.Get("NULL:0"), *devices.Get("NULL:1")};
  EXPECT_FALSE(RunsInline(program));
}

}  // namespace
}  // namespace uopd::engine
