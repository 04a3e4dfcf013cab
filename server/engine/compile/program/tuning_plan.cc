// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/tuning_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

// The task has its kernels in the order of tuning; the observer knows them by their numbers in the
// plan.
class Renumbered final : public TuningObserver {
 public:
  Renumbered(std::vector<size_t> numbers, std::shared_ptr<TuningObserver> observer)
      : numbers_(std::move(numbers)), observer_(std::move(observer)) {}

  bool cancelled() const override { return observer_->cancelled(); }
  absl::StatusOr<SearchLimits> Begin(size_t i) override { return observer_->Begin(numbers_[i]); }
  void Tried(size_t i, const search::Trial& trial) override {
    observer_->Tried(numbers_[i], trial);
  }
  void LeftOut(size_t i, uint64_t pruned, uint64_t duplicates) override {
    observer_->LeftOut(numbers_[i], pruned, duplicates);
  }
  void WaitsFor(size_t i, std::string_view what) override {
    observer_->WaitsFor(numbers_[i], what);
  }
  void Ended(size_t i, const absl::StatusOr<TuningRecord>& result, bool found) override {
    observer_->Ended(numbers_[i], result, found);
  }

 private:
  const std::vector<size_t> numbers_;
  const std::shared_ptr<TuningObserver> observer_;
};

void SortByEstimate(TuningPlan& plan) {
  std::vector<size_t> order(plan.kernels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) {
    return std::pair(-plan.kernels[i].estimate_s * plan.kernels[i].launches, i);
  });
  std::vector<ScheduledKernel> scheduled;
  std::vector<TuningPlan::Kernel> kernels;
  for (const size_t i : order) {
    scheduled.push_back(std::move(plan.set->kernels[i]));
    kernels.push_back(std::move(plan.kernels[i]));
  }
  plan.set->kernels = std::move(scheduled);
  plan.kernels = std::move(kernels);
}

}  // namespace

absl::Status DescribeKernels(const GraphCompiler& graph_compiler, Interrupt& interrupt,
                             TuningPlan& plan) {
  const auto& kernels = plan.set->kernels;
  if (kernels.empty()) return absl::InvalidArgumentError("the graph has no kernel to tune");
  if (kernels.size() > TuningPlan::kMaxKernels) {
    return absl::ResourceExhaustedError(Cat("the graph has ", kernels.size(),
                                            " kernels, and at most ", TuningPlan::kMaxKernels,
                                            " can be tuned in one operation"));
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    UOPD_TRY(interrupt.Check());
    const devices::Device& device = plan.DeviceOf(i);
    if (device.info().compiles_only) {
      return absl::FailedPreconditionError(
          Cat("device ", device.info().name, " only compiles, so nothing can be measured on it"));
    }
    TuningPlan::Kernel& out = plan.kernels.emplace_back();
    out.graph = HashBytes(kernels[i].graph);
    out.launches = static_cast<uint32_t>(kernels[i].items.size());
    PhaseTimings timings;  // belongs to no request
    const auto source = graph_compiler.LowerKernel(kernels[i].graph, device, plan.options(),
                                                   nullptr, false, &timings, &interrupt);
    UOPD_TRY(interrupt.Check());
    // A kernel that the heuristic cannot lower may still have opts that can.
    out.name = source.ok() ? source->record.name : Cat("kernel_", out.graph.Hex().substr(0, 12));
    const double ns = source.ok() ? source->record.estimate_ns : 0;
    if (std::isfinite(ns) && ns > 0) out.estimate_s = ns * 1e-9;
  }
  SortByEstimate(plan);
  return absl::OkStatus();
}

TuningTask TuningTaskOf(const std::shared_ptr<const TuningPlan>& plan,
                        const std::vector<size_t>& kernels,
                        std::shared_ptr<TuningObserver> observer, KernelLoader& loader) {
  TuningTask task;
  task.options = plan->options();
  for (const size_t i : kernels) {
    task.kernels.push_back({.graph = plan->ScheduledAt(i).graph,
                            .device = &plan->DeviceOf(i),
                            .name = plan->kernels[i].name});
  }
  task.program = observer;
  task.observer = std::make_shared<Renumbered>(kernels, std::move(observer));
  task.use = [plan, kernels, &loader](size_t i, const TuningRecord& found) -> absl::Status {
    const KernelRequest wanted = plan->set->RequestOf(kernels[i]).TunedAs(found);
    PhaseTimings timings;  // belongs to no request
    return loader.Get(RequestContext(), wanted, &timings).status();
  };
  return task;
}

std::optional<TuningTask> TuningTaskOf(const std::shared_ptr<ProgramHandle>& program,
                                       const std::shared_ptr<ProgramUpdate>& update,
                                       KernelLoader& loader) {
  if (update->options().beam == 0) return std::nullopt;
  TuningTask task;
  task.options = update->options();
  bool any = false;
  for (size_t i = 0; i < update->size(); ++i) {
    const KernelRequest wanted = update->RequestOf(i);
    if (wanted.device->device().info().compiles_only) return std::nullopt;
    const std::shared_ptr<const Kernel> kernel = update->KernelAt(i);
    task.kernels.push_back({.graph = wanted.graph,
                            .device = &wanted.device->device(),
                            .name = kernel->name,
                            .done = kernel->tuned});
    any |= !kernel->tuned;
  }
  if (!any) return std::nullopt;
  task.program = program;
  task.use = [update, &loader](size_t i, const TuningRecord& found) -> absl::Status {
    if (!update->wanted()) return absl::OkStatus();
    const KernelRequest wanted = update->RequestOf(i).TunedAs(found);
    PhaseTimings timings;  // belongs to no request
    UOPD_ASSIGN(LoadedKernel tuned, loader.Get(RequestContext(), wanted, &timings));
    return update->Replace(i, std::move(tuned.kernel));
  };
  return task;
}

}  // namespace uopd::engine
