// SPDX-License-Identifier: MIT
#include "server/worker/tune/worker_measurer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <iterator>
#include <numeric>
#include <thread>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/search/stage_time.h"
#include "server/worker/job/compile_job.h"

namespace uopd::worker {
namespace {

constexpr int kMostRepeats = 2;  // of a batch that something disturbed
constexpr int kRunsOfBest = 3;   // of the best kernel, to see whether it is as fast as before

}  // namespace

WorkerMeasurer::WorkerMeasurer(const ir::UOpContext& ctx, ir::UOp sink, WorkerPools pools,
                               MeasurerOptions options)
    : pools_(pools), options_(std::move(options)) {
  for (ir::UOp v : ir::Variables(ctx, sink)) {
    const int64_t min = v.ints()[0], max = v.ints()[1];
    variables_[std::string(v.text())] =
        static_cast<int64_t>((static_cast<ir::Int128>(min) + max) / 2);
  }
}

std::vector<absl::StatusOr<std::string>> WorkerMeasurer::Compile(
    std::span<const search::Candidate> batch) {
  std::vector<absl::StatusOr<std::string>> out(batch.size());
  // The longest first, so that all workers are done at about the same time.
  std::vector<size_t> order(batch.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, std::less<>(), [&](size_t i) {
    return std::pair(-static_cast<std::ptrdiff_t>(batch[i].source.size()), i);
  });
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t k; (k = next.fetch_add(1)) < batch.size();) {
      const size_t i = order[k];
      const search::StageTime time("compile");
      const CompileRequest request{options_.device, options_.toolchain, batch[i].source};
      out[i] =
          pools_.compile.Run(request.ToJob(options_.compile_limit), options_.limits).ToStatusOr();
    }
  };
  // These threads only wait for their workers. The calling thread does the same.
  std::vector<std::thread> threads;
  const size_t count = std::min<size_t>(batch.size(), pools_.compile.max_workers());
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return out;
}

absl::StatusOr<MeasureRequest> WorkerMeasurer::RequestOf(const search::Candidate& candidate,
                                                         const std::string& object) const {
  MeasureRequest request;
  request.device = options_.device;
  request.object = object;
  request.entry = search::kCandidateEntry;
  for (const codegen::BufferUse& use : candidate.kernel.buffers) {
    request.buffers.push_back({use.dtype,
                               static_cast<uint64_t>(use.elements * ir::ByteSize(use.dtype)),
                               use.read, use.written});
  }
  for (const std::string& name : candidate.kernel.variables) {
    const auto it = variables_.find(name);
    if (it == variables_.end()) {
      return absl::InternalError(
          Cat("a candidate has a variable (", name, ") that its kernel does not have"));
    }
    request.variables.push_back(it->second);
  }
  request.shape = candidate.kernel.launch.At(request.variables);
  return request;
}

absl::StatusOr<MeasureAnswer> WorkerMeasurer::Run(const search::Candidate& candidate,
                                                  const std::string& object, int runs,
                                                  double best_seconds, bool want_outputs,
                                                  int64_t budget_ns) {
  UOPD_ASSIGN(MeasureRequest request, RequestOf(candidate, object));
  request.runs = runs;
  request.budget_ns = budget_ns;
  if (std::isfinite(best_seconds))
    request.best_ns = std::max<int64_t>(1, std::llround(std::min(best_seconds * 1e9, 1e18)));
  request.want_outputs = want_outputs;
  UOPD_ASSIGN(
      const std::string bytes,
      pools_.measure.Run(request.ToJob(options_.measure_limit), options_.limits).ToStatusOr());
  return MeasureAnswer::Decode(bytes);
}

void WorkerMeasurer::Condemn(const search::Candidate& candidate, const std::string& object,
                             const absl::Status& why) {
  // A request that cannot be made was not run either.
  if (const auto request = RequestOf(candidate, object); request.ok())
    pools_.measure.Condemn(request->ToJob(options_.measure_limit), why);
}

