// SPDX-License-Identifier: MIT
#include "server/engine/report/roofs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/shape.h"

namespace uopd::engine {
namespace {

using ir::Dtype;
using ir::UOp;

constexpr int kMultiplyAdds = 64;          // of every element
constexpr int64_t kElements = 64 << 10;    // for every thread
constexpr int64_t kMatrix = 512;           // rows and columns
constexpr int64_t kMostBytes = 256 << 20;  // for data that fit in no cache
constexpr int kLaunches = 50;
constexpr std::chrono::milliseconds kTime{150};  // for all launches of one kernel
constexpr int64_t kLeastNs = 1000;  // a shorter time is not believed: the device measures nothing

UOp Shape(ir::UOpContext& ctx, std::initializer_list<int64_t> dims) {
  return ir::ShapeArg(ctx, dims);
}

// slot 0 = f(slot 1), n elements.
UOp MultiplyAdds(ir::UOpContext& ctx, Dtype dtype, int64_t n) {
  const bool is_float = ir::IsFloat(dtype);
  const UOp factor = is_float ? ctx.Float(dtype, 0.75) : ctx.Int(dtype, 3);
  const UOp term = is_float ? ctx.Float(dtype, 0.25) : ctx.Int(dtype, 1);
  UOp value = ir::Param(ctx, 1, dtype, Shape(ctx, {n}));
  for (int i = 0; i < kMultiplyAdds; ++i) {
    value = ir::Alu(ctx, ir::Op::MULACC, {value, factor, term});
  }
  return ir::Store(ctx, ir::Param(ctx, 0, dtype, Shape(ctx, {n})), value);
}

// slot 0 = slot 1 times slot 2, matrices. Products of small floats have sums in f32.
UOp Product(ir::UOpContext& ctx, Dtype dtype) {
  const Dtype sum = ir::ByteSize(dtype) < 4 ? Dtype::F32 : dtype;
  const auto operand = [&](int64_t slot, std::initializer_list<int64_t> view) {
    const UOp matrix = ir::Param(ctx, slot, dtype, Shape(ctx, {kMatrix, kMatrix}));
    const UOp cube = ir::Expand(ctx, ir::Reshape(ctx, matrix, Shape(ctx, view)),
                                Shape(ctx, {kMatrix, kMatrix, kMatrix}));
    return ir::Cast(ctx, cube, sum);
  };
  const UOp products =
      ir::Mul(ctx, operand(1, {kMatrix, kMatrix, 1}), operand(2, {1, kMatrix, kMatrix}));
  const int64_t axis = 1;
  const UOp sums = ir::ReduceAxes(ctx, ir::Op::ADD, products, std::span(&axis, 1));
  return ir::Store(ctx, ir::Param(ctx, 0, sum, Shape(ctx, {kMatrix, kMatrix})),
                   ir::Reshape(ctx, sums, Shape(ctx, {kMatrix, kMatrix})));
}

UOp LoadAndStore(ir::UOpContext& ctx, int64_t n) {
  const UOp shape = Shape(ctx, {n});
  const UOp sum = ir::Add(ctx, ir::Param(ctx, 1, Dtype::F32, shape), ctx.Float(Dtype::F32, 1));
  return ir::Store(ctx, ir::Param(ctx, 0, Dtype::F32, shape), sum);
}

// Rows of sums, so that every thread has some.
UOp Sum(ir::UOpContext& ctx, int64_t rows, int64_t columns) {
  const UOp all = ir::Param(ctx, 1, Dtype::F32, Shape(ctx, {rows, columns}));
  const int64_t axis = 1;
  const UOp sums = ir::ReduceAxes(ctx, ir::Op::ADD, all, std::span(&axis, 1));
  return ir::Store(ctx, ir::Param(ctx, 0, Dtype::F32, Shape(ctx, {rows})),
                   ir::Reshape(ctx, sums, Shape(ctx, {rows})));
}

}  // namespace

Roof Roofs::Get(const RequestContext& request, DeviceState& device,
                std::span<const DtypeNumber> dtypes) {
  MutexLock lock(mu_);
  Known& known = known_[&device];
  if (!known.memory) {
    Roof roof = known.roof;
    MeasureMemory(request, device, roof);
    if (!request.Check().ok()) return known.roof;
    known.roof = std::move(roof);
    known.memory = true;
  }
  for (const DtypeNumber dtype : dtypes) {
    if (dtype == DtypeNumber::Void || known.dtypes.contains(dtype)) continue;
    const double ops = MeasureOps(request, device, dtype);
    if (!request.Check().ok()) return known.roof;
    known.roof.ops_per_s[dtype] = ops;
    known.dtypes.insert(dtype);
    UOPD_LOG(kInfo, "roof measured", {"device", device.name()}, {"dtype", Name(dtype)},
             {"gflops", ops * 1e-9}, {"memory_gbytes", known.roof.memory_bytes_per_s * 1e-9},
             {"cache_gbytes", known.roof.cache_bytes_per_s * 1e-9});
  }
  return known.roof;
}

void Roofs::MeasureMemory(const RequestContext& request, DeviceState& device, Roof& roof) const {
  const Target& target = device.device().target();
  int64_t largest = 0;
  for (const CacheLevel& cache : target.caches) largest = std::max(largest, cache.bytes);
  const auto rate = [&](int64_t bytes) {
    constexpr int64_t kRows = 256;
    double best = 0;
    ir::UOpContext ctx;
    const int64_t columns = std::max<int64_t>(bytes / 4 / kRows, 1);
    for (const UOp store : {LoadAndStore(ctx, columns * kRows / 2), Sum(ctx, kRows, columns)}) {
      const auto speed = Measure(request, device, ctx, store, nullptr);
      if (speed.ok()) best = std::max(best, speed->bytes_per_s);
    }
    return best;
  };
  roof.memory_bytes_per_s = rate(std::clamp<int64_t>(4 * largest, kMostBytes / 4, kMostBytes));
  const int64_t own = target.OwnCacheBytes() * std::max(target.threads, 1);
  roof.cache_bytes = static_cast<double>(own);
  roof.cache_bytes_per_s = rate(own / 2);
}

double Roofs::MeasureOps(const RequestContext& request, DeviceState& device,
                         DtypeNumber number) const {
  const auto dtype = ir::DtypeByWire(static_cast<uint64_t>(number));
  if (!dtype.has_value()) return 0;
  const Target& target = device.device().target();
  // Small floats are computed in f32, bools like bytes.
  const bool is_small = ir::IsFloat(*dtype) && ir::ByteSize(*dtype) < 4;
  const Dtype computed = is_small ? Dtype::F32 : *dtype == Dtype::Bool ? Dtype::U8 : *dtype;
  const int64_t threads = std::max(target.threads, 1);
  const int64_t lanes =
      std::clamp<int64_t>(target.vector_bytes / ir::ByteSize(computed), 1, target.vector_lanes);
  ir::UOpContext ctx;
  const UOp store = MultiplyAdds(ctx, computed, threads * kElements);
  std::vector<codegen::Opt> opts;
  if (lanes > 1) opts.push_back({codegen::OptKind::kVector, 0, lanes});
  opts.push_back({codegen::OptKind::kUpcast, 0, 8});
  if (threads > 1) opts.push_back({codegen::OptKind::kThread, 0, threads});
  auto speed = Measure(request, device, ctx, store, &opts);
  // A device whose kernels take other opts.
  if (absl::IsInvalidArgument(speed.status())) {
    speed = Measure(request, device, ctx, store, nullptr);
  }
  double best = speed.ok() ? speed->ops_per_s : 0;
  if (!speed.ok()) {
    UOPD_LOG(kWarn, "roof is not measured", {"device", device.name()}, {"dtype", Name(number)},
             {"status", speed.status()});
  }
  // What is computed in f32 can be as fast as f32.
  std::vector<Dtype> products;
  if (ir::IsFloat(*dtype)) products.push_back(computed);
  if (is_small) products.push_back(*dtype);
  for (const Dtype operands : products) {
    const auto product = Measure(request, device, ctx, Product(ctx, operands), nullptr);
    if (product.ok()) best = std::max(best, product->ops_per_s);
  }
  return best;
}

absl::StatusOr<Roofs::Speed> Roofs::Measure(const RequestContext& request, DeviceState& device,
                                            ir::UOpContext& ctx, UOp store,
                                            const std::vector<codegen::Opt>* opts) const {
  schedule::Options options;
  options.default_device = device.name();
  options.limits = schedule::KernelLimits::Of(device.device().target());
  UOPD_ASSIGN(const schedule::Schedule schedule,
              graph_compiler_.MakeSchedule(ctx, ir::Sink(ctx, std::span(&store, 1)), options));
  if (schedule.items.size() != 1 || schedule.items[0].kind != schedule::Item::kKernel) {
    return absl::InternalError("the work to measure is not one kernel");
  }
  const schedule::Item& item = schedule.items[0];
  UOPD_ASSIGN(StreamLease stream, StreamLease::Take(device));
  std::vector<std::shared_ptr<devices::Buffer>> memory;
  std::vector<devices::BufferArg> buffers;
  std::vector<int64_t> capacities;
  for (const schedule::BufferRef& ref : item.buffers) {
    const int64_t bytes = BufferBytes(schedule, ref);
    UOPD_ASSIGN(auto buffer,
                device.device().Allocate(static_cast<size_t>(bytes), devices::MemoryKind::kDevice));
    UOPD_TRY(stream->Fill(*buffer, 0, static_cast<size_t>(bytes), std::byte{0}));
    buffers.push_back({buffer.get(), 0});
    capacities.push_back(bytes);
    memory.push_back(std::move(buffer));
  }
  const CompileOptions plain;
  UOPD_ASSIGN(const LoadedKernel loaded,
              compile_.LoadKernel(request, {item.graph, &device, plain, opts, capacities}));
  const Kernel& kernel = *loaded.kernel;
  const LaunchShape shape = kernel.launch.At({});
  int64_t best = INT64_MAX;
  const auto end = std::chrono::steady_clock::now() + kTime;
  for (int i = 0; i < kLaunches && std::chrono::steady_clock::now() < end; ++i) {
    UOPD_TRY(request.Check());
    int64_t ns = 0;
    UOPD_TRY(stream->Launch(*kernel.executable, shape, buffers, {}, &ns));
    UOPD_TRY(stream->Synchronize());
    best = std::min(best, ns);
  }
  UOPD_TRY(stream.Finish());
  if (best == INT64_MAX || best < kLeastNs) return Speed{};
  const double seconds = 1e-9 * static_cast<double>(best);
  return Speed{kernel.flops / seconds, kernel.bytes / seconds};
}

}  // namespace uopd::engine
