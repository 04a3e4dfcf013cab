// SPDX-License-Identifier: MIT
// Arguments that are refused are tested where a client meets them: run_service_test.cc.
#include "server/engine/run/binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>

#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using schedule::BufferRef;
using testing::HasSubstr;
using testing::Not;

// Slots of 16 bytes: 0 is written, 1 is read, 2 is both; and a temporary at byte 64 of an arena.
class BindingTest : public testing::Test {
 protected:
  void SetUp() override {
    program_.devices = {&device_};
    program_.slots.resize(3);
    for (ProgramSlot& slot : program_.slots) {
      slot.info = {.dtype = ir::Dtype::F32, .dims = {4}, .bytes = 16, .used = true};
      slot.device = &device_;
    }
    program_.slots[0].info.written = program_.slots[2].info.written = true;
    program_.slots[1].info.read = program_.slots[2].info.read = true;
    program_.arenas = {{&device_, 128}};
    program_.temporaries = {{0, 64, 16}};
    auto streams = Streams::Take(program_);
    ASSERT_TRUE(streams.ok());
    streams_.emplace(*std::move(streams));
  }
  absl::StatusOr<Binding> Bind() {
    return Binding::Bind(program_, buffers_, *streams_, {arguments_, variables_, {}}, {});
  }
  // Binds, fills and waits.
  void BindAndFill() {
    auto binding = Bind();
    ASSERT_TRUE(binding.ok()) << StatusText(binding.status());
    binding_.emplace(*std::move(binding));
    ASSERT_TRUE(binding_->Fill(*streams_).ok());
    ASSERT_TRUE(Synchronize().ok());
  }
  absl::Status Synchronize() { return streams_->Of(&device_).Synchronize(); }
  // What a step reads there.
  std::string Contents(const BufferRef& ref) {
    const devices::BufferArg at = binding_->Resolve(ref);
    return {reinterpret_cast<const char*>(at.buffer->host_data() + at.offset), 16};
  }

  DeviceSet devices_{NullRegistry()};
  DeviceState& device_ = **devices_.Get("");
  Program program_;
  Quota quota_{"limits.session_bytes", 1 << 20};
  BufferStore buffers_{quota_};
  std::vector<Argument> arguments_;
  std::vector<int64_t> variables_;
  std::optional<Streams> streams_;
  std::optional<Binding> binding_;
  const std::string x_ = std::string(16, 'x'), zero_ = std::string(16, '\0');
};

TEST_F(BindingTest, NewBuffersHaveTheDataOfTheRequestOrZeroes) {
  arguments_ = {{.buffer = 1}, {.data = x_}};
  program_.slots[0].info.read = true;  // written in part
  BindAndFill();
  EXPECT_EQ(Contents({BufferRef::kArgument, 0}), zero_);
  EXPECT_EQ(Contents({BufferRef::kArgument, 1}), x_);
  EXPECT_EQ(Contents({BufferRef::kArgument, 2}), zero_);
}

TEST_F(BindingTest, WhatIsWrittenWholeIsNotCleared) {
  for (const bool whole : {true, false}) {
    program_.slots[0].info.read = !whole;
    arguments_ = {{.buffer = 1}, {.data = zero_}};
    auto binding = Bind();
    ASSERT_TRUE(binding.ok()) << StatusText(binding.status());
    binding_.emplace(*std::move(binding));
    const BufferRef slot{BufferRef::kArgument, 0};
    std::byte* memory = binding_->Resolve(slot).buffer->host_data();
    std::fill_n(memory, 16, std::byte{'x'});  // what the last owner has left
    ASSERT_TRUE(binding_->Fill(*streams_).ok());
    ASSERT_TRUE(Synchronize().ok());
    EXPECT_EQ(Contents(slot), whole ? x_ : zero_);
    binding_.reset();
  }
}

