// SPDX-License-Identifier: MIT
#include "server/engine/content/content_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "tests/support/eventually.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using test::Eventually;
using ::testing::HasSubstr;

class ContentStoreTest : public ::testing::Test {
 protected:
  ContentStoreTest() { Restart(); }
  ~ContentStoreTest() override {
    store_ = nullptr;
    std::filesystem::remove_all(folder_);
  }
  void Restart() {
    store_ = nullptr;
    store_ = std::make_unique<ContentStore>(folder_, limits_, total_);
  }
  std::shared_ptr<devices::Buffer> BufferOf(const std::string& contents) {
    auto buffer = device_->device().Allocate(contents.size(), devices::MemoryKind::kDevice);
    EXPECT_TRUE(buffer.ok());
    auto stream = StreamLease::Take(*device_);
    EXPECT_TRUE((*stream)->CopyIn(std::as_bytes(std::span(contents)), **buffer, 0).ok());
    EXPECT_TRUE(stream->Finish().ok());
    return *buffer;
  }
  std::string ContentsOf(const Allocation& allocation) {
    std::string out(allocation.buffer->size(), '?');
    auto stream = StreamLease::Take(*device_);
    EXPECT_TRUE(
        (*stream)->CopyOut(*allocation.buffer, 0, std::as_writable_bytes(std::span(out))).ok());
    EXPECT_TRUE(stream->Finish().ok());
    return out;
  }
  absl::StatusOr<ContentStore::Bound> Share(const std::string& contents) {
    return store_->Share(HashBytes(contents), BufferOf(contents), *device_, session_, {});
  }
  // By somebody who has `known`, in the session "s".
  absl::StatusOr<std::optional<ContentStore::Bound>> Open(const std::string& contents,
                                                          const std::string& known,
                                                          Quota& of_session) {
    ContentHasher hasher(store_->key().view());
    hasher.Update(known);
    return store_->Open(HashBytes(contents), contents.size(),
                        ProofOfPossession("s", hasher.Finish().tag), "s", *device_, of_session, {});
  }
  bool AwaitDisk(size_t contents) {
    return Eventually([&] { return store_->usage().files.contents == contents; });
  }

  const std::string folder_ = Cat(::testing::TempDir(), "/content_store.", getpid());
  DeviceSet devices_{NullRegistry()};
  DeviceState* const device_ = *devices_.Get("");
  Quota total_{"limits.total_bytes", 64 << 20};
  Quota session_{"limits.session_bytes", 32 << 20, &total_};
  Quota other_{"limits.session_bytes", 32 << 20, &total_};
  ContentStore::Limits limits_{.memory_bytes = 16 << 20, .disk_bytes = 1 << 30};
  std::unique_ptr<ContentStore> store_;
};

const std::string& SomeWeights() {
  static const auto& weights = *new std::string(3'000'000, 'w');
  return weights;
}

TEST_F(ContentStoreTest, IsChargedOnceInAllAndToEachSession) {
  const int64_t bytes = ChargedBytes(static_cast<int64_t>(SomeWeights().size()));
  auto mine = Share(SomeWeights());
  ASSERT_TRUE(mine.ok()) << mine.status();
  auto theirs = Open(SomeWeights(), SomeWeights(), other_);
  ASSERT_TRUE(theirs.ok() && *theirs) << theirs.status();
  EXPECT_EQ((*theirs)->allocation.buffer, mine->allocation.buffer);
  EXPECT_NE((*theirs)->constant.maybe_shared, nullptr);
  EXPECT_EQ(total_.used(), bytes);
  EXPECT_EQ(session_.used(), bytes);
  EXPECT_EQ(other_.used(), bytes);
  ASSERT_TRUE(AwaitDisk(1));  // the writer uses it, too
  mine = absl::CancelledError();
  *theirs = std::nullopt;
  EXPECT_EQ(session_.used(), 0);
  EXPECT_EQ(other_.used(), 0);
  EXPECT_EQ(total_.used(), bytes);
  EXPECT_TRUE(Eventually([&] { return store_->usage().memory.used_bytes == 0; }));
  EXPECT_TRUE(store_->Drop());
  EXPECT_EQ(total_.used(), 0);
}

TEST_F(ContentStoreTest, OnlyWhoHasTheContentsOpensThem) {
  ASSERT_TRUE(Share(SomeWeights()).ok());
  std::string almost = SomeWeights();
  almost[1'234'567] = 'v';
  for (const std::string& known : {std::string(), almost, HashBytes(SomeWeights()).Hex()}) {
    const auto opened = Open(SomeWeights(), known, other_);
    ASSERT_TRUE(opened.ok());
    EXPECT_FALSE(*opened);
  }
  // The same as for contents that are not there.
  const auto absent = Open(almost, almost, other_);
  ASSERT_TRUE(absent.ok());
  EXPECT_FALSE(*absent);
  EXPECT_EQ(other_.used(), 0);
  // A proof for another session.
  ContentHasher hasher(store_->key().view());
  hasher.Update(SomeWeights());
  const Digest proof = ProofOfPossession("s", hasher.Finish().tag);
  const auto replayed = store_->Open(HashBytes(SomeWeights()), SomeWeights().size(), proof, "t",
                                     *device_, other_, {});
  EXPECT_FALSE(*replayed);
  EXPECT_TRUE(*Open(SomeWeights(), SomeWeights(), other_));
}

