// SPDX-License-Identifier: MIT
// How opts are written: what Text writes is read, in each of the two forms, and nothing else is;
// what caches hold never changes its meaning.
#include "core/codegen/opts/opt.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/base/text.h"
#include "core/codegen/opts/kinds/pipeline.h"
#include "core/codegen/opts/opt_row.h"

namespace uopd::codegen {
namespace {

// Each kind, with small and large numbers where it has numbers.
std::vector<Opt> SomeOpts() {
  std::vector<Opt> out;
  const auto has = [](const Operand& operand) { return operand.names != Operand::Names::kNothing; };
  for (const OptRow* row : OptRows()) {
    for (const int64_t n : {int64_t{0}, int64_t{3}, int64_t{1} << 40}) {
      Opt opt{row->kind};
      if (has(row->axis)) opt.axis = static_cast<int>(n % 7);
      if (has(row->amount)) opt.amount = n;
      if (has(row->warps)) opt.warps = n;
      out.push_back(opt);
    }
  }
  return out;
}

TEST(ParseOptsTest, ReadsWhatTextWrites) {
  const std::vector<Opt> opts = SomeOpts();
  std::string spaces, pluses;
  for (const Opt& opt : opts) {
    const std::string text = Text(opt);
    spaces += (spaces.empty() ? "" : " ") + text;
    std::string other = text;
    for (size_t at = other.find(", "); at != std::string::npos; at = other.find(", "))
      other.replace(at, 2, ";");
    pluses += (pluses.empty() ? "" : "+") + other;
  }
  for (const std::string& text : {spaces, pluses, "  " + spaces + " "}) {
    const auto parsed = ParseOpts(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, opts) << text;
  }
  EXPECT_TRUE(ParseOpts("")->empty());
  EXPECT_TRUE(ParseOpts("  ")->empty());
}

TEST(ParseOptsTest, OptsAreWrittenWithTheNumbersThatTheyHave) {
  EXPECT_EQ(Text({OptKind::kUpcast, 0, 4}), "UPCAST(0, 4)");
  EXPECT_EQ(Text({OptKind::kPack, 1}), "PACK(1)");
  EXPECT_EQ(Text({OptKind::kNoLocals}), "NOLOCALS()");
  EXPECT_EQ(Text({OptKind::kPersist, 0, 264}), "PERSIST(264)");
  EXPECT_EQ(Text({OptKind::kPipeline, 2, 3}), "PIPELINE(2, 3)");
  EXPECT_EQ(Text({OptKind::kPipeline, 2, 4, 1}), "PIPELINE(2, 4, 1)");
}

// What caches hold of each kind. These numbers may never change.
TEST(StoredOptTest, TheNumbersMeanTheSameInEveryVersion) {
  constexpr std::string_view kNames[] = {"UPCAST", "UNROLL",   "THREAD", "VECTOR",  "PACK",
                                         "STREAM", "PREFETCH", "TC",     "BLOCK",   "LOCAL",
                                         "GROUP",  "GROUPTOP", "SWAP",   "PADTO",   "NOLOCALS",
                                         "ONLINE", "PIPELINE", "RASTER", "PERSIST", "MERGE"};
  ASSERT_GE(OptRows().size(), std::size(kNames));
  for (uint64_t kind = 0; kind < std::size(kNames); ++kind) {
    const auto opt = FromStored({kind, 0, 0});
    ASSERT_TRUE(opt.ok()) << opt.status();
    EXPECT_EQ(RowOf(opt->kind).name, kNames[kind]);
  }
  const auto pipeline = FromStored({16, 2, 44});
  ASSERT_TRUE(pipeline.ok());
  EXPECT_EQ(*pipeline, (Opt{OptKind::kPipeline, 2, 4, 4}));
  for (const Opt& opt : SomeOpts()) {
    if (opt.kind == OptKind::kPipeline) continue;  // of its numbers above
    const auto back = FromStored(Stored(opt));
    ASSERT_TRUE(back.ok()) << Text(opt);
    EXPECT_EQ(*back, opt);
  }
  for (int64_t parts = 2; parts <= kMostPipelineParts; ++parts) {
    for (const int64_t warps : kCopyingWarps) {
      const Opt opt{OptKind::kPipeline, 1, parts, warps};
      EXPECT_EQ(FromStored(Stored(opt)).value(), opt);
    }
  }
}

// A part of the keys of tuned kernels.
TEST(StoredOptTest, TheTextOfKeysStays) {
  EXPECT_EQ(StoredText({{OptKind::kUpcast, 0, 4},
                        {OptKind::kPack, 1},
                        {OptKind::kNoLocals},
                        {OptKind::kPipeline, 2, 4, 1},
                        {OptKind::kPersist, 0, 264}}),
            "[UPCAST(0, 4), PACK(1, 0), NOLOCALS(0, 0), PIPELINE(2, 14), PERSIST(0, 264)]");
  EXPECT_EQ(StoredText({}), "[]");
}

TEST(StoredOptTest, WhatNoOptHasIsDamage) {
  for (const StoredOpt& stored : {StoredOpt{0, -1, 4}, StoredOpt{0, int64_t{1} << 40, 4},
                                  StoredOpt{0, 0, -4}, StoredOpt{16, 0, -12}}) {
    EXPECT_TRUE(absl::IsDataLoss(FromStored(stored).status()))
        << stored.kind << ' ' << stored.axis << ' ' << stored.amount;
    std::vector<Opt> opts;
    absl::Status later;
    EXPECT_FALSE(TakeStored(stored, opts, later));
    EXPECT_TRUE(later.ok() && opts.empty());
  }
}

TEST(StoredOptTest, AKindOfALaterVersionIsNone) {
  std::vector<Opt> opts;
  absl::Status later;
  for (const StoredOpt& stored : {StoredOpt{kOptKinds, 0, 0}, StoredOpt{99, -1, -1}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(FromStored(stored).status())) << stored.kind;
    EXPECT_TRUE(TakeStored(stored, opts, later));
  }
  EXPECT_TRUE(TakeStored({0, 1, 4}, opts, later));
  EXPECT_EQ(opts, (std::vector<Opt>{{OptKind::kUpcast, 1, 4}}));
  // The first one is named.
  EXPECT_TRUE(std::string(later.message()).starts_with(Cat("opt of kind ", kOptKinds)));
}

TEST(ParseOptsTest, RefusesOtherTexts) {
  for (const char* text : {"UPCAST",
                           "UPCAST(",
                           "UPCAST()",
                           "UPCAST(0)",
                           "UPCAST(0, )",
                           "UPCAST(, 4)",
                           "UPCAST(0 4)",
                           "UPCAST(0, 4",
                           "UPCAST(0, 4, 5)",
                           "UPCAST(0, 4x)",
                           "PACK(0, 0)",
                           "PACK()",
                           "NOLOCALS(0)",
                           "PERSIST(0, 4)",
                           "PIPELINE(2)",
                           "PIPELINE(2, 3, 1, 0)",
                           "PIPELINE(2, 3, )",
                           "UPCAST(x, 4)",
                           "UPCAST(0.5, 4)",
                           "UPCAST(99999999999, 4)",
                           "UPCAST(0, 99999999999999999999)",
                           "upcast(0, 4)",
                           "CAST(0, 4)",
                           "(0, 4)",
                           "UPCAST (0, 4)",
                           "+UPCAST(0, 4)",
                           "UPCAST(0, 4)+",
                           "UPCAST(0, 4)++LOCAL(0, 4)",
                           "UPCAST(0, 4), LOCAL(0, 4)",
                           "UPCAST(0, 4) noopt",
                           ")",
                           "+"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseOpts(text).status())) << text;
  }
}

}  // namespace
}  // namespace uopd::codegen
