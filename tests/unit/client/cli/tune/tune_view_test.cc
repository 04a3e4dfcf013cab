// SPDX-License-Identifier: MIT
// What uopctl makes of the messages about a tuning operation: its lines, its table and its picture.
#include "client/cli/tune/tune_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <limits>
#include <vector>

#include "client/cpp/net/tune_points.h"

namespace uopd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kUnknown = std::numeric_limits<double>::infinity();

v1::TunedKernel* AddKernel(v1::WatchTuneResponse& message, uint32_t number, const char* state,
                           double best, double heuristic) {
  v1::TunedKernel* out = message.add_kernels();
  out->set_number(number);
  out->set_name("k" + std::to_string(number));
  out->set_device("CPU:0");
  out->set_launches(1);
  out->set_state(state);
  out->set_best_seconds(best);
  out->set_heuristic_seconds(heuristic);
  out->set_search(1);
  return out;
}
void AddPoint(v1::TunedKernel* kernel, uint32_t candidate, double seconds) {
  v1::TunePoint* point = kernel->add_points();
  point->set_candidate(candidate);
  point->set_seconds(seconds);
}

// The elements of well-formed XML, or one text that says what is wrong. Enough of XML 1.0 for
// pictures: no comments, no CDATA, no DTD.
std::vector<std::string> ElementsOf(const std::string& xml) {
  std::vector<std::string> open, all;
  size_t at = xml.starts_with("<?xml") ? xml.find("?>") + 2 : 0;
  for (; at < xml.size(); ++at) {
    const char c = xml[at];
    if (c == '&') {
      const size_t end = xml.find(';', at);
      const std::string name = xml.substr(at + 1, end - at - 1);
      if (name != "amp" && name != "lt" && name != "gt" && name != "quot") return {"bad &" + name};
    }
    if (c != '<') {
      if (open.empty() && !std::isspace(static_cast<unsigned char>(c))) return {"text outside"};
      if (static_cast<unsigned char>(c) < ' ' && c != '\n') return {"control character"};
      continue;
    }
    const bool closes = xml[at + 1] == '/';
    size_t end = at + 1 + (closes ? 1 : 0);
    std::string name;
    while (std::isalnum(static_cast<unsigned char>(xml[end]))) name += xml[end++];
    bool quoted = false;
    for (; end < xml.size() && (quoted || xml[end] != '>'); ++end) {
      if (xml[end] == '"') quoted = !quoted;
      if (xml[end] == '<') return {"< in " + name};
    }
    if (quoted || end == xml.size() || name.empty()) return {"an open element"};
    if (closes) {
      if (open.empty() || open.back() != name) return {"</" + name + "> closes another element"};
      open.pop_back();
    } else {
      all.push_back(name);
      if (xml[end - 1] != '/') open.push_back(name);
    }
    at = end;
  }
  if (!open.empty()) return {"<" + open.back() + "> is open"};
  return all;
}

size_t Count(const std::vector<std::string>& elements, const char* name) {
  return static_cast<size_t>(std::ranges::count(elements, name));
}

TEST(TuneViewTest, MessagesBecomeOneView) {
  TuneView view;
  v1::WatchTuneResponse message;
  message.mutable_tune()->set_state("running");
  message.mutable_tune()->set_kernels(2);
  v1::TunedKernel* kernel = AddKernel(message, 0, "searching", 3e-6, 6e-6);
  kernel->set_measured(2);
  kernel->set_failed(1);
  kernel->set_pruned(20);
  kernel->set_duplicates(3);
  kernel->set_trying("[UPCAST(0, 4)]");
  AddPoint(kernel, 1, 6e-6);
  AddPoint(kernel, 2, 3e-6);
  AddKernel(message, 1, "waiting", kUnknown, kUnknown)->set_detail("host b");
  EXPECT_THAT(view.Add(message), ElementsAre(0, 1));
  EXPECT_EQ(view.Progress(),
            "[1/2] k0 on CPU:0: 2 measured, 1 failed, 20 pruned, 3 duplicates, best 3 us, "
            "heuristic 6 us (2.00x), tries [UPCAST(0, 4)]");
  EXPECT_EQ(view.Line(1), "[2/2] k1 on CPU:0: waiting for host b");
  // Points of the same search are added; those of another one begin anew.
  message.Clear();
  AddPoint(AddKernel(message, 0, "searching", 2e-6, 6e-6), 3, 2e-6);
  EXPECT_THAT(view.Add(message), IsEmpty());
  EXPECT_EQ(view.kernels()[0].points_size(), 3);
  message.mutable_kernels(0)->set_search(2);
  view.Add(message);
  EXPECT_EQ(view.kernels()[0].points_size(), 1);
  // Another list of kernels voids everything.
  message.Clear();
  message.set_kernels_replaced(true);
  AddKernel(message, 0, "failed", kUnknown, kUnknown)->set_detail("no device");
  view.Add(message);
  EXPECT_EQ(view.kernels().size(), 1u);
  EXPECT_EQ(view.kernels()[0].points_size(), 0);
  EXPECT_THAT(view.Line(0), HasSubstr("failed: no device"));
}