TEST_F(BindingTest, ATemporaryIsAPartOfItsArenaAndGoesBehindTheSteps) {
  arguments_ = {{}, {.data = x_}};
  const size_t before = device_.device().memory().used_bytes;
  BindAndFill();
  const devices::BufferArg at = binding_->Resolve({BufferRef::kTemporary, 0});
  EXPECT_EQ(at.offset, 64u);
  EXPECT_EQ(at.buffer->size(), 128u);
  const size_t bound = device_.device().memory().used_bytes;
  ASSERT_TRUE(binding_->FreeTemporaries(*streams_).ok());
  ASSERT_TRUE(Synchronize().ok());
  EXPECT_LE(device_.device().memory().used_bytes, bound - 128);
  binding_.reset();
  EXPECT_EQ(device_.device().memory().used_bytes, before);
  EXPECT_EQ(quota_.used(), 0);
}

// The kernel that writes slot 2 must not change what slot 1 reads.
TEST_F(BindingTest, ASlotThatIsReadBesideAWrittenOneGetsACopy) {
  ASSERT_TRUE(buffers_.Create(7, device_, 16).ok());
  ASSERT_TRUE(buffers_.Write(devices_, 7, 0, x_).ok());
  arguments_ = {{}, {.buffer = 7}, {.buffer = 7}};
  BindAndFill();
  EXPECT_NE(binding_->Resolve({BufferRef::kArgument, 1}).buffer,
            binding_->Resolve({BufferRef::kArgument, 2}).buffer);
  EXPECT_EQ(binding_->buffer(1), binding_->buffer(2)) << "the client sees one";
  EXPECT_EQ(Contents({BufferRef::kArgument, 1}), x_);
  EXPECT_EQ(Contents({BufferRef::kArgument, 2}), x_);
}

// A buffer that does not exist has no contents, whichever slot names it first and whatever other
// slots write to it.
TEST_F(BindingTest, ANewHandleForAWrittenSlotCannotBeRead) {
  for (const bool written_first : {true, false}) {
    if (!written_first) std::swap(program_.slots[0].info, program_.slots[1].info);
    arguments_ = {{.buffer = 7}, {.buffer = 7}};
    const auto binding = Bind();
    EXPECT_TRUE(absl::IsNotFound(binding.status())) << binding.status();
    EXPECT_THAT(StatusText(binding.status()), HasSubstr(written_first ? "slot 1" : "slot 0"));
    EXPECT_EQ(buffers_.size(), 0u);
    EXPECT_EQ(quota_.used(), 0);
  }
}

// With data, even if the data are shorter than the slot: what they do not fill is read too.
TEST_F(BindingTest, ANewHandleForAWrittenAndAReadSlotIsClearedBeforeItsDataCome) {
  program_.variables = {{.name = "n", .min = 0, .max = 9}};
  variables_ = {1};
  for (const bool written_first : {true, false}) {
    if (!written_first) std::swap(program_.slots[0].info, program_.slots[1].info);
    for (const size_t with_data : {0, 1}) {
      const std::string data = "12345";
      arguments_ = {{.buffer = 7}, {.buffer = 7}};
      arguments_[with_data].data = data;
      auto binding = Bind();
      ASSERT_TRUE(binding.ok()) << StatusText(binding.status());
      binding_.emplace(*std::move(binding));
      std::fill_n(binding_->buffer(0)->host_data(), 16, std::byte{'x'});  // of the last owner
      ASSERT_TRUE(binding_->Fill(*streams_).ok());
      ASSERT_TRUE(Synchronize().ok());
      EXPECT_EQ(binding_->buffer(0), binding_->buffer(1));
      for (const int64_t slot : {0, 1})
        EXPECT_EQ(Contents({BufferRef::kArgument, slot}), data + std::string(11, '\0'));
      binding_.reset();
    }
  }
}

