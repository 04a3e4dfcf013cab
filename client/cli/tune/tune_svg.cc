// SPDX-License-Identifier: MIT
#include "client/cli/tune/tune_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

constexpr double kWidth = 960, kLeft = 80, kRight = 300, kTop = 50, kBottom = 60, kHeight = 540;
constexpr std::array<const char*, 8> kColours = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                                 "#ff7f0e", "#17becf", "#8c564b", "#e377c2"};

// Text for XML 1.0, which has no control characters.
std::string Escaped(std::string_view text, size_t most = 60) {
  std::string out;
  for (const char c : text.substr(0, most)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c >= ' ' && c <= '~' ? c : '?';
    }
  }
  return out;
}

bool IsTime(double seconds) { return std::isfinite(seconds) && seconds > 0; }

class Picture {
 public:
  explicit Picture(const TuneView& view) : view_(view) {
    for (const v1::TunedKernel& kernel : view.kernels()) {
      const bool any = std::ranges::any_of(
          kernel.points(), [](const v1::TunePoint& point) { return IsTime(point.seconds()); });
      if (!any) continue;
      if (shown_.size() == kMaxSvgKernels) {
        ++left_out_;
        continue;
      }
      shown_.push_back(&kernel);
      Include(kernel.heuristic_seconds());
      for (const v1::TunePoint& point : kernel.points()) {
        Include(point.seconds());
        last_ = std::max<double>(last_, point.candidate());
      }
    }
    if (!(low_ <= high_)) low_ = 1e-6, high_ = 1e-3;
    // Whole decades would waste most of the picture of one kernel.
    low_ = std::log10(low_) - 0.05, high_ = std::log10(high_) + 0.05;
  }

  std::string Draw() {
    Append(out_, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out_ += absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g "
        "%g\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n",
        kWidth, kHeight, kWidth, kHeight);
    const v1::Tune& tune = view_.tune();
    const std::string title =
        Cat("Tuning ", tune.title().empty() ? tune.id().substr(0, 12) : tune.title(), ", beam ",
            tune.beam(), ": best time over candidates");
    Append(out_, "<title>", Escaped(title, 200), "</title>\n");
    out_ += absl::StrFormat("<rect width=\"%g\" height=\"%g\" fill=\"white\"/>\n", kWidth, kHeight);
    Text(kWidth / 2, 28, "middle", title, "font-size=\"16\"");
    Axes();
    for (size_t i = 0; i < shown_.size(); ++i) Kernel(i);
    if (shown_.empty()) {
      Text((kLeft + kWidth - kRight) / 2, kHeight / 2, "middle", "no candidate was measured", "");
    }
    if (left_out_ > 0) Legend(shown_.size(), Cat("and ", left_out_, " more"));
    return out_ + "</svg>\n";
  }

