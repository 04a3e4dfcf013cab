// SPDX-License-Identifier: MIT
// Whatever happens to the file, the store opens and answers.
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "cache/sqlite/database.h"
#include "cache/sqlite/transaction.h"
#include "tests/unit/cache/fixture.h"

extern char** environ;

namespace uopd::cache {
namespace {

class FaultTest : public StoreFixture {
 protected:
  // Puts work, and what is put can be read.
  void ExpectUsable(Store& store) {
    ASSERT_TRUE(store.Put(KeyOf(5000), "fresh", 1).ok()) << store.health().reason;
    EXPECT_EQ(store.Get(KeyOf(5000)).entry.bytes, "fresh");
    store.Flush().IgnoreError();
    EXPECT_EQ(store.Get(KeyOf(5000)).entry.bytes, "fresh");
    now_us_ += 2000;  // past the lease of an earlier call
    EXPECT_TRUE(store.TryLease(KeyOf(5001), "me", 1000).granted());
  }
  void ExpectRecovered(int set_aside) {
    auto store = Open();
    EXPECT_EQ(store->state(), State::kRecovered) << store->health().reason;
    EXPECT_EQ(CountFiles(".corrupt-"), set_aside);
    EXPECT_FALSE(store->stats().Snapshot("kernel").degraded);
    ExpectUsable(*store);
    EXPECT_EQ(store->Get(KeyOf(5000)).source, Source::kDisk);
  }
  void Make(int rows = 100) {
    auto store = Open();
    Fill(*store, rows);
  }
  void SetVersion(int64_t version) {
    auto db = sqlite::Database::Open(path(), {});
    ASSERT_TRUE(db.ok());
    ASSERT_TRUE((*db)->SetPragma("user_version", version).ok());
  }
  std::string Bytes() {
    std::stringstream out;
    out << std::ifstream(path(), std::ios::binary).rdbuf();
    return out.str();
  }
};

TEST_F(FaultTest, MissingFolderIsMade) {
  options_.folder = folder_ + "/a/b";
  auto store = Open();
  EXPECT_EQ(store->state(), State::kOk) << store->health().reason;
  ExpectUsable(*store);
}

TEST_F(FaultTest, TruncatedFileIsSetAside) {
  Make();
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) / 2);
  ExpectRecovered(1);
}

TEST_F(FaultTest, EmptyFileStartsAfresh) {
  std::ofstream(path()).close();
  auto store = Open();
  EXPECT_EQ(store->state(), State::kOk) << store->health().reason;
  ExpectUsable(*store);
}

TEST_F(FaultTest, NoiseIsSetAsideAndTwoAreKept) {
  for (int round = 1; round <= 4; ++round) {
    Make();
    WriteNoise(round % 2 == 0 ? 0 : 4096);  // with and without its header
    ExpectRecovered(std::min(round, 2));
  }
  EXPECT_TRUE(std::filesystem::exists(path() + ".corrupt-4"));
  EXPECT_FALSE(std::filesystem::exists(path() + ".corrupt-2"));
}

TEST_F(FaultTest, NoiseInTheJournalIsNoHarm) {
  Make();
  {
    auto store = Open();
    Fill(*store, 10);
  }
  std::ofstream(path() + "-journal", std::ios::binary) << std::string(100000, 'n');
  auto store = Open();
  EXPECT_NE(store->state(), State::kMemory) << store->health().reason;
  ExpectUsable(*store);
}

