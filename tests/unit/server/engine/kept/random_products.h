// SPDX-License-Identifier: MIT
// Random programs over weights that a client changes rarely, and engines that keep values for them.
//
// The programs: products of one or two layers; weights of all small floats, floats and integers,
// through chains of casts, computed, padded or plain; permissions of precision; epilogues with
// reductions; normal, tiny and huge data. A third of them are networks of convolutions, which slide
// along padded rows and columns, stand in residual blocks and end in a mean.
#pragma once
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>

#include "cache/store.h"
#include "core/base/telemetry/metrics.h"
#include "core/ir/build.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "server/engine/compile/source/core_compiler.h"
#include "server/engine/engine.h"
#include "tests/support/model_graphs.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine::random_products {

using ir::Dtype;
using ir::UOp;
using uopd::test::GraphBuilder;

constexpr Dtype kWeightDtypes[] = {Dtype::F32, Dtype::BF16,   Dtype::F16,    Dtype::F64,
                                   Dtype::I8,  Dtype::F8E4M3, Dtype::F8E5M2, Dtype::U8,
                                   Dtype::I16, Dtype::I32};
constexpr Dtype kChainDtypes[] = {Dtype::U16, Dtype::I32, Dtype::U32, Dtype::BF16,
                                  Dtype::F16, Dtype::F32, Dtype::I64};

struct ProductSlot {
  Dtype dtype;
  ir::Dims dims;
  bool weight = false;
  int exponent = 0;  // floats are around 2^exponent
};

// A random program. Sizes are beyond those of programs that run in microseconds, which keep
// nothing.
class Author {
 public:
  explicit Author(uint64_t seed) : random_(seed) {}

  std::string Write() { return Write(Pick(3) == 0 ? Network() : Products()); }
  // Two convolutions beside a connection, and a mean over the pixels.
  std::string WriteBlock() {
    const UOp x = Input({1, 64, 14, 14}, Dtype::F32, false);
    UOp y = g_.Relu(g_.Conv2d(x, Input({96, 64, 3, 3}, Dtype::F32, true), 1));
    y = g_.Relu(ir::Add(ctx_, g_.Conv2d(y, Input({64, 96, 1, 1}, Dtype::F32, true), 0), x));
    return Write(g_.Mean(y, {2, 3}));
  }
  std::string Print() { return ir::Print(ctx_, sink_); }

  CompileOptions Options() {
    CompileOptions options;
    options.allow_bf16 = Pick(3) == 0;
    options.allow_f16 = Pick(4) == 0;
    options.fast_math = Pick(8) == 0;
    return options;
  }
  std::string Data(const ProductSlot& slot) {
    std::normal_distribution<double> normal;
    const auto size = static_cast<size_t>(ir::ByteSize(slot.dtype));
    std::string out(static_cast<size_t>(ir::Product(slot.dims)) * size, '\0');
    for (size_t at = 0; at < out.size(); at += size) {
      const uint64_t bits =
          ir::IsFloat(slot.dtype)
              ? ir::EncodeFloat(slot.dtype, std::ldexp(normal(random_), slot.exponent))
              : random_();
      std::memcpy(out.data() + at, &bits, size);
    }
    return out;
  }
  int Pick(uint64_t n) { return static_cast<int>(random_() % n); }

  std::vector<ProductSlot> slots;