absl::StatusOr<double> WorkerMeasurer::Time(const search::Candidate& candidate,
                                            const absl::StatusOr<std::string>& object,
                                            double best_seconds, bool again) {
  UOPD_TRY(object.status());
  std::string launch;
  candidate.kernel.launch.Encode(launch);
  const Digest key = HashBytes(Cat(launch, *object));
  const auto it = by_object_.find(key);
  if (it != by_object_.end() && (!again || !it->second.ok())) return it->second;
  const search::StageTime time("measure");
  const auto answer =
      Run(candidate, *object, options_.runs, best_seconds, false, options_.budget_ns);
  absl::StatusOr<double> seconds = absl::InternalError("not measured");
  if (answer.ok()) {
    seconds = static_cast<double>(answer->min_ns) * 1e-9;
  } else {
    seconds = answer.status();
  }
  if (it == by_object_.end()) return by_object_.emplace(key, std::move(seconds)).first->second;
  if (seconds.ok()) it->second = std::min(*it->second, *seconds);
  return it->second;
}

std::vector<absl::StatusOr<double>> WorkerMeasurer::Measure(
    std::span<const search::Candidate> batch, double best_seconds) {
  std::vector<absl::StatusOr<double>> out;
  std::vector<absl::StatusOr<std::string>> objects;
  const auto time = [&](std::span<const search::Candidate> part) {
    for (const search::Candidate& candidate : part) {
      out.push_back(Time(candidate, objects[out.size()], best_seconds, false));
      if (out.back().ok()) best_seconds = std::min(best_seconds, *out.back());
    }
  };
  const auto add = [&](std::vector<absl::StatusOr<std::string>> compiled) {
    std::ranges::move(compiled, std::back_inserter(objects));
  };
  if (!options_.overlap) {
    add(Compile(batch));
    time(batch);
  } else {
    // A part of the batch for all compile workers at a time; the next one is compiled while one is
    // measured.
    const auto part_size = static_cast<size_t>(std::max(1, pools_.compile.max_workers()));
    const auto part_at = [&](size_t at) {
      return batch.subspan(std::min(at, batch.size()),
                           std::min(part_size, batch.size() - std::min(at, batch.size())));
    };
    auto next = std::async(std::launch::async, [&] { return Compile(part_at(0)); });
    for (size_t at = 0; at < batch.size(); at += part_size) {
      add(next.get());
      const auto following = part_at(at + part_size);
      if (!following.empty())
        next = std::async(std::launch::async, [this, following] { return Compile(following); });
      time(part_at(at));
    }
  }
  // The first batch has no kernel to compare with: it is timed twice.
  const int repeats = best_ ? kMostRepeats : 1;
  for (int round = 0; round < repeats && WasDisturbed(); ++round) {
    for (size_t i = 0; i < batch.size(); ++i) {
      if (out[i].ok()) out[i] = Time(batch[i], objects[i], best_seconds, true);
      if (out[i].ok()) best_seconds = std::min(best_seconds, *out[i]);
    }
  }
  for (size_t i = 0; i < batch.size(); ++i) {
    if (out[i].ok() && (!best_ || *out[i] < best_->seconds))
      best_ = Best{batch[i], *objects[i], *out[i]};
  }
  return out;
}

bool WorkerMeasurer::WasDisturbed() {
  constexpr double kSlower = 1.1;
  if (!best_) return true;
  const auto now =
      Run(best_->candidate, best_->object, kRunsOfBest, best_->seconds, false, options_.budget_ns);
  if (!now.ok()) return false;  // its end says nothing of the others
  const double seconds = static_cast<double>(now->min_ns) * 1e-9;
  const double before = std::exchange(best_->seconds, std::min(best_->seconds, seconds));
  return seconds > kSlower * before;
}

}  // namespace uopd::worker