 private:
  void Include(double seconds) {
    if (!IsTime(seconds)) return;
    low_ = std::min(low_, seconds), high_ = std::max(high_, seconds);
  }
  double X(double candidate) const {
    return kLeft + (kWidth - kLeft - kRight) * candidate / std::max(last_, 1.0);
  }
  double Y(double seconds) const {
    const double part = (std::log10(seconds) - low_) / (high_ - low_);
    return kHeight - kBottom - (kHeight - kTop - kBottom) * part;
  }
  void Text(double x, double y, const char* anchor, const std::string& text,
            const std::string& attributes) {
    out_ += absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>%s</text>\n", x, y,
                            anchor, attributes, Escaped(text, 200));
  }
  void Line(double x1, double y1, double x2, double y2, const char* colour) {
    out_ +=
        absl::StrFormat("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n",
                        x1, y1, x2, y2, colour);
  }

  void Axes() {
    const double right = kWidth - kRight, bottom = kHeight - kBottom;
    // 1, 2 and 5 of every decade; only the decades if there are many.
    const bool fine = high_ - low_ <= 3;
    const int every = std::max(1, static_cast<int>((high_ - low_) / 10));  // decades between lines
    for (int decade = static_cast<int>(std::floor(low_)); decade <= std::ceil(high_);
         decade += every) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double seconds = digit * std::pow(10.0, decade);
        const double at = std::log10(seconds);
        if ((digit != 1 && !fine) || at < low_ || at > high_) continue;
        Line(kLeft, Y(seconds), right, Y(seconds), "#dddddd");
        Text(kLeft - 6, Y(seconds) + 4, "end", ShortTime(seconds), "");
      }
    }
    const double step = Step();
    for (double at = 0; at <= last_; at += step) {
      Line(X(at), bottom, X(at), bottom + 5, "black");
      Text(X(at), bottom + 18, "middle", absl::StrFormat("%g", at), "");
    }
    Line(kLeft, bottom, right, bottom, "black");
    Line(kLeft, kTop, kLeft, bottom, "black");
    Text((kLeft + right) / 2, kHeight - 18, "middle", "candidates of the kernel", "");
    const double middle = (kTop + bottom) / 2;
    Text(18, middle, "middle", "time of one run, logarithmic",
         absl::StrFormat("transform=\"rotate(-90 18 %.1f)\"", middle));
  }

  // Of the axis of candidates: about eight of them.
  double Step() const {
    const double rough = std::max(last_ / 8, 1.0);
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (digit * power >= rough) return digit * power;
    }
    return 10 * power;
  }

  void Legend(size_t row, const std::string& text) {
    Text(kWidth - kRight + 36, kTop + 12 + 32 * static_cast<double>(row), "start", text, "");
  }

  void Kernel(size_t i) {
    const v1::TunedKernel& kernel = *shown_[i];
    const char* colour = kColours[i % kColours.size()];
    const double legend_y = kTop + 8 + 32 * static_cast<double>(i);
    Append(out_, "<g stroke=\"", colour, "\" fill=\"", colour, "\">\n<title>",
           Escaped(kernel.name(), 200), "</title>\n");
    std::string path;
    double best = std::numeric_limits<double>::infinity();
    for (const v1::TunePoint& point : kernel.points()) {
      if (!IsTime(point.seconds())) continue;
      const double x = X(point.candidate());
      out_ += absl::StrFormat(
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\" fill-opacity=\"0.4\" "
          "stroke=\"none\"/>\n",
          x, Y(point.seconds()));
      // A staircase: the best time holds until a better candidate comes.
      if (path.empty()) {
        path = absl::StrFormat("M%.1f %.1f", x, Y(point.seconds()));
      } else {
        path += absl::StrFormat("H%.1f", x);
      }
      if (point.seconds() < best) path += absl::StrFormat("V%.1f", Y(point.seconds()));
      best = std::min(best, point.seconds());
    }
    out_ += absl::StrFormat("<path d=\"%s\" fill=\"none\" stroke-width=\"2\"/>\n", path);
    if (IsTime(kernel.heuristic_seconds())) {
      out_ += absl::StrFormat(
          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke-dasharray=\"4 4\" "
          "stroke-opacity=\"0.6\"/>\n",
          kLeft, Y(kernel.heuristic_seconds()), kWidth - kRight, Y(kernel.heuristic_seconds()));
    }
    out_ += absl::StrFormat(
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"4\" stroke=\"none\"/>\n</g>\n",
        kWidth - kRight + 16, legend_y);
    Legend(i, Fitting(kernel.name()));
    std::string times =
        Cat(ShortTime(kernel.heuristic_seconds()), " -> ", ShortTime(kernel.best_seconds()));
    if (const double ratio = Speedup(kernel); ratio > 0) {
      times += absl::StrFormat(" (%.2fx), %s", ratio, kernel.state());
    }
    Text(kWidth - kRight + 36, kTop + 26 + 32 * static_cast<double>(i), "start", times,
         "fill=\"#555555\"");
  }

  // A name that fits into the legend; Text escapes it.
  static std::string Fitting(const std::string& name) {
    constexpr size_t kMost = 36;
    return name.size() <= kMost ? name : name.substr(0, kMost - 3) + "...";
  }

  const TuneView& view_;
  std::vector<const v1::TunedKernel*> shown_;
  size_t left_out_ = 0;
  double low_ = std::numeric_limits<double>::infinity(), high_ = 0;  // then their logarithms
  double last_ = 1;                                                  // candidate
  std::string out_;
};

}  // namespace

std::string TuneSvg(const TuneView& view) { return Picture(view).Draw(); }

}  // namespace uopd::cli