 private:
  std::string Write(UOp x) {
    g_.Output(x);
    out_ = ProductSlot{x.dtype(), g_.DimsOf(x)};
    slots.push_back(out_);
    return ir::Encode(ctx_, sink_ = g_.Finish());
  }
  UOp Products() {
    int64_t rows = 32 + Pick(100), terms = 100 + Pick(300);
    const Dtype first = Pick(3) == 0 ? kWeightDtypes[Pick(std::size(kWeightDtypes))] : Dtype::F32;
    UOp x = Input({rows, terms}, ir::IsInt(first) ? Dtype::I32 : first, false);
    for (int layers = 1 + Pick(2); layers > 0; --layers) {
      const int64_t columns = 100 + Pick(400);
      UOp w = Weights(terms, columns, x.dtype());
      if (Pick(4) == 0 && ir::IsFloat(x.dtype())) x = Cast(Cast(x, Dtype::BF16), x.dtype());
      x = g_.MatMul(x, w);
      x = Epilogue(x);
      terms = columns;
    }
    return x;
  }
  UOp Network() {
    constexpr int64_t kChannels[] = {3, 16, 20, 32, 64, 96};
    const int64_t size = 7 + Pick(20);
    UOp x =
        Input({1 + Pick(2), kChannels[Pick(std::size(kChannels))], size, size}, Dtype::F32, false);
    for (int layers = 1 + Pick(4); layers > 0; --layers) {
      const ir::Dims dims = g_.DimsOf(x);
      const int64_t in = dims[1], kernel = Pick(2) == 0 ? 3 : 1;
      UOp y;
      if (Pick(5) == 0) {
        y = g_.DepthwiseConv2d(x, Input({in, 1, 3, 3}, Dtype::F32, true), 1);
      } else {
        const bool as_before = Pick(2) == 0 && in > 3;
        const int64_t out = as_before ? in : kChannels[1 + Pick(std::size(kChannels) - 1)];
        const Dtype stored = Pick(5) == 0 ? Dtype::BF16 : Dtype::F32;
        const UOp w = Cast(Input({out, in, kernel, kernel}, stored, true), Dtype::F32);
        y = g_.Conv2d(x, w, kernel == 1 ? 0 : Pick(4) == 0 ? 0 : 1);
      }
      const ir::Dims made = g_.DimsOf(y);
      if (Pick(2) == 0) {  // as a normalisation with constant statistics
        const auto of_channels = [&] {
          return g_.Reshape(Input({made[1]}, Dtype::F32, true), {1, made[1], 1, 1});
        };
        y = ir::Add(ctx_, ir::Mul(ctx_, y, of_channels()), of_channels());
      }
      if (made == dims && Pick(2) == 0) y = ir::Add(ctx_, y, x);
      if (Pick(4) != 0) y = g_.Relu(y);
      if (g_.DimsOf(y)[3] < 3) return y;
      x = y;
    }
    if (Pick(2) == 0) return x;
    if (Pick(4) != 0) {
      x = g_.Conv2d(x, Input({64, g_.DimsOf(x)[1], 1, 1}, Dtype::F32, true), 0);
      if (Pick(2) == 0) x = g_.Relu(x);
    }
    const ir::Dims dims = g_.DimsOf(x);
    x = g_.Reshape(g_.Mean(x, {2, 3}), {dims[0], dims[1]});
    return Pick(2) == 0 ? x : g_.MatMul(x, Input({dims[1], 50 + Pick(100)}, Dtype::F32, true));
  }
  UOp Cast(UOp x, Dtype dtype) { return x.dtype() == dtype ? x : ir::Cast(ctx_, x, dtype); }
  UOp Input(const ir::Dims& dims, Dtype dtype, bool weight) {
    constexpr int kExponents[] = {0, 0, 0, -131, -60, 30};
    int exponent = kExponents[Pick(std::size(kExponents))];
    if (ir::ByteSize(dtype) == 1 || dtype == Dtype::F16) exponent = exponent < 0 ? -10 : 0;
    slots.push_back({dtype, dims, weight, exponent});
    return g_.Input(dims, dtype);
  }
  UOp Weights(int64_t rows, int64_t columns, Dtype dtype) {
    Dtype stored = kWeightDtypes[Pick(std::size(kWeightDtypes))];
    if (Pick(2) == 0) stored = dtype;
    const bool transposed = Pick(3) == 0, padded = Pick(4) == 0;
    const ir::Dims dims = {rows, padded ? columns - 3 : columns};
    UOp w = Input(transposed ? ir::Dims{dims[1], dims[0]} : dims, stored, true);
    if (Pick(3) == 0) w = ir::Mul(ctx_, w, g_.Const(w, 2));
    if (Pick(3) == 0) w = Cast(w, kChainDtypes[Pick(std::size(kChainDtypes))]);
    if (transposed) w = g_.Transpose(w);
    if (padded) w = g_.Pad(w, {0, 1}, {rows, columns});
    if (Pick(4) == 0) w = Cast(w, kChainDtypes[Pick(std::size(kChainDtypes))]);
    return Cast(w, dtype);
  }
  UOp Epilogue(UOp x) {
    const ir::Dims dims = g_.DimsOf(x);
    if (Pick(3) == 0)
      x = ir::Add(ctx_, x,
                  g_.Reshape(Cast(Input({dims[1]}, Dtype::F32, true), x.dtype()), {1, dims[1]}));
    if (!ir::IsFloat(x.dtype())) return x;
    switch (Pick(5)) {
      case 0:
        return g_.Relu(x);
      case 1:
        return x.dtype() == Dtype::F32 ? g_.Softmax(x) : x;
      case 2:
        return Cast(Cast(x, Dtype::BF16), x.dtype());
      case 3:
        return x.dtype() == Dtype::F32 ? g_.LayerNorm(x) : x;
      default:
        return x;
    }
  }

