// SPDX-License-Identifier: MIT
// The two texts of /metrics, and a bound on the time that scrapes take.
//
// A page is written anew for every request, as long as writing takes less than kShare of the second
// that runs. Beyond that, requests get the last page of the same second. Used by one thread.
#pragma once
#include <array>
#include <chrono>
#include <functional>
#include <string>

namespace uopd::http {

struct Page {
  std::string content_type;
  std::string body;
};

// The metrics of this process as they are now.
Page MetricsPage(bool open_metrics);

class MetricsPages {
 public:
  using Clock = std::chrono::steady_clock;
  using Write = std::function<Page(bool open_metrics)>;
  static constexpr std::chrono::seconds kWindow{1};
  static constexpr std::chrono::milliseconds kShare{300};

  explicit MetricsPages(Write write = MetricsPage,
                        std::function<Clock::time_point()> clock = Clock::now)
      : write_(std::move(write)), clock_(std::move(clock)) {}

  // Valid until the next call.
  const Page& Get(bool open_metrics);

 private:
  struct Kept {
    Page page;
    Clock::time_point window = Clock::time_point::min();  // the beginning of the second it is of
  };

  const Write write_;
  const std::function<Clock::time_point()> clock_;
  std::array<Kept, 2> kept_;
  Clock::time_point window_ = Clock::time_point::min();
  Clock::duration spent_{0};  // in this window
};

}  // namespace uopd::http