// The data of a run that did not come to its end are the contents of the buffer all the same, and
// of a new version: whoever has computed something from the old contents must know.
TEST_F(BindingTest, DataOfARunThatFailedAreANewVersion) {
  for (const uint64_t handle : {1, 2}) {
    ASSERT_TRUE(buffers_.Create(handle, device_, 16).ok());
    buffers_.Lose(std::vector<uint64_t>{handle}, "test");
  }
  program_.variables = {{.name = "n", .min = 0, .max = 9}};
  variables_ = {1};
  for (const bool arrived : {true, false}) {
    const uint64_t whole = buffers_.Version(1), part = buffers_.Version(2);
    arguments_ = {{}, {.buffer = 1, .data = x_}, {.buffer = 2, .data = "12345"}};
    BindAndFill();
    const absl::Status why = binding_->Lose(0, arrived, absl::CancelledError("why"));
    EXPECT_TRUE(absl::IsCancelled(why)) << why;
    EXPECT_GT(buffers_.Version(1), whole);
    EXPECT_GT(buffers_.Version(2), part);
    EXPECT_EQ(buffers_.CheckContents(1).ok(), arrived);
    EXPECT_FALSE(buffers_.CheckContents(2).ok()) << "it was lost, and not all of it was filled";
    EXPECT_EQ(StatusText(why).find("buffer 1, 2") == std::string::npos, arrived);
    binding_.reset();
  }
}

TEST_F(BindingTest, NewHandlesAreThereAfterCommitOnly) {
  arguments_ = {{.buffer = 5}, {.data = x_}, {.buffer = 6}};
  BindAndFill();
  EXPECT_EQ(buffers_.size(), 0u);
  ASSERT_TRUE(binding_->Commit().ok());
  EXPECT_EQ(buffers_.size(), 2u);
  EXPECT_NE(buffers_.Find(5), nullptr);
  EXPECT_NE(buffers_.Find(6), nullptr);
}

TEST_F(BindingTest, CommitTellsWhichContentsAreNew) {
  for (const uint64_t handle : {1, 2, 3}) ASSERT_TRUE(buffers_.Create(handle, device_, 16).ok());
  buffers_.Lose(std::vector<uint64_t>{1}, "test");
  const uint64_t read = buffers_.Version(2), both = buffers_.Version(3);
  arguments_ = {{.buffer = 1}, {.buffer = 2}, {.buffer = 3}};
  BindAndFill();
  ASSERT_TRUE(binding_->Commit().ok());
  EXPECT_TRUE(buffers_.CheckContents(1).ok()) << "overwritten whole";
  EXPECT_EQ(buffers_.Version(2), read);
  EXPECT_GT(buffers_.Version(3), both);
}

TEST_F(BindingTest, LostIsWhatTheStepsThatBeganWrite) {
  auto kernel = std::make_shared<Kernel>();
  kernel->buffers = {{ir::Dtype::F32, 4, false, true}, {ir::Dtype::F32, 4, true, false}};
  Step first, second;
  first.kernel = second.kernel = kernel;
  first.buffers = {{BufferRef::kArgument, 0}, {BufferRef::kArgument, 1}};
  second.buffers = {{BufferRef::kArgument, 2}, {BufferRef::kTemporary, 0}};
  program_.steps = {first, second};
  for (const uint64_t handle : {1, 2, 3}) ASSERT_TRUE(buffers_.Create(handle, device_, 16).ok());
  arguments_ = {{.buffer = 1}, {.buffer = 2}, {.buffer = 3}};
  BindAndFill();
  const absl::Status none = binding_->Lose(0, true, absl::CancelledError("why"));
  EXPECT_THAT(StatusText(none), Not(HasSubstr("lost")));
  const absl::Status one = binding_->Lose(1, true, absl::CancelledError("why"));
  EXPECT_THAT(StatusText(one), HasSubstr("why"));
  EXPECT_THAT(StatusText(one), HasSubstr("buffer 1"));
  EXPECT_FALSE(buffers_.CheckContents(1).ok());
  EXPECT_TRUE(buffers_.CheckContents(2).ok());
  EXPECT_TRUE(buffers_.CheckContents(3).ok());
  EXPECT_TRUE(absl::IsCancelled(binding_->Lose(2, true, absl::CancelledError("why"))));
  EXPECT_FALSE(buffers_.CheckContents(3).ok());
}