  std::mt19937_64 random_;
  ir::UOpContext ctx_;
  GraphBuilder g_{ctx_};
  UOp sink_;
  ProductSlot out_;
};

// All bytes that a run returned. The result is the last piece; all its NaNs are one: processors
// choose the bits of a NaN by the order of the operands.
inline std::string Result(const std::vector<std::string>& data,
                          const std::vector<ProductSlot>& slots) {
  std::string out;
  for (const std::string& piece : data) out += piece;
  const ir::Dtype dtype = slots.back().dtype;
  if (!ir::IsFloat(dtype)) return out;
  const auto size = static_cast<size_t>(ir::ByteSize(dtype));
  for (size_t at = out.size() - data.back().size(); at < out.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, out.data() + at, size);
    if (std::isnan(ir::DecodeFloat(dtype, bits))) std::memset(out.data() + at, 0xff, size);
  }
  return out;
}

inline double KeptRunsOf(const char* outcome) {
  return static_cast<double>(metrics::KeptRuns({outcome}).value());
}

inline double LeftAlone() { return KeptRunsOf("refused") + KeptRunsOf("none"); }

// Fresh memory holds another byte each time, so a value that is not written whole changes a result.
inline std::unique_ptr<Engine> KeepingEngine(const std::string& device_list,
                                             const char* kept_bytes = "64MiB",
                                             bool drafts = false) {
  Config config;
  EXPECT_TRUE(config.Set("limits.session_kept_bytes", kept_bytes, ConfigSource::kFlag).ok());
  EXPECT_TRUE(config.Set("compile.fast_tier", drafts ? "true" : "false", ConfigSource::kFlag).ok());
  EXPECT_TRUE(config.ResolveDefaults().ok());
  devices::RegistryOptions options = TestDevices();
  options.devices = device_list;
  options.memory_limit_bytes = 512 << 20;
  options.cpu_threads = 2;
  options.memory_pattern = [next = std::make_shared<std::atomic<uint8_t>>(0)] {
    return std::byte{(*next)++};
  };
  return *Engine::Create(config, std::make_unique<CoreCompiler>(),
                         std::make_unique<cache::Store>(64 << 20),
                         *devices::Registry::Create(options), nullptr);
}

inline absl::StatusOr<ExecuteResult> Execute(Engine& engine, const SessionUse& session,
                                             const std::string& graph,
                                             const CompileOptions& options,
                                             std::span<const Argument> arguments,
                                             uint64_t request_id = 0,
                                             std::function<bool()> cancelled = nullptr) {
  RequestContext request;
  request.cancelled = std::move(cancelled);
  ExecuteCall call;
  call.where = ExecuteCall::Where::kHere;
  call.wanted = engine.programs().Resolve({"", graph}, options);
  call.run.arguments = arguments;
  call.request_id = request_id;
  return Await<absl::StatusOr<ExecuteResult>>(
      [&](auto done) { engine.runs().Execute(request, *session, call, std::move(done)); });
}

}  // namespace uopd::engine::random_products
