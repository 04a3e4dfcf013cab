// SPDX-License-Identifier: MIT
#include "server/engine/report/run_text.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "core/base/text.h"
#include "server/engine/tune/tuning_record.h"

namespace uopd::engine {
namespace {

constexpr size_t kOptsBytes = 400;  // of one kernel's opts; longer text is cut

KernelReport ReportOf(const Step& step, double ns, const RunReport& report) {
  const Kernel& kernel = *step.kernel;
  KernelReport out;
  out.kernel = kernel.name;
  out.device = step.device->name();
  out.draft = kernel.draft;
  out.opts = Text(kernel.opts);
  if (out.opts.size() > kOptsBytes) out.opts = Cat(out.opts.substr(0, kOptsBytes), "...");
  out.ns = ns;
  out.flops = kernel.flops;
  out.bytes = kernel.bytes;
  if (const auto roof = report.roofs.find(out.device); roof != report.roofs.end()) {
    out.roof_ns = roof->second.LeastNs(kernel.dtype, kernel.flops, kernel.bytes);
  }
  return out;
}

}  // namespace

std::string KernelLine(const KernelReport& kernel, size_t step) {
  const std::string roof =
      kernel.roof_ns > 0 ? absl::StrFormat("%5.1f %% of roof", 100 * kernel.roof_ns / kernel.ns)
                         : "roof unknown";
  return absl::StrFormat("%5d  %-40s %-7s %10.1f us %9.2f GFLOPS %8.2f GB/s  %s%s", step,
                         kernel.kernel, kernel.device, kernel.ns * 1e-3, kernel.flops / kernel.ns,
                         kernel.bytes / kernel.ns, roof, kernel.draft ? ", draft" : "");
}

void ReportRun(const Program& program, std::span<const int64_t> durations_ns, int64_t steps_ns,
               RunReport& report) {
  report.ran = true;
  size_t count = 0;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.kernel == nullptr) continue;
    ++count;
    const auto ns = static_cast<double>(std::max<int64_t>(durations_ns[i], 1));
    report.kernels_ns += ns;
    if (report.kernels.size() >= RunReport::kMaxKernels) {
      ++report.left_out;
      report.left_out_ns += ns;
      continue;
    }
    report.kernels.push_back(ReportOf(step, ns, report));
    if (report.debug >= 2) report.AddText(KernelLine(report.kernels.back(), i) + "\n");
  }
  if (report.debug >= 1) {
    const auto all = static_cast<double>(steps_ns);
    report.AddText(absl::StrFormat(
        "run of %d kernels: %.1f us, %.1f us in kernels, %.1f us between them\n", count, all * 1e-3,
        report.kernels_ns * 1e-3, std::max(all - report.kernels_ns, 0.0) * 1e-3));
  }
  if (!report.profile) report.kernels.clear();
}

}  // namespace uopd::engine