TEST_F(ContentStoreTest, AWrongDigestKeepsNothing) {
  const auto shared =
      store_->Share(HashBytes("else"), BufferOf("contents"), *device_, session_, {});
  EXPECT_TRUE(absl::IsInvalidArgument(shared.status()));
  EXPECT_THAT(shared.status().ToString(), HasSubstr(HashBytes("contents").Hex()));
  EXPECT_EQ(store_->usage().memory.contents, 0u);
  EXPECT_FALSE(*Open("contents", "contents", other_));
}

TEST_F(ContentStoreTest, AWarmDiskServesAfterARestart) {
  ASSERT_TRUE(Share(SomeWeights()).ok());
  ASSERT_TRUE(AwaitDisk(1));
  Restart();
  EXPECT_EQ(store_->usage().memory.contents, 0u);
  EXPECT_FALSE(*Open(SomeWeights(), "", other_));
  const auto opened = Open(SomeWeights(), SomeWeights(), other_);
  ASSERT_TRUE(opened.ok() && *opened) << opened.status();
  EXPECT_EQ(ContentsOf((*opened)->allocation), SomeWeights());
  EXPECT_EQ(other_.used(), ChargedBytes(static_cast<int64_t>(SomeWeights().size())));
  EXPECT_EQ(total_.used(), other_.used());
  EXPECT_EQ(store_->usage().memory.contents, 1u);
}

TEST_F(ContentStoreTest, ADamagedFileIsAbsent) {
  ASSERT_TRUE(Share(SomeWeights()).ok());
  ASSERT_TRUE(AwaitDisk(1));
  Restart();
  const std::string path = Cat(folder_, "/", HashBytes(SomeWeights()).Hex());
  std::filesystem::resize_file(path, 1'000'000);
  std::filesystem::resize_file(path, SomeWeights().size() + ContentFiles::kHeaderBytes);
  const auto opened = Open(SomeWeights(), SomeWeights(), other_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_FALSE(*opened);
  EXPECT_EQ(other_.used(), 0);
  EXPECT_EQ(store_->usage().files.contents, 0u);
  EXPECT_EQ(store_->usage().memory.contents, 0u);
}

TEST_F(ContentStoreTest, WhatHasNoRoomIsTheSessionsOwn) {
  ASSERT_TRUE(Share(SomeWeights()).ok());
  ASSERT_TRUE(AwaitDisk(1));
  limits_.memory_bytes = 1 << 20;
  Restart();
  auto loaded = Open(SomeWeights(), SomeWeights(), other_);
  ASSERT_TRUE(loaded.ok() && *loaded) << loaded.status();
  EXPECT_EQ(ContentsOf((*loaded)->allocation), SomeWeights());
  EXPECT_EQ((*loaded)->constant.maybe_shared, nullptr);
  EXPECT_EQ(store_->usage().memory.contents, 0u);
  const auto shared = Share(SomeWeights());
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(shared->allocation.buffer, nullptr);  // it keeps the memory that it has
  EXPECT_EQ(session_.used(), 0);
}

TEST_F(ContentStoreTest, AFullSessionIsToldItsLimit) {
  ASSERT_TRUE(Share(SomeWeights()).ok());
  other_.set_limit(1 << 20);
  const auto opened = Open(SomeWeights(), SomeWeights(), other_);
  EXPECT_TRUE(absl::IsResourceExhausted(opened.status()));
  EXPECT_THAT(opened.status().ToString(), HasSubstr("limits.session_bytes"));
}

TEST_F(ContentStoreTest, ACancelledCallKeepsNothing) {
  const WorkLimits cancelled{.cancelled = [] { return true; }};
  const auto shared = store_->Share(HashBytes(SomeWeights()), BufferOf(SomeWeights()), *device_,
                                    session_, cancelled);
  EXPECT_TRUE(absl::IsCancelled(shared.status()));
  EXPECT_EQ(store_->usage().memory.contents, 0u);
  ASSERT_TRUE(Share(SomeWeights()).ok());
  ASSERT_TRUE(AwaitDisk(1));
  Restart();
  ContentHasher hasher(store_->key().view());
  hasher.Update(SomeWeights());
  const Digest proof = ProofOfPossession("s", hasher.Finish().tag);
  const auto opened = store_->Open(HashBytes(SomeWeights()), SomeWeights().size(), proof, "s",
                                   *device_, session_, cancelled);
  EXPECT_TRUE(absl::IsCancelled(opened.status()));
  EXPECT_EQ(session_.used(), 0);
  EXPECT_EQ(store_->usage().files.contents, 1u);
}

}  // namespace
}  // namespace uopd::engine
