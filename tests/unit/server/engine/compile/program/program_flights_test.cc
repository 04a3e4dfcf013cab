// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/program_flights.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>

namespace uopd::engine {
namespace {

// A caller that has a thread, and its answer.
struct Asking {
  explicit Asking(Timer& timer, std::string flow = "")
      : request({.caller = {.flow = std::move(flow)}}),
        caller(std::make_shared<Preparation>(request, timer, [this](Preparation::Answer given) {
          answer = std::move(given);
          ++answers;
        })) {
    EXPECT_TRUE(caller->Start());
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  RequestContext request;
  Preparation::Answer answer = absl::UnknownError("none yet");
  int answers = 0;
  std::shared_ptr<Preparation> caller;
};

class ProgramFlightsTest : public testing::Test {
 protected:
  const Digest key_ = HashBytes("key");
  const std::shared_ptr<ProgramHandle> program_ = std::make_shared<ProgramHandle>(nullptr);
  Timer timer_;
  ProgramFlights flights_;
};

TEST_F(ProgramFlightsTest, TellsEveryFlowHowFarItsCompilesAre) {
  Asking first(timer_, "a"), second(timer_, "b");
  const auto kernels = [&](std::string_view flow) {
    const ProgramFlights::Progress p = flights_.ProgressOf(flow);
    return std::tuple(p.programs, p.kernels, p.ready);
  };
  flights_.Join(key_, first.caller, [&](RequestContext& for_all) -> Preparation::Answer {
    EXPECT_EQ(kernels("a"), std::tuple(1u, 0u, 0u));
    EXPECT_EQ(kernels("b"), std::tuple(0u, 0u, 0u));
    for_all.maybe_progress->kernels = 5;
    for_all.maybe_progress->ready = 2;
    flights_.Join(key_, second.caller, [&](RequestContext&) { return program_; });
    EXPECT_EQ(kernels("b"), std::tuple(1u, 5u, 2u));
    return program_;
  });
  EXPECT_EQ(kernels("a"), std::tuple(0u, 0u, 0u));
}

TEST_F(ProgramFlightsTest, TheFirstOneFliesForAll) {
  Asking first(timer_), second(timer_);
  int flown = 0;
  flights_.Join(key_, first.caller, [&](RequestContext& for_all) -> Preparation::Answer {
    ++flown;
    // While the work goes on another one joins, and its thread comes back at once.
    flights_.Join(key_, second.caller, [&](RequestContext&) -> Preparation::Answer {
      ++flown;
      return program_;
    });
    EXPECT_EQ(second.answers, 0);
    EXPECT_EQ(flights_.waiting(key_), 2u);
    for_all.timings.Add(Phase::kSchedule, 9);
    for_all.cache.schedule = CacheResult::kMiss;
    for_all.cache.kernels_compiled = 3;
    return program_;
  });
  EXPECT_EQ(flown, 1);
  EXPECT_EQ(*first.answer, program_);
  EXPECT_EQ(*second.answer, program_);
  EXPECT_EQ(first.answers + second.answers, 2);
  EXPECT_EQ(flights_.waiting(key_), 0u);
  // The first one spent the time; the second one shares what was found.
  EXPECT_EQ(first.request.timings[Phase::kSchedule], 9);
  EXPECT_EQ(second.request.timings[Phase::kSchedule], 0);
  EXPECT_EQ(first.request.cache.schedule, CacheResult::kMiss);
  EXPECT_EQ(second.request.cache.schedule, CacheResult::kShared);
  EXPECT_EQ(second.request.cache.kernels_compiled, 3u);
}

TEST_F(ProgramFlightsTest, OtherKeysFlyByThemselves) {
  Asking first(timer_), second(timer_);
  flights_.Join(key_, first.caller, [&](RequestContext&) -> Preparation::Answer {
    flights_.Join(HashBytes("other"), second.caller,
                  [&](RequestContext&) -> Preparation::Answer { return program_; });
    EXPECT_EQ(second.answers, 1);
    return absl::InternalError("only the first");
  });
  EXPECT_TRUE(second.answer.ok());
  EXPECT_TRUE(absl::IsInternal(first.answer.status()));
}

TEST_F(ProgramFlightsTest, AnErrorGoesToAllWhoWaitAndIsForgotten) {
  Asking first(timer_), second(timer_), later(timer_);
  flights_.Join(key_, first.caller, [&](RequestContext&) -> Preparation::Answer {
    flights_.Join(key_, second.caller, nullptr);
    return absl::UnimplementedError("not yet");
  });
  EXPECT_TRUE(absl::IsUnimplemented(first.answer.status()));
  EXPECT_TRUE(absl::IsUnimplemented(second.answer.status()));
  flights_.Join(key_, later.caller,
                [&](RequestContext&) -> Preparation::Answer { return program_; });
  EXPECT_TRUE(later.answer.ok());
}

TEST_F(ProgramFlightsTest, TheWorkKnowsWhoItIsFor) {
  Asking first(timer_);
  first.request.id = "r1";
  first.request.caller = {"peer", "flow", "tenant"};
  flights_.Join(key_, first.caller, [&](RequestContext& for_all) -> Preparation::Answer {
    EXPECT_EQ(for_all.id, "r1");
    EXPECT_EQ(for_all.caller.peer, "peer");
    EXPECT_EQ(for_all.caller.flow, "flow");
    // It has no deadline of its own: who is late leaves.
    EXPECT_EQ(for_all.deadline, RequestContext::Clock::time_point::max());
    return program_;
  });
}

TEST_F(ProgramFlightsTest, TheWorkGoesOnWhileAnybodyWaits) {
  Asking first(timer_), second(timer_);
  flights_.Join(key_, first.caller, [&](RequestContext& for_all) -> Preparation::Answer {
    flights_.Join(key_, second.caller, nullptr);
    first.caller->Leave(absl::CancelledError("first"));
    EXPECT_EQ(first.answers, 1) << "who leaves does not wait for the work";
    EXPECT_EQ(flights_.waiting(key_), 1u);
    EXPECT_TRUE(for_all.Check().ok());
    second.caller->Leave(absl::DeadlineExceededError("second"));
    EXPECT_EQ(flights_.waiting(key_), 0u);
    EXPECT_TRUE(absl::IsCancelled(for_all.Check()));
    return for_all.Check();
  });
  EXPECT_TRUE(absl::IsCancelled(first.answer.status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(second.answer.status()));
  EXPECT_EQ(first.answers + second.answers, 2);
}

TEST_F(ProgramFlightsTest, WhoComesWhenTheWorkHasGivenUpIsWorkedForAgain) {
  Asking first(timer_), second(timer_);
  int flown = 0;
  flights_.Join(key_, first.caller, [&](RequestContext& for_all) -> Preparation::Answer {
    if (++flown == 2) {
      EXPECT_EQ(for_all.timings[Phase::kSchedule], 0) << "starts from nothing";
      EXPECT_TRUE(for_all.Check().ok());
      return program_;
    }
    for_all.timings.Add(Phase::kSchedule, 9);
    first.caller->Leave(absl::CancelledError("gone"));
    const absl::Status given_up = for_all.Check();
    EXPECT_TRUE(absl::IsCancelled(given_up));
    flights_.Join(key_, second.caller, nullptr);
    return given_up;
  });
  EXPECT_EQ(flown, 2);
  EXPECT_EQ(*second.answer, program_);
  EXPECT_TRUE(absl::IsCancelled(first.answer.status()));
}

TEST_F(ProgramFlightsTest, AnErrorOfTheWorkItselfIsNotRepeated) {
  Asking first(timer_), second(timer_);
  int flown = 0;
  flights_.Join(key_, first.caller, [&](RequestContext& for_all) -> Preparation::Answer {
    ++flown;
    first.caller->Leave(absl::CancelledError("gone"));
    EXPECT_FALSE(for_all.Check().ok());
    flights_.Join(key_, second.caller, nullptr);
    return absl::InternalError("a bug");
  });
  EXPECT_EQ(flown, 1);
  EXPECT_TRUE(absl::IsInternal(second.answer.status()));
}

TEST_F(ProgramFlightsTest, WhoHasLeftBeforeItJoinsIsNotWaitedFor) {
  Asking first(timer_);
  first.caller->Leave(absl::CancelledError("gone"));
  bool wanted = true;
  flights_.Join(key_, first.caller, [&](RequestContext& for_all) -> Preparation::Answer {
    wanted = for_all.Check().ok();
    return for_all.Check();
  });
  EXPECT_FALSE(wanted);
  EXPECT_EQ(first.answers, 1);
  EXPECT_EQ(first.answer.status().message(), "gone");
}

TEST_F(ProgramFlightsTest, ManyThreadsOneFlightAtATime) {
  constexpr int kCallers = 16;
  std::atomic<int> flying{0};
  std::latch all(kCallers), answered(kCallers);
  std::vector<RequestContext> requests(kCallers);
  std::vector<std::thread> threads;
  for (RequestContext& request : requests) {
    threads.emplace_back([&] {
      const auto caller =
          std::make_shared<Preparation>(request, timer_, [&](const Preparation::Answer& answer) {
            EXPECT_TRUE(answer.ok());
            answered.count_down();
          });
      EXPECT_TRUE(caller->Start());
      all.arrive_and_wait();
      flights_.Join(key_, caller, [&](RequestContext&) -> Preparation::Answer {
        EXPECT_EQ(flying.fetch_add(1), 0);
        std::this_thread::yield();
        flying.fetch_sub(1);
        return program_;
      });
    });
  }
  answered.wait();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace uopd::engine
