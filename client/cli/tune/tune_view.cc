// SPDX-License-Identifier: MIT
#include "client/cli/tune/tune_view.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "client/cpp/net/tune_points.h"
#include "core/base/text.h"

namespace uopd::cli {
std::string ShortTime(double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) return "-";
  if (seconds < 1e-3) return absl::StrFormat("%.4g us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.4g ms", seconds * 1e3);
  return absl::StrFormat("%.4g s", seconds);
}

double Speedup(const v1::TunedKernel& kernel) {
  const double ratio = kernel.heuristic_seconds() / kernel.best_seconds();
  return std::isfinite(ratio) ? ratio : 0;
}

std::vector<size_t> TuneView::Add(const v1::WatchTuneResponse& message) {
  std::vector<size_t> news;
  tune_ = message.tune();
  if (message.kernels_replaced()) kernels_.clear();
  for (const v1::TunedKernel& now : message.kernels()) {
    const size_t i = now.number();
    if (i >= kMaxKernels) continue;
    if (i >= kernels_.size()) kernels_.resize(i + 1);
    v1::TunedKernel& known = kernels_[i];
    if (now.state() != known.state() || now.opts() != known.opts()) news.push_back(i);
    client::UpdateKernel(known, now);
  }
  return news;
}

std::string TuneView::Line(size_t kernel) const {
  const v1::TunedKernel& k = kernels_[kernel];
  std::string out =
      Cat("[", kernel + 1, "/", tune_.kernels(), "] ", k.name(), " on ", k.device(), ": ");
  if (k.state() == "pending") return out + "pending";
  if (k.state() == "waiting") return Cat(out, "waiting for ", k.detail());
  if (k.state() == "failed") return Cat(out, "failed: ", k.detail());
  if (k.state() == "skipped") return Cat(out, "skipped: ", k.detail());
  if (k.state() != "searching") Append(out, k.state(), ", ");
  Append(out, k.measured(), " measured");
  if (k.failed() > 0) Append(out, ", ", k.failed(), " failed");
  if (k.pruned() > 0) Append(out, ", ", k.pruned(), " pruned");
  if (k.duplicates() > 0) Append(out, ", ", k.duplicates(), " duplicates");
  Append(out, ", best ", ShortTime(k.best_seconds()), ", heuristic ",
         ShortTime(k.heuristic_seconds()));
  if (const double ratio = Speedup(k); ratio > 0) out += absl::StrFormat(" (%.2fx)", ratio);
  if (k.state() == "searching") {
    Append(out, ", tries ", k.trying().empty() ? "the heuristic's choice" : k.trying());
  } else if (!k.opts().empty()) {
    Append(out, " by ", k.opts());
  }
  if (k.limited()) out += ", ended by the budget";
  return out;
}

std::string TuneView::Progress() const {
  for (const char* state : {"searching", "waiting"}) {
    const auto it = std::ranges::find_if(
        kernels_, [&](const v1::TunedKernel& k) { return k.state() == state; });
    if (it != kernels_.end()) return Line(static_cast<size_t>(it - kernels_.begin()));
  }
  return Cat(tune_.state(), ": ", tune_.kernels(), tune_.kernels() == 1 ? " kernel" : " kernels");
}

std::string TuneView::Table() const {
  std::string out =
      absl::StrFormat("%10s %10s %7s %10s %8s %10s %-9s %-24s %s\n", "heuristic", "best", "ratio",
                      "candidates", "pruned", "duplicates", "state", "kernel", "opts");
  double before = 0, after = 0;
  for (const v1::TunedKernel& k : kernels_) {
    const double ratio = Speedup(k);
    const bool over = k.state() == "tuned" || k.state() == "found";
    if (over && ratio > 0) {
      before += k.heuristic_seconds() * k.launches();
      after += k.best_seconds() * k.launches();
    }
    const std::string text = over ? k.opts() : k.detail();
    out += absl::StrFormat(
        "%10s %10s %7s %10d %8d %10d %-9s %-24s %s%s\n", ShortTime(k.heuristic_seconds()),
        ShortTime(k.best_seconds()), ratio > 0 ? absl::StrFormat("%.2fx", ratio) : "-",
        static_cast<long long>(k.measured() + k.failed()), static_cast<long long>(k.pruned()),
        static_cast<long long>(k.duplicates()), k.state(), k.name(), text,
        over && k.limited() ? " (ended by the budget)" : "");
  }
  out += absl::StrFormat("%s: %d of %d kernels tuned, %d found, %d failed, %d skipped",
                         tune_.state(), tune_.kernels_tuned(), tune_.kernels(),
                         tune_.kernels_found(), tune_.kernels_failed(), tune_.kernels_skipped());
  out += absl::StrFormat(
      "; %d candidates in %.1f s of searches, %d pruned, %d duplicates",
      static_cast<long long>(tune_.candidates()), 1e-3 * static_cast<double>(tune_.spent_ms()),
      static_cast<long long>(tune_.pruned()), static_cast<long long>(tune_.duplicates()));
  if (after > 0) {
    out += absl::StrFormat("; kernels of one run %s -> %s", ShortTime(before), ShortTime(after));
  }
  if (!tune_.error().empty()) Append(out, "; ", tune_.error());
  return out + "\n";
}

}  // namespace uopd::cli