// A rollback by one version: each version keeps its rows in a file of its own, and finds them
// again.
TEST_F(FaultTest, ANewerVersionIsLeftAsItIs) {
  Make();
  SetVersion(99);
  const std::string before = Bytes();
  for (int start = 0; start < 2; ++start) {
    auto store = Open();
    EXPECT_EQ(store->state(), State::kOk);
    EXPECT_EQ(store->health().fault, Fault::kNewer);
    EXPECT_NE(store->health().reason.find("A newer uopd wrote the file"), std::string::npos)
        << store->health().reason;
    EXPECT_NE(store->health().reason.find("uopd-cache-v4.sqlite"), std::string::npos)
        << store->health().reason;
    EXPECT_FALSE(store->Get(KeyOf(1)).hit());
    EXPECT_EQ(store->Get(KeyOf(5000)).hit(), start > 0);  // of the start before
    ExpectUsable(*store);
    ASSERT_TRUE(store->Flush().ok());
    EXPECT_EQ(store->Get(KeyOf(5000)).source, Source::kDisk);
  }
  EXPECT_EQ(Bytes(), before);
  EXPECT_EQ(CountFiles(".version-1"), 0);
  SetVersion(schema::kUserVersion);  // as the newer version, which knows it
  auto store = Open();
  EXPECT_EQ(store->state(), State::kOk);
  EXPECT_EQ(store->health().fault, Fault::kNone);
  EXPECT_TRUE(store->Get(KeyOf(1)).hit());
}

// A daemon that may only read has nowhere else to go.
TEST_F(FaultTest, ANewerVersionIsNotReadEither) {
  Make();
  SetVersion(99);
  options_.file.read_only = true;
  auto store = Open();
  EXPECT_EQ(store->state(), State::kMemory);
  EXPECT_EQ(store->health().fault, Fault::kNewer);
  EXPECT_EQ(CountFiles("uopd-cache-v4"), 0);
}

// The file that a rollback used goes when it has been of no use for a month.
TEST_F(FaultTest, TheFileOfARollbackGoesInTime) {
  Make();
  SetVersion(99);
  Make();
  SetVersion(schema::kUserVersion);
  const std::string beside = folder_ + "/uopd-cache-v4.sqlite";
  ASSERT_TRUE(std::filesystem::exists(beside));
  Open();
  EXPECT_TRUE(std::filesystem::exists(beside));
  std::filesystem::last_write_time(
      beside, std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * 31));
  Open();
  EXPECT_FALSE(std::filesystem::exists(beside));
}

TEST_F(FaultTest, Version2IsBroughtToThePresentVersion) {
  const std::string old = folder_ + "/" + schema::kFileNameOfVersion2;
  Make(3);
  {
    auto db = sqlite::Database::Open(path(), {});
    ASSERT_TRUE(db.ok());
    ASSERT_TRUE((*db)
                    ->Execute("DROP TABLE pin; CREATE TABLE lease(address); CREATE TABLE fence(id);"
                              "PRAGMA user_version=2")
                    .ok());
  }
  std::filesystem::rename(path(), old);
  auto store = Open();
  EXPECT_EQ(store->state(), State::kOk);
  EXPECT_EQ(store->health().reason, "The cache file was brought from version 2 to version 4");
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_EQ(store->Get(KeyOf(2)).entry.bytes, ValueOf(2));
  ExpectUsable(*store);
  store = Open();
  EXPECT_EQ(store->health().reason, "");
  EXPECT_EQ(store->Get(KeyOf(2)).entry.bytes, ValueOf(2));
  EXPECT_EQ(CountFiles(".version-"), 0);
}

TEST_F(FaultTest, AnOlderVersionIsSetAside) {
  Make();
  SetVersion(1);
  auto store = Open();
  EXPECT_EQ(store->state(), State::kRecovered);
  EXPECT_EQ(CountFiles(".version-1"), 1);
  EXPECT_EQ(store->Get(KeyOf(1)).outcome, GetOutcome::kMiss);
  ExpectUsable(*store);
}

TEST_F(FaultTest, NoiseWhileRunningHeals) {
  Make(300);
  options_.file.page_cache_kib = 1;
  auto store = Open();
  EXPECT_EQ(store->state(), State::kOk) << store->health().reason;
  WriteNoise(4096);
  int hits = 0;
  for (int i = 0; i < 300; ++i) {
    GetResult found = store->Get(KeyOf(i));
    if (found.hit()) {
      EXPECT_EQ(found.entry.bytes, ValueOf(i));
      ++hits;
    }
  }
  EXPECT_LT(hits, 300);
  ExpectUsable(*store);
  EXPECT_EQ(store->state(), State::kRecovered) << store->health().reason;
  EXPECT_EQ(CountFiles(".corrupt-1"), 1);
  ExpectUsable(*store);
  store.reset();
  store = Open();
  EXPECT_EQ(store->state(), State::kOk) << store->health().reason;
  EXPECT_EQ(store->Get(KeyOf(5000)).entry.bytes, "fresh");  // closing the old file did not harm
}