TEST_F(BindingTest, AConstantIsReadAndNotWritten) {
  const uint64_t handle = 7;
  ASSERT_TRUE(buffers_.Create(handle, device_, 16).ok());
  ASSERT_TRUE(buffers_.Write(devices_, handle, 0, x_).ok());
  ASSERT_TRUE(buffers_.MakeConstant(handle, {}, {.sha256 = HashBytes(x_)}).ok());
  arguments_ = {{.buffer = 1}, {.buffer = handle}, {.buffer = 2}};
  EXPECT_TRUE(Bind().ok());
  // As a slot that is written, as one that is read and written, and with data of the call.
  for (const std::vector<Argument>& wrong :
       {std::vector<Argument>{{.buffer = handle}, {.buffer = 1}, {.buffer = 2}},
        std::vector<Argument>{{.buffer = 1}, {.data = x_}, {.buffer = handle}},
        std::vector<Argument>{{.buffer = 1}, {.buffer = handle, .data = x_}, {.buffer = 2}}}) {
    arguments_ = wrong;
    const absl::Status refused = Bind().status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(StatusText(refused), HasSubstr("buffer 7 is a constant"));
  }
}

TEST_F(BindingTest, AnErrorLeavesNothing) {
  const size_t before = device_.device().memory().used_bytes;
  arguments_ = {{.buffer = 1}, {.data = x_}, {.buffer = 2}};
  quota_.set_limit(3 * ChargedBytes(16));  // too little for the arena
  const absl::Status status = Bind().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(status), HasSubstr("intermediate values"));
  EXPECT_EQ(quota_.used(), 0);
  EXPECT_EQ(buffers_.size(), 0u);
  EXPECT_EQ(device_.device().memory().used_bytes, before);
}

TEST_F(BindingTest, VariablesStayInTheirBounds) {
  program_.variables.push_back({.name = "n", .min = 1, .max = 4});
  arguments_ = {{}, {.data = x_}};
  EXPECT_THAT(StatusText(Bind().status()), HasSubstr("0 values for 1 variables"));
  for (const int64_t value : {0, 5}) {
    variables_ = {value};
    EXPECT_THAT(StatusText(Bind().status()), HasSubstr("variable n")) << value;
  }
  variables_ = {4};
  EXPECT_TRUE(Bind().ok());
}

// Processor time of Bind for n slots with buffers of their own and n that share one.
double BindSeconds(DeviceState& device, size_t n) {
  Program program;
  program.slots.resize(2 * n);
  for (ProgramSlot& slot : program.slots) {
    slot.info.dtype = ir::Dtype::I8, slot.info.bytes = 1, slot.info.dims = {1};
    slot.info.used = slot.info.read = true;
    slot.device = &device;
  }
  program.devices = {&device};
  Quota quota{"limits.session_bytes", 1 << 30};
  BufferStore buffers(quota);
  std::vector<Argument> arguments(2 * n);
  for (size_t i = 0; i < n; ++i) {
    arguments[i].buffer = i + 2;
    arguments[n + i].buffer = 1;
    arguments[i].data = "x";
  }
  EXPECT_TRUE(buffers.Create(1, device, 1).ok());
  auto streams = Streams::Take(program);
  EXPECT_TRUE(streams.ok());
  timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  const auto bound = Binding::Bind(program, buffers, *streams, {arguments, {}, {}}, RunLimits{});
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  EXPECT_TRUE(bound.ok()) << StatusText(bound.status());
  return static_cast<double>(end.tv_sec - begin.tv_sec) +
         1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
}

TEST_F(BindingTest, TakesTimeInProportionToTheSlots) {
  const double small = std::min(BindSeconds(device_, 1000), BindSeconds(device_, 1000));
  const double large = BindSeconds(device_, 16000);
  EXPECT_LT(large, 16 * small * 4 + 0.01)
      << small << " s for 2,000 slots, " << large << " s for 32,000";
}

}  // namespace
}  // namespace uopd::engine
