// SPDX-License-Identifier: MIT
#include "server/http/open_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/http/metrics_pages.h"

namespace uopd::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kBounds[] = {1e-5, 1e-4, 0.25, 1, 100};
constexpr MetricSpec kOpenSpecs[] = {
    {MetricKind::kCounter, "plain_total", 1, {}, {}, "Plain"},
    {MetricKind::kTimeCounter, "busy_seconds_total", 1, {}, {}, "Busy"},
    {MetricKind::kGauge, "level", 3, {"a", "b"}, {}, "Say \"hi\"\n\\"},
    {MetricKind::kHistogram, "time_seconds", 4, {"device"}, kBounds, "Time"},
};

TEST(OpenMetrics, WritesEveryKind) {
  MetricRegistry registry(kOpenSpecs);
  registry.GetCounter(0).Increment(3);
  registry.GetTimeCounter(1).AddNs(1'250'000'000);
  registry.GetGauge(2, {"x\"\n\\\xc3", ""}).Set(2.5);
  Histogram& time = registry.GetHistogram(3, {"CPU"});
  time.Observe(5e-5);
  time.Observe(0.2, {"4bf92f3577b34da6a3ce929d0e0e4736", ""});
  time.Observe(1000);
  std::string text = OpenMetricsText(registry.Snapshot());
  const size_t stamp = text.find("\"} 0.2 ") + 7;
  text.erase(stamp, text.find('\n', stamp) - stamp);
  EXPECT_EQ(text,
            "# TYPE uopd_plain counter\n"
            "# HELP uopd_plain Plain\n"
            "uopd_plain_total 3\n"
            "# TYPE uopd_busy_seconds counter\n"
            "# UNIT uopd_busy_seconds seconds\n"
            "# HELP uopd_busy_seconds Busy\n"
            "uopd_busy_seconds_total 1.25\n"
            "# TYPE uopd_level gauge\n"
            "# HELP uopd_level Say \\\"hi\\\"\\n\\\\\n"
            "uopd_level{a=\"x\\\"\\n\\\\?\",b=\"\"} 2.5\n"
            "# TYPE uopd_time_seconds histogram\n"
            "# UNIT uopd_time_seconds seconds\n"
            "# HELP uopd_time_seconds Time\n"
            "uopd_time_seconds_bucket{device=\"CPU\",le=\"1e-05\"} 0\n"
            "uopd_time_seconds_bucket{device=\"CPU\",le=\"0.0001\"} 1\n"
            "uopd_time_seconds_bucket{device=\"CPU\",le=\"0.25\"} 2 # "
            "{trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 0.2 \n"
            "uopd_time_seconds_bucket{device=\"CPU\",le=\"1.0\"} 2\n"
            "uopd_time_seconds_bucket{device=\"CPU\",le=\"100.0\"} 2\n"
            "uopd_time_seconds_bucket{device=\"CPU\",le=\"+Inf\"} 3\n"
            "uopd_time_seconds_count{device=\"CPU\"} 3\n"
            "uopd_time_seconds_sum{device=\"CPU\"} 1000.20005\n"
            "# EOF\n");
}

TEST(OpenMetrics, NamesOfFamiliesAreUniqueWithoutTheirEnding) {
  std::set<std::string> names;
  for (const MetricSpec& spec : Metrics()) {
    std::string name(spec.name);
    if (name.ends_with("_total")) name.resize(name.size() - 6);
    EXPECT_TRUE(names.insert(name).second) << spec.name;
  }
}

std::string Head(const std::string& accept) {
  return "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: " + accept;
}

TEST(Accept, WhoGetsOpenMetrics) {
  // What Prometheus 2.42 and 3 send.
  EXPECT_TRUE(PrefersOpenMetrics(
      Head("application/openmetrics-text;version=1.0.0,application/"
           "openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")));
  EXPECT_TRUE(PrefersOpenMetrics(
      Head("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/"
           "plain;version=1.0.0;escaping=allow-utf-8;q=0.5,*/*;q=0.1")));
  EXPECT_TRUE(PrefersOpenMetrics(Head("Application/OpenMetrics-Text ; Version = \"1.0.0\"")));
  EXPECT_TRUE(PrefersOpenMetrics("GET / HTTP/1.1\r\naccept:application/openmetrics-text"));
  EXPECT_TRUE(PrefersOpenMetrics(Head("text/html\r\nAccept: application/openmetrics-text")));
  for (const char* accept :
       {"", "*/*", "text/plain", "text/html, */*", "application/openmetrics-text;version=2.0.0",
        "application/openmetrics-text;q=0", "application/openmetrics-text;q=0.5, text/plain",
        "application/openmetrics-text;q=0.5, */*", "application/openmetrics-text;q=",
        "application/openmetrics-text;q=nan", "application/openmetrics-text;q=-1",
        "application/openmetrics-text;q=1e9", "application/openmetrics-text;q=2",
        "application/openmetrics-textx", ",;=,;\"", ";q=1;;;", "=;,=\"\"\"", "\xff\xfe;q=\x01"}) {
    EXPECT_FALSE(PrefersOpenMetrics(Head(accept))) << accept;
  }
  EXPECT_FALSE(PrefersOpenMetrics(""));
  EXPECT_FALSE(PrefersOpenMetrics("GET /?Accept: application/openmetrics-text HTTP/1.1"));
  EXPECT_FALSE(PrefersOpenMetrics("GET / HTTP/1.1\r\nX-Accept: application/openmetrics-text"));
}

TEST(MetricsPages, AFloodOfScrapesGetsPagesOfTheSameSecond) {
  MetricsPages::Clock::time_point now{std::chrono::hours(1)};
  int written = 0;
  MetricsPages pages(
      [&](bool open_metrics) {
        now += std::chrono::milliseconds(50);
        return Page{open_metrics ? "open" : "text", std::to_string(++written)};
      },
      [&] { return now; });
  for (int i = 0; i < 100; ++i) pages.Get(false);
  EXPECT_EQ(written, 6);  // 300 ms
  EXPECT_EQ(pages.Get(false).body, "6");
  EXPECT_EQ(pages.Get(true).body, "7");  // the other text has no page of this second yet
  EXPECT_EQ(pages.Get(true).body, "7");
  EXPECT_EQ(pages.Get(true).content_type, "open");
  now += MetricsPages::kWindow;
  EXPECT_EQ(pages.Get(false).body, "8");
}

TEST(MetricsPages, ShowTheProcess) {
  EXPECT_THAT(MetricsPage(true).content_type, HasSubstr("application/openmetrics-text"));
  EXPECT_THAT(MetricsPage(true).body, EndsWith("\n# EOF\n"));
  EXPECT_THAT(MetricsPage(false).body, Not(HasSubstr("# EOF")));
  EXPECT_THAT(MetricsPage(false).body, HasSubstr("# TYPE uopd_sessions gauge\n"));
}

}  // namespace
}  // namespace uopd::http