TEST_F(FaultTest, TheOtherDaemonFollowsToTheNewFile) {
  Make();
  auto a = Open(), b = Open();
  std::filesystem::rename(path(), path() + ".corrupt-1");
  ASSERT_TRUE(a->Put(KeyOf(1), "after", 1).ok());
  ASSERT_TRUE(a->Flush().ok());
  ASSERT_TRUE(b->Flush().ok());
  EXPECT_EQ(a->state(), State::kRecovered);
  EXPECT_EQ(b->state(), State::kRecovered);
  EXPECT_EQ(b->Get(KeyOf(1)).entry.bytes, "after");
  a.reset();
  ExpectUsable(*b);
}

TEST_F(FaultTest, ReadOnlyByOptionReadsAndKeepsInMemory) {
  Make();
  options_.file.read_only = true;
  auto store = Open();
  EXPECT_EQ(store->state(), State::kReadOnly);
  EXPECT_EQ(store->Get(KeyOf(7)).entry.bytes, ValueOf(7));
  ExpectUsable(*store);
  EXPECT_EQ(store->Get(KeyOf(5000)).source, Source::kMemory);
  EXPECT_TRUE(store->stats().Snapshot("kernel").degraded);
  EXPECT_TRUE(absl::IsPermissionDenied(store->Clear("")));
}

TEST_F(FaultTest, ReadOnlyWithoutAFileIsMemory) {
  options_.file.read_only = true;
  auto store = Open();
  EXPECT_EQ(store->state(), State::kMemory);
  ExpectUsable(*store);
}

TEST_F(FaultTest, ReadOnlyAndDamagedIsMemoryAndTouchesNothing) {
  Make();
  WriteNoise(0);
  options_.file.read_only = true;
  auto store = Open();
  EXPECT_EQ(store->state(), State::kMemory);
  EXPECT_EQ(CountFiles(".corrupt-"), 0);
  ExpectUsable(*store);
}

TEST_F(FaultTest, ReadOnlyFileAndFolderByPermission) {
  if (geteuid() == 0) GTEST_SKIP() << "permissions do not bind root";
  Make();
  chmod(path().c_str(), 0444);
  chmod(folder_.c_str(), 0555);
  auto store = Open();
  EXPECT_EQ(store->state(), State::kReadOnly) << store->health().reason;
  EXPECT_EQ(store->Get(KeyOf(7)).entry.bytes, ValueOf(7));
  ExpectUsable(*store);
}

TEST_F(FaultTest, UnwritableFolderIsMemory) {
  for (const char* folder : {"/proc/uopd-cache", "/dev/null/uopd-cache"}) {
    options_.folder = folder;
    auto store = Open();
    EXPECT_EQ(store->state(), State::kMemory);
    EXPECT_NE(store->health().reason.find(folder), std::string::npos);
    ExpectUsable(*store);
  }
}

