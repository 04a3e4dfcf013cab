// SPDX-License-Identifier: MIT
#include "server/net/stream_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace uopd::net {
namespace {

struct Item {
  int number = 0;
  size_t size = 1;
  bool more = false;  // of an answer
  size_t bytes() const { return size; }
};

// What a transport and a server do, one event at a time, as the test says.
class Stepped final : public StreamFlow<Item, Item> {
 public:
  explicit Stepped(size_t max_bytes) : StreamFlow(max_bytes) {}

  bool later = false;       // calls are served later
  size_t answer_bytes = 1;  // of each answer
  int repeats = 0;          // answers of a request behind the first one
  int reads = 0, ends = 0;
  int depth = 0, deepest = 0;
  std::vector<int> served, written;

 private:
  void StartRead() override { ++reads; }
  void StartWrite(const Item& answer) override { written.push_back(answer.number); }
  std::optional<Item> Serve(Item& request) override {
    deepest = std::max(deepest, ++depth);
    served.push_back(request.number);
    --depth;
    if (later) return std::nullopt;
    if (left_ == 0) left_ = repeats + 1;
    return Item{request.number, answer_bytes, --left_ > 0};
  }
  void End() override { ++ends; }

  int left_ = 0;
};

TEST(StreamFlowTest, ARequestOfSeveralAnswersIsServedAgainBeforeTheNext) {
  Stepped flow(100);
  flow.repeats = 2;
  flow.Begin();
  flow.OnReadDone(true, {1});
  flow.OnReadDone(true, {2});
  flow.OnReadDone(false, {});
  EXPECT_EQ(flow.served, std::vector<int>({1, 1, 1, 2, 2, 2}));
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(flow.ends, 0);
    flow.OnWriteDone(true);
  }
  EXPECT_EQ(flow.written, std::vector<int>({1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(flow.ends, 1);
}

TEST(StreamFlowTest, AnswersOfOneRequestAreBoundedAndEndWithTheStream) {
  Stepped flow(10);
  flow.repeats = 1000;
  flow.answer_bytes = 4;
  flow.Begin();
  flow.OnReadDone(true, {1});
  EXPECT_EQ(flow.served.size(), 3U);  // 12 bytes are held
  flow.OnWriteDone(true);
  EXPECT_EQ(flow.served.size(), 4U);
  flow.OnReadDone(false, {});
  EXPECT_EQ(flow.ends, 0);
  flow.OnWriteDone(false);  // broken
  EXPECT_EQ(flow.served.size(), 4U);
  EXPECT_EQ(flow.ends, 1);
}

TEST(StreamFlowTest, AnswersComeInOrderAndTheStreamEndsOnceAfterTheLast) {
  Stepped flow(100);
  flow.Begin();
  EXPECT_EQ(flow.reads, 1);
  flow.OnReadDone(true, {1});
  flow.OnReadDone(true, {2});
  EXPECT_EQ(flow.written, std::vector<int>({1}));  // one is written at a time
  flow.OnReadDone(false, {});
  flow.OnWriteDone(true);
  EXPECT_EQ(flow.ends, 0);
  flow.OnWriteDone(true);
  EXPECT_EQ(flow.written, std::vector<int>({1, 2}));
  EXPECT_EQ(flow.ends, 1);
}

TEST(StreamFlowTest, ACallInProgressKeepsABrokenStreamFromEnding) {
  Stepped flow(100);
  flow.later = true;
  flow.Begin();
  flow.OnReadDone(true, {1});
  flow.OnReadDone(true, {2});
  flow.OnServed({1});
  flow.OnWriteDone(false);  // broken; 2 is being served
  flow.OnReadDone(false, {});
  EXPECT_EQ(flow.ends, 0);
  flow.OnServed({2});
  EXPECT_EQ(flow.ends, 1);
}

TEST(StreamFlowTest, AClientThatDoesNotReadIsReadNoMore) {
  Stepped flow(10);
  flow.answer_bytes = 6;
  flow.Begin();
  int sent = 0;
  for (; sent < 100 && flow.reads > sent; ++sent) flow.OnReadDone(true, {sent, 1});
  EXPECT_EQ(flow.served.size(), 2U);  // their answers of 12 bytes are held
  EXPECT_EQ(sent, 3);                 // read while the second one was served
  flow.OnWriteDone(true);             // there is room again
  EXPECT_EQ(flow.served.size(), 3U);
  EXPECT_EQ(flow.reads, 4);
}

TEST(StreamFlowTest, ManyAnswersToFewBytesOfRequestsAreBoundedToo) {
  Stepped flow(10);
  flow.answer_bytes = 8;
  flow.later = true;
  flow.Begin();
  for (int i = 0; i < 9; ++i) flow.OnReadDone(true, {i, 1});  // one is served, eight wait
  flow.OnServed({0, 8});
  flow.OnServed({1, 8});
  EXPECT_EQ(flow.served.size(), 2U);  // 16 bytes are held: the others wait
  flow.OnWriteDone(true);
  EXPECT_EQ(flow.served.size(), 3U);
}

TEST(StreamFlowTest, ALongQueueIsServedWithoutRecursion) {
  Stepped flow(1 << 20);
  flow.later = true;
  flow.Begin();
  constexpr int kCalls = 100'000;
  for (int i = 0; i < kCalls; ++i) flow.OnReadDone(true, {i});
  flow.later = false;
  flow.OnServed({0});
  EXPECT_EQ(flow.served.size(), static_cast<size_t>(kCalls));
  EXPECT_EQ(flow.deepest, 1);
}

TEST(StreamFlowTest, ClosingEndsAnIdleStreamAndLetsACallFinish) {
  Stepped idle(100);
  idle.Begin();
  idle.Close();
  EXPECT_EQ(idle.ends, 1);
  idle.OnReadDone(false, {});  // of the read that was going on
  EXPECT_EQ(idle.ends, 1);

  Stepped busy(100);
  busy.later = true;
  busy.Begin();
  busy.OnReadDone(true, {1});
  busy.Close();
  EXPECT_EQ(busy.ends, 0);
  busy.OnServed({1});
  EXPECT_EQ(busy.ends, 0);
  busy.OnWriteDone(true);
  EXPECT_EQ(busy.written, std::vector<int>({1}));
  EXPECT_EQ(busy.ends, 1);
}

// A lock after whose release the transport's next event comes at once, on "another thread": what is
// not decided in one critical section is decided too late.
class UOPD_TSA(scoped_lockable) EventfulLock {
 public:
  static inline std::vector<std::function<void()>> events;
  static inline bool ended = false;
  static inline int uses_after_end = 0;

  explicit EventfulLock(Mutex& mu) UOPD_ACQUIRE(mu) : lock_(mu) { uses_after_end += ended; }
  ~EventfulLock() UOPD_RELEASE() {}

 private:
  struct Next {
    ~Next() {
      if (events.empty()) return;
      auto event = std::move(events.front());
      events.erase(events.begin());
      event();
    }
  };
  Next next_;  // ends after the lock
  MutexLock lock_;
};

class Eventful final : public StreamFlow<Item, Item, EventfulLock> {
 public:
  Eventful() : StreamFlow(100) {}

 private:
  void StartRead() override {}
  void StartWrite(const Item&) override { OnWriteDone(true); }  // done before it returns
  std::optional<Item> Serve(Item&) override { return std::nullopt; }
  void End() override { EventfulLock::ended = true; }
};

TEST(StreamFlowTest, WhoeverAnswersDoesNotTouchAStreamThatItsAnswerEnds) {
  Eventful flow;
  flow.Begin();
  flow.OnReadDone(true, {1});
  // The client has said its last while the answer is being made; both are seen at the worst moment.
  EventfulLock::events.push_back([&] { flow.OnReadDone(false, {}); });
  flow.OnServed({1});
  EXPECT_TRUE(EventfulLock::events.empty());
  EXPECT_TRUE(EventfulLock::ended);
  EXPECT_EQ(EventfulLock::uses_after_end, 0);
}

// Threads that do what they are given, as those of a transport.
class Threads {
 public:
  explicit Threads(int n) {
    for (int i = 0; i < n; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~Threads() {
    {
      MutexLock lock(mu_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void Post(std::function<void()> task) {
    {
      MutexLock lock(mu_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
  }

 private:
  void Work() {
    for (;;) {
      std::function<void()> task;
      {
        MutexLock lock(mu_);
        lock.Wait(wake_, [this]() UOPD_REQUIRES(mu_) { return stop_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        std::swap(tasks_[random_() % tasks_.size()], tasks_.back());  // in any order
        task = std::move(tasks_.back());
        tasks_.pop_back();
      }
      task();
    }
  }
  Mutex mu_;
  std::condition_variable wake_;
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  std::mt19937 random_ UOPD_GUARDED_BY(mu_);
  std::vector<std::function<void()>> tasks_ UOPD_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

// A stream that is deleted, as gRPC does it, when it has ended and no operation goes on: on another
// thread, at once. A use after that is found by the sanitizers.
class Hammered final : public StreamFlow<Item, Item> {
 public:
  Hammered(Threads& threads, uint64_t seed, int messages, std::atomic<int>& gone)
      : StreamFlow(16), threads_(threads), random_(seed), messages_(messages), gone_(gone) {}
  void Start() {
    if (Chance(4)) {
      Start([this] { Close(); });
    }
    Begin();
    EndOperation();
  }

 private:
  bool Chance(int one_in) {
    MutexLock lock(mu_);
    return random_() % static_cast<uint64_t>(one_in) == 0;
  }
  void Start(std::function<void()> event) {
    operations_.fetch_add(1);
    threads_.Post([this, event = std::move(event)] {
      event();
      EndOperation();
    });
  }
  void EndOperation() {
    if (operations_.fetch_sub(1) != 1) return;
    gone_.fetch_add(1);
    delete this;
  }
  void StartRead() override {
    const bool ok = messages_-- > 0 && !Chance(200);
    Start([this, ok] { OnReadDone(ok, {0, 3}); });
  }
  void StartWrite(const Item&) override {
    const bool ok = !Chance(200);
    Start([this, ok] { OnWriteDone(ok); });
  }
  std::optional<Item> Serve(Item&) override {
    if (Chance(2)) return Item{0, 5};
    threads_.Post([this] { OnServed({0, 5}); });  // not of the transport: keeps nothing alive
    return std::nullopt;
  }
  void End() override { EndOperation(); }

  Threads& threads_;
  Mutex mu_;
  std::mt19937_64 random_ UOPD_GUARDED_BY(mu_);
  int messages_;                    // of whoever starts a read
  std::atomic<int> operations_{2};  // with Start and the stream itself
  std::atomic<int>& gone_;
};

TEST(StreamFlowTest, ThreadsThatRaceForTheEndUseNothingAfterIt) {
  constexpr int kStreams = 1000;
  std::atomic<int> gone{0};
  {
    Threads threads(8);
    for (int i = 0; i < kStreams; ++i) {
      auto* stream = new Hammered(threads, static_cast<uint64_t>(i), i % 4, gone);
      threads.Post([stream] { stream->Start(); });
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (gone < kStreams && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_EQ(gone, kStreams);
}

}  // namespace
}  // namespace uopd::net
