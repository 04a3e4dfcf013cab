// SPDX-License-Identifier: MIT
#include "client/cli/envelope.h"

#include <gtest/gtest.h>

#include <array>

#include "core/base/status.h"
#include "tests/support/generated_section.h"

namespace uopd::cli {
namespace {

TEST(ExitCodesTest, EveryCodeOfAnErrorHasAKind) {
  struct Row {
    absl::StatusCode code;
    const char* kind;
    int exit_status;
  };
  using C = absl::StatusCode;
  constexpr auto kRows = std::to_array<Row>({{C::kOk, "ok", 0},
                                             {C::kCancelled, "failed", 1},
                                             {C::kUnknown, "failed", 1},
                                             {C::kInvalidArgument, "usage", 2},
                                             {C::kDeadlineExceeded, "unreachable", 3},
                                             {C::kNotFound, "not_found", 5},
                                             {C::kAlreadyExists, "failed", 1},
                                             {C::kPermissionDenied, "refused", 4},
                                             {C::kResourceExhausted, "refused", 4},
                                             {C::kFailedPrecondition, "refused", 4},
                                             {C::kAborted, "failed", 1},
                                             {C::kOutOfRange, "usage", 2},
                                             {C::kUnimplemented, "refused", 4},
                                             {C::kInternal, "failed", 1},
                                             {C::kUnavailable, "unreachable", 3},
                                             {C::kDataLoss, "failed", 1},
                                             {C::kUnauthenticated, "refused", 4}});
  for (const Row& row : kRows) {
    const EndKind& kind = Info(EndOf(absl::Status(row.code, "why")));
    EXPECT_EQ(kind.name, row.kind) << absl::StatusCodeToString(row.code);
    EXPECT_EQ(kind.exit_code, row.exit_status) << absl::StatusCodeToString(row.code);
  }
}

TEST(ExitCodesTest, AreInTheDocs) {
  test::ExpectGenerated("operations/looking.md", "exit statuses", ExitCodesDocs());
}

TEST(EnvelopeTest, HasDataOrAnErrorInAFixedOrder) {
  EXPECT_EQ(LineOf(Envelope({.command = "cache ls", .status = absl::OkStatus()},
                            {{"entries", nlohmann::json::array()}})),
            R"({"schema":1,"command":"cache ls","ok":true,"data":{"entries":[]}})");
  EXPECT_EQ(LineOf(Envelope({.command = "status", .status = absl::UnavailableError("no answer")},
                            nullptr)),
            R"({"schema":1,"command":"status","ok":false,"error":{"kind":"unreachable",)"
            R"("code":"UNAVAILABLE","message":"no answer","exit_status":3}})");
}

TEST(EnvelopeTest, WhatWasFoundIsAnErrorBesideTheData) {
  const CommandEnd end{.command = "cache verify", .status = absl::OkStatus(), .bad = "1 bad entry"};
  EXPECT_EQ(end.exit_status(), 1);
  const auto envelope = Envelope(end, {{"bad", 1}});
  EXPECT_EQ(envelope["ok"], false);
  EXPECT_EQ(envelope["data"]["bad"], 1);
  EXPECT_EQ(envelope["error"]["kind"], "failed");
  EXPECT_EQ(envelope["error"]["code"], "");
  EXPECT_EQ(envelope["error"]["message"], "1 bad entry");
}

TEST(EnvelopeTest, AnExitStatusOfTheCommandWins) {
  const CommandEnd end{
      .command = "replay", .status = absl::NotFoundError("no file"), .exit_code = 125};
  EXPECT_EQ(end.exit_status(), 125);
  EXPECT_EQ(Envelope(end, nullptr)["error"]["exit_status"], 125);
  EXPECT_EQ(Envelope(end, nullptr)["error"]["kind"], "not_found");
}

TEST(EnvelopeTest, BytesThatAreNoTextAreReplaced) {
  const std::string line = LineOf(Envelope({.command = "x", .status = Invalid("\xff!")}, nullptr));
  EXPECT_NE(line.find("\xef\xbf\xbd!"), std::string::npos) << line;
}

}  // namespace
}  // namespace uopd::cli