// Mapped files would end the process with SIGBUS.
TEST_F(FaultTest, FilesThatShrinkOrVanishUnderLoadEndNothing) {
  Make(300);
  options_.file.page_cache_kib = 1;
  auto a = Open(), b = Open();  // as two daemons
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (Store* store : {static_cast<Store*>(a.get()), static_cast<Store*>(b.get())}) {
    threads.emplace_back([&, store] {
      for (int i = 0; !stop; i = (i + 1) % 300) {
        if (GetResult found = store->Get(KeyOf(i)); found.hit()) {
          EXPECT_EQ(found.entry.bytes, ValueOf(i));
        }
        store->TryLease(KeyOf(1000 + i), "me", 1).granted();
      }
    });
    threads.emplace_back([&, store] {
      for (int i = 0; !stop; i = (i + 1) % 300) {
        store->Put(KeyOf(i), ValueOf(i), 1).IgnoreError();
        if (i % 10 == 0) store->Flush().IgnoreError();
      }
    });
  }
  std::error_code ignored;
  for (int round = 0; round < 60; ++round) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
      if (entry.path().extension() == ".lock") continue;
      switch (round % 3) {
        case 0:
          std::filesystem::resize_file(entry.path(), 0, ignored);
          break;
        case 1:
          std::filesystem::resize_file(entry.path(), 5000, ignored);
          break;
        default:
          std::filesystem::remove(entry.path(), ignored);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    now_us_ += options_.retry_us;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (Store* store : {a.get(), b.get()}) {
    now_us_ += options_.retry_us;
    store->Flush().IgnoreError();
    ExpectUsable(*store);
  }
}

TEST_F(FaultTest, FullDiskEvictsThenFallsBackAndRecovers) {
  options_.file.max_pages = 60;  // 240 KB
  auto store = Open();
  for (int i = 0; i < 600; ++i) {
    ASSERT_TRUE(store->Put(KeyOf(i), ValueOf(i), 100).ok());
    now_us_ += 60'000'000;  // more than a few bytes of size can outweigh
  }
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_EQ(store->state(), State::kOk) << store->health().reason;  // made room for itself
  EXPECT_GT(store->stats().Snapshot("kernel").evictions, 100);
  EXPECT_TRUE(store->Get(KeyOf(599)).hit());
  // What does not fit at all.
  ASSERT_TRUE(store->Put(KeyOf(700), ValueOf(700, 400'000), 100).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(store->Flush()));
  EXPECT_EQ(store->state(), State::kReadOnly);
  EXPECT_TRUE(store->stats().Snapshot("kernel").degraded);
  EXPECT_EQ(store->stats().Snapshot("kernel").put_errors, 1);
  EXPECT_EQ(store->Get(KeyOf(700)).source, Source::kMemory);
  EXPECT_EQ(store->Get(KeyOf(599)).source, Source::kDisk);
  ExpectUsable(*store);
  now_us_ += options_.retry_us;
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_EQ(store->state(), State::kOk);
  EXPECT_FALSE(store->stats().Snapshot("kernel").degraded);
  ASSERT_TRUE(store->Put(KeyOf(701), "small", 100).ok());
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_EQ(store->Get(KeyOf(701)).source, Source::kDisk);
}

TEST_F(FaultTest, FullFromTheStartIsMemory) {
  options_.file.max_pages = 2;
  auto store = Open();
  EXPECT_EQ(store->state(), State::kMemory) << store->health().reason;
  ExpectUsable(*store);
}

TEST_F(FaultTest, AWriteLockElsewhereDelaysButDoesNotFail) {
  GiveUpSoonOnLocks();
  Make();
  auto db = sqlite::Database::Open(path(), {});
  ASSERT_TRUE(db.ok());
  std::unique_ptr<Store> store;
  {
    sqlite::Transaction lock(**db);
    ASSERT_TRUE(lock.Begin().ok());
    store = Open();
    EXPECT_EQ(store->state(), State::kOk) << store->health().reason;
    EXPECT_TRUE(store->Get(KeyOf(3)).hit());
    ASSERT_TRUE(store->Put(KeyOf(500), "waits", 1).ok());
    EXPECT_TRUE(absl::IsUnavailable(store->Flush()));
    EXPECT_EQ(store->Get(KeyOf(500)).source, Source::kMemory);
    // A lease needs no lock of the cache file. It is held until others can read the value.
    const LeaseResult lease = store->TryLease(KeyOf(501), "me", 1000);
    ASSERT_TRUE(lease.granted());
    ASSERT_TRUE(store->PutFenced(KeyOf(501), "waits too", 1, lease.token).ok());
    EXPECT_TRUE(store->leases().IsHeld(KeyOf(501).address()));
    EXPECT_EQ(store->state(), State::kOk);
  }
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_EQ(store->Get(KeyOf(500)).source, Source::kDisk);
  EXPECT_EQ(store->Get(KeyOf(501)).entry.bytes, "waits too");
  EXPECT_FALSE(store->leases().IsHeld(KeyOf(501).address()));
}

TEST_F(FaultTest, FullQueueRefusesInsteadOfGrowing) {
  GiveUpSoonOnLocks();
  Make(1);
  auto db = sqlite::Database::Open(path(), {});
  ASSERT_TRUE(db.ok());
  options_.queue.max_ops = 10;
  options_.queue.put_wait = std::chrono::milliseconds(0);
  auto store = Open();
  {
    sqlite::Transaction lock(**db);
    ASSERT_TRUE(lock.Begin().ok());
    int refused = 0;
    std::vector<bool> kept;
    // Nothing but puts: looks take so long that the writer gives up a batch and takes the next one.
    for (int i = 0; i < 100; ++i) {
      const absl::Status status = store->Put(KeyOf(i), ValueOf(i), 1);
      refused += absl::IsResourceExhausted(status);
      kept.push_back(status.ok());
    }
    EXPECT_GE(refused, 80);
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(store->Get(KeyOf(i)).hit(), kept[static_cast<size_t>(i)] || i == 0);
    EXPECT_EQ(store->stats().Snapshot("kernel").put_errors, refused);
  }
  EXPECT_TRUE(store->Flush().ok());
}

// Runs in a process of its own, started by the test below: puts, and says on stdout what is
// durable.
TEST_F(FaultTest, DISABLED_PutForEver) {
  options_.folder = getenv("UOPD_CACHE_TEST_FOLDER");
  const int out = atoi(getenv("UOPD_CACHE_TEST_FD"));
  auto store = Open();
  for (int i = 0;; ++i) {
    ASSERT_TRUE(store->Put(KeyOf(i), ValueOf(i), 1).ok());
    if (i % 7 == 0) {
      ASSERT_TRUE(store->Flush().ok());
      ASSERT_EQ(write(out, &i, sizeof i), ssize_t{sizeof i});
    }
  }
}

TEST_F(FaultTest, KilledInTheMiddleOfPutsKeepsWhatWasFlushed) {
  for (int round = 0; round < 3; ++round) {
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    setenv("UOPD_CACHE_TEST_FOLDER", folder_.c_str(), 1);
    setenv("UOPD_CACHE_TEST_FD", std::to_string(pipe_fds[1]).c_str(), 1);
    unsetenv("GTEST_TOTAL_SHARDS");  // the filter names the one test
    unsetenv("GTEST_SHARD_INDEX");
    std::string program = "/proc/self/exe", filter = "--gtest_filter=FaultTest.DISABLED_PutForEver",
                disabled = "--gtest_also_run_disabled_tests", quiet = "--gtest_brief=1";
    char* argv[] = {program.data(), filter.data(), disabled.data(), quiet.data(), nullptr};
    pid_t child;
    ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, argv, environ), 0);
    close(pipe_fds[1]);
    int durable = -1, value;
    while (durable < 200 + 70 * round && read(pipe_fds[0], &value, sizeof value) > 0)
      durable = value;
    kill(child, SIGKILL);
    while (read(pipe_fds[0], &value, sizeof value) == ssize_t{sizeof value}) durable = value;
    close(pipe_fds[0]);
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_GE(durable, 200);
    auto store = Open();
    EXPECT_EQ(store->state(), State::kOk) << store->health().reason;
    for (int i = 0; i <= durable; ++i) ASSERT_EQ(store->Get(KeyOf(i)).entry.bytes, ValueOf(i)) << i;
    EXPECT_EQ(store->stats().Snapshot("kernel").corrupt, 0);
    ExpectUsable(*store);
  }
}

}  // namespace
}  // namespace uopd::cache
