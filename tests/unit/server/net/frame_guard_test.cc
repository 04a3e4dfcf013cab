// SPDX-License-Identifier: MIT
#include "server/net/frame_guard.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/http2/frames.h"

namespace uopd::net {
namespace {

using test::http2::Acknowledgment;
using test::http2::CallFields;
using test::http2::Frame;
using test::http2::Greeting;
using test::http2::kAck;
using test::http2::kEndHeaders;
using test::http2::kEndStream;
using test::http2::Number;
using test::http2::Type;

using Clock = FrameGuard::Clock;

std::string Repeat(int n, const std::string& bytes) {
  std::string out;
  for (int i = 0; i < n; ++i) out += bytes;
  return out;
}

// A guard, its clock, and what it says to bytes.
class Judge {
 public:
  explicit Judge(const FrameLimits& limits = {}, bool acknowledged = true) : guard_(limits) {
    EXPECT_EQ(Says(Greeting()), "");
    guard_.OnSent();
    if (acknowledged) {
      EXPECT_EQ(Says(Acknowledgment()), "");
    }
  }
  std::string Says(const std::string& bytes) {
    const char* reason =
        guard_.Receive({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, now_);
    return reason == nullptr ? "" : reason;
  }
  void Pass(std::chrono::milliseconds time) { now_ += time; }

 private:
  FrameGuard guard_;
  Clock::time_point now_{std::chrono::hours(1)};
};

std::string Call(uint32_t stream) {
  return Frame(Type::kHeaders, kEndHeaders, stream, CallFields("/a.B/C")) +
         Frame(Type::kData, kEndStream, stream, std::string(100, 'x'));
}

TEST(FrameGuard, LetsCallsPassHoweverManyThereAre) {
  Judge judge;
  for (uint32_t i = 0; i < 100'000; ++i) ASSERT_EQ(judge.Says(Call(2 * i + 1)), "") << i;
}

TEST(FrameGuard, LetsDataPassHoweverMuchThereIs) {
  Judge judge;
  EXPECT_EQ(judge.Says(Frame(Type::kHeaders, kEndHeaders, 1, CallFields("/a.B/C"))), "");
  // The bytes of the data look like resets.
  const std::string data = Frame(Type::kData, 0, 1, Repeat(1000, Frame(Type::kReset, 0, 1)));
  for (int i = 0; i < 10'000; ++i) ASSERT_EQ(judge.Says(data), "") << i;
}

TEST(FrameGuard, AHeaderBlockMayHaveItsSizeAndNotAByteMore) {
  const FrameLimits limits{.header_bytes = 1000};
  const auto block = [](size_t first, size_t second) {
    return Frame(Type::kHeaders, 0, 1, std::string(first, 'x')) +
           Frame(Type::kContinuation, kEndHeaders, 1, std::string(second, 'x'));
  };
  Judge judge(limits);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(judge.Says(block(600, 400)), "");
  EXPECT_EQ(judge.Says(block(600, 401)), "header block");
  EXPECT_EQ(Judge(limits).Says(block(1001, 0)), "header block");
  // The head of a frame is enough.
  EXPECT_EQ(Judge(limits).Says(block(1001, 0).substr(0, 9)), "header block");
}

TEST(FrameGuard, AHeaderBlockComesInFewPieces) {
  const std::string begin = Frame(Type::kHeaders, 0, 1, "x");
  const std::string piece = Frame(Type::kContinuation, 0, 1);
  EXPECT_EQ(Judge().Says(begin + Repeat(3, piece)), "");
  EXPECT_EQ(Judge().Says(begin + Repeat(4, piece)), "header block pieces");
}

TEST(FrameGuard, BeforeTheAcknowledgmentFewCallsAreAllowed) {
  const FrameLimits limits{.early_streams = 3};
  EXPECT_EQ(Judge(limits, false).Says(Repeat(3, Call(1))), "");
  EXPECT_EQ(Judge(limits, false).Says(Repeat(4, Call(1))), "calls before the acknowledgment");
  EXPECT_EQ(Judge(limits).Says(Repeat(30, Call(1))), "");
}

TEST(FrameGuard, DoesNotBelieveAnAcknowledgmentOfWhatWasNotSent) {
  FrameGuard guard({.early_streams = 3});
  const std::string said =
      Greeting() + Acknowledgment() + Repeat(4, Frame(Type::kHeaders, kEndHeaders, 1, "x"));
  EXPECT_STREQ(guard.Receive({reinterpret_cast<const uint8_t*>(said.data()), said.size()}, {}),
               "calls before the acknowledgment");
}

TEST(FrameGuard, CallsMayBeTakenBackAsOftenAsTheBucketAllows) {
  Judge judge({.resets_per_s = 100, .resets_burst = 50});
  const std::string reset = Frame(Type::kReset, 0, 1, Number(8));
  EXPECT_EQ(judge.Says(Repeat(50, reset)), "");
  judge.Pass(std::chrono::milliseconds(100));
  EXPECT_EQ(judge.Says(Repeat(10, reset)), "");
  judge.Pass(std::chrono::hours(1));
  EXPECT_EQ(judge.Says(Repeat(50, reset)), "");
  EXPECT_EQ(judge.Says(reset), "resets");
  judge.Pass(std::chrono::hours(1));
  EXPECT_EQ(judge.Says(Call(1)), "resets") << "what was refused stays refused";
}

TEST(FrameGuard, FramesWithoutContentAreCounted) {
  const FrameLimits limits{.frames_per_s = 10'000};
  struct Case {
    const char* name;
    std::string frame;
    int allowed;
  };
  const Case cases[] = {
      {"SETTINGS", Frame(Type::kSettings, 0, 0), 9},
      {"acknowledgment", Acknowledgment(), 909},
      {"GOAWAY", Frame(Type::kGoAway, 0, 0, std::string(8, 'x')), 9},
      {"empty DATA", Frame(Type::kData, 0, 1), 1'000},
      {"WINDOW_UPDATE", Frame(Type::kWindowUpdate, 0, 0, Number(1)), 8'000},
      {"PRIORITY", Frame(Type::kPriority, 0, 1, std::string(5, 'x')), 7'619},
      {"a frame of no known type", Frame(static_cast<Type>(77), 0, 1, "x"), 9'411},
      {"a large one", Frame(static_cast<Type>(77), 0, 1, std::string(16'000, 'x')), 9},
  };
  for (const Case& one : cases) {
    Judge judge(limits);
    judge.Pass(std::chrono::hours(1));
    std::string said;
    int passed = 0;
    while ((said = judge.Says(one.frame)).empty() && passed < 20'000) ++passed;
    EXPECT_EQ(said, "frames without content") << one.name;
    EXPECT_EQ(passed, one.allowed) << one.name;
  }
}

TEST(FrameGuard, ManyPingsAtOnceAreRefused) {
  Judge judge;
  const std::string ping = Frame(Type::kPing, 0, 0, std::string(8, 'x'));
  for (int i = 0; i < 100'000; ++i) {
    judge.Pass(std::chrono::milliseconds(1));
    ASSERT_EQ(judge.Says(ping), "");
  }
  EXPECT_EQ(judge.Says(Repeat(99, ping)), "");
  EXPECT_EQ(judge.Says(Repeat(2, ping)), "pings");
  const std::string answer = Frame(Type::kPing, kAck, 0, std::string(8, 'x'));
  EXPECT_EQ(Judge().Says(Repeat(1'000, answer)), "") << "answers do not count";
}

TEST(FrameGuard, AHeaderBlockHasFewFields) {
  const auto block = [](size_t fields) {
    return Frame(Type::kHeaders, 0, 1, "\x82") +
           Frame(Type::kContinuation, kEndHeaders, 1, std::string(fields - 1, '\x82'));
  };
  Judge judge;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(judge.Says(block(64)), "");
  EXPECT_EQ(judge.Says(block(65)), "header fields");
}

TEST(FrameGuard, ThePriorityInAHeadersFrameIsNoField) {
  const uint8_t priority = 0x20;
  const std::string fields(64, '\x82');
  EXPECT_EQ(Judge().Says(
                Frame(Type::kHeaders, kEndHeaders | priority, 1, std::string(5, '\x82') + fields)),
            "");
  EXPECT_EQ(Judge().Says(
                Frame(Type::kHeaders, kEndHeaders | priority, 1, std::string(6, '\x82') + fields)),
            "header fields");
}

TEST(FrameGuard, AMessageInTinyPiecesIsRefused) {
  Judge judge;
  const std::string begin = Frame(Type::kData, 0, 1, std::string("\0\0\1\0\0", 5));
  EXPECT_EQ(judge.Says(begin + Repeat(63, Frame(Type::kData, 0, 1, "x"))), "");
  EXPECT_EQ(judge.Says(Frame(Type::kData, 0, 1, "x")), "message pieces");
}

TEST(FrameGuard, AnEmptyEndOfAStreamIsContent) {
  Judge judge({.frames_per_s = 3'000});
  EXPECT_EQ(judge.Says(Repeat(10'000, Frame(Type::kData, kEndStream, 1))), "");
}

// What a guard says must not depend on how the bytes are cut.
TEST(FrameGuard, CutAnywhereTheVerdictIsTheSame) {
  const FrameLimits limits{.header_bytes = 300,
                           .early_streams = 5,
                           .resets_per_s = 0,
                           .resets_burst = 5,
                           .frames_per_s = 5'000};
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int refused = 0;
  for (int round = 0; round < 2'000; ++round) {
    std::string said;
    for (int frames = below(40); frames > 0; --frames) {
      const auto type = static_cast<Type>(below(11));
      const bool large = below(20) == 0;
      said += Frame(
          type, static_cast<uint8_t>(random()), random() % 9,
          std::string(static_cast<size_t>(below(large ? 5'000 : 20)), static_cast<char>(random())));
    }
    const std::string whole = Judge(limits, round % 2 == 0).Says(said);
    Judge judge(limits, round % 2 == 0);
    std::string in_parts;
    for (size_t at = 0; at < said.size() && in_parts.empty();) {
      const size_t size = static_cast<size_t>(1 + below(below(2) == 0 ? 3 : 500));
      in_parts = judge.Says(said.substr(at, size));
      at += size;
    }
    ASSERT_EQ(in_parts, whole) << round;
    refused += whole.empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 200);
  EXPECT_LT(refused, 1'800);
}

}  // namespace
}  // namespace uopd::net