TEST(TuneViewTest, TheTableSumsUp) {
  TuneView view;
  v1::WatchTuneResponse message;
  message.mutable_tune()->set_state("done");
  message.mutable_tune()->set_kernels(3);
  message.mutable_tune()->set_kernels_tuned(1);
  message.mutable_tune()->set_candidates(9);
  message.mutable_tune()->set_pruned(70);
  message.mutable_tune()->set_duplicates(11);
  v1::TunedKernel* kernel = AddKernel(message, 0, "tuned", 2e-3, 3e-3);
  kernel->set_launches(10);
  kernel->set_opts("[LOCAL(0, 8)]");
  kernel->set_limited(true);
  kernel->set_measured(8);
  kernel->set_failed(1);
  kernel->set_pruned(70);
  kernel->set_duplicates(11);
  AddKernel(message, 1, "found", 1e-3, kUnknown);
  AddKernel(message, 2, "skipped", kUnknown, kUnknown)->set_detail("the budget is used up");
  view.Add(message);
  const std::string table = view.Table();
  EXPECT_THAT(table, HasSubstr("1.50x"));
  EXPECT_THAT(table, HasSubstr("[LOCAL(0, 8)] (ended by the budget)"));
  EXPECT_THAT(table, HasSubstr("the budget is used up"));
  EXPECT_THAT(table, HasSubstr("done: 1 of 3 kernels tuned"));
  EXPECT_THAT(table, HasSubstr("candidates   pruned duplicates"));
  EXPECT_THAT(table, HasSubstr("         9       70         11 tuned"));
  EXPECT_THAT(table, HasSubstr("9 candidates in 0.0 s of searches, 70 pruned, 11 duplicates"));
  // Ten launches; the kernel whose heuristic's time is not known is in neither sum.
  EXPECT_THAT(table, HasSubstr("kernels of one run 30 ms -> 20 ms"));
  EXPECT_THAT(table, Not(HasSubstr("inf")));
  EXPECT_THAT(table, Not(HasSubstr("nan")));
}

TEST(TuneViewTest, IsBoundedWhateverComes) {
  TuneView view;
  for (uint32_t i = 1; i <= 20'000; ++i) {
    v1::WatchTuneResponse message;
    AddPoint(AddKernel(message, 0, "searching", 1e-6, 1e-6), i, i % 2 == 0 ? 1.0 / i : 5.0);
    view.Add(message);
  }
  EXPECT_LE(view.kernels()[0].points_size(), static_cast<int>(client::kMaxTunePoints));
  EXPECT_EQ(view.kernels()[0].points().rbegin()->candidate(), 20'000u);
  v1::WatchTuneResponse huge;
  AddKernel(huge, UINT32_MAX, "searching", 1e-6, 1e-6);
  EXPECT_THAT(view.Add(huge), IsEmpty());
  EXPECT_EQ(view.kernels().size(), 1u);
}

TEST(TuneSvgTest, APictureHasALineForEachKernelAndAPointForEachCandidate) {
  TuneView view;
  v1::WatchTuneResponse message;
  message.mutable_tune()->set_title("a <model> & \"more\"");
  message.mutable_tune()->set_beam(4);
  for (uint32_t k = 0; k < 2; ++k) {
    v1::TunedKernel* kernel = AddKernel(message, k, "tuned", 1e-6, 9e-6);
    kernel->set_name("k<&\x01>" + std::to_string(k));
    for (uint32_t i = 1; i <= 10; ++i) AddPoint(kernel, i, 1e-5 / i);
  }
  AddKernel(message, 2, "pending", kUnknown, kUnknown);
  view.Add(message);
  const std::string svg = TuneSvg(view);
  const std::vector<std::string> elements = ElementsOf(svg);
  ASSERT_FALSE(elements.empty());
  EXPECT_EQ(elements.front(), "svg");
  EXPECT_EQ(Count(elements, "path"), 2u) << svg;
  EXPECT_EQ(Count(elements, "circle"), 20u);
  EXPECT_THAT(svg, HasSubstr("a &lt;model&gt; &amp; &quot;more&quot;, beam 4"));
  EXPECT_THAT(svg, HasSubstr("candidates of the kernel"));
  EXPECT_THAT(svg, HasSubstr("time of one run, logarithmic"));
  EXPECT_THAT(svg, Not(HasSubstr("href")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(TuneSvgTest, StrangeTimesMakeNoStrangePicture) {
  for (const double seconds :
       {0.0, -1.0, kUnknown, std::numeric_limits<double>::quiet_NaN(), 1e-300, 1e300, 1e-6}) {
    TuneView view;
    v1::WatchTuneResponse message;
    AddPoint(AddKernel(message, 0, "tuned", seconds, seconds), UINT32_MAX, seconds);
    for (uint32_t k = 1; k < 30; ++k) AddPoint(AddKernel(message, k, "tuned", 1, 1), 1, seconds);
    view.Add(message);
    const std::string svg = TuneSvg(view);
    const std::vector<std::string> elements = ElementsOf(svg);
    EXPECT_EQ(elements.front(), "svg") << seconds;
    EXPECT_LE(Count(elements, "path"), kMaxSvgKernels);
    EXPECT_LT(svg.size(), 200'000u) << seconds;
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
  }
  EXPECT_EQ(ElementsOf(TuneSvg(TuneView())).front(), "svg");
  EXPECT_EQ(ElementsOf("<a><b></a></b>").front(), "</a> closes another element");
}

}  // namespace
}  // namespace uopd::cli
