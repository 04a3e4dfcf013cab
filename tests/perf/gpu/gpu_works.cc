// SPDX-License-Identifier: MIT
#include "tests/perf/gpu/gpu_works.h"

#include <algorithm>

#include "core/base/text.h"
#include "tests/support/models/models.h"
#include "uopd/functional.h"

namespace uopd::perf {
namespace {

using client::Client;
using client::Tensor;

// Operations that move memory, on matrices of n rows and columns. `arrays`: those that are read or
// written.
GpuWork MovingWork(const char* name, int64_t n, int arrays, double output_arrays,
                   std::function<Tensor(const Tensor&, Client&)> build) {
  GpuWork out{Cat(name, ".", n), name,
              4.0 * (arrays + output_arrays) * static_cast<double>(n * n) / 1e9, "GB/s"};
  out.build = [=](Client& c) { return build(c.Empty({n, n}), c); };
  return out;
}

GpuWork ProductWork(const char* name, ir::Dtype dtype, int64_t n) {
  const auto rows = static_cast<double>(n);
  GpuWork out{Cat("matmul.", name, ".", n), Cat("matmul.", name), 2 * rows * rows * rows / 1e9,
              "GFLOP/s"};
  out.build = [=](Client& c) { return c.Empty({n, n}, dtype).MatMul(c.Empty({n, n}, dtype)); };
  out.product = n;
  out.dtype = dtype;
  return out;
}

// Heads of `depth` numbers, with as many queries as keys. With a causal mask half of the products
// count.
GpuWork AttentionWork(int64_t heads, int64_t tokens, int64_t depth, bool causal) {
  const std::string name = Cat("attention.bf16.d", depth, causal ? ".causal" : "");
  const auto products = static_cast<double>(heads * tokens * tokens * depth);
  GpuWork out{Cat(name, ".", tokens), name, (causal ? 2.0 : 4.0) * products / 1e9, "GFLOP/s"};
  out.build = [=](Client& c) {
    const client::Dims dims = {heads, tokens, depth};
    const auto input = [&] { return c.Empty(dims, ir::Dtype::BF16); };
    return client::fn::Attention(input(), input(), input(), {}, {.causal = causal});
  };
  return out;
}

// ResNet-50 with what the daemon keeps from run to run (weights with their normalisation). Products
// in f32, or with operands rounded to `rounds`.
GpuWork ResNetWork(int64_t images, const char* name, DtypeNumberSet rounds) {
  GpuWork out{Cat("resnet50.", name, ".b", images), Cat("resnet50.", name),
              static_cast<double>(images), "images/s"};
  out.build = [=](Client& c) {
    test::ResNet model(c, test::ResNet::Shape50());
    return model.Forward(c.Empty({images, 3, 224, 224}), false);
  };
  out.options.kept = true;
  out.options.rounds = rounds;
  return out;
}

}  // namespace

int64_t ScaledRows(int64_t n, double scale) {
  const double rows = static_cast<double>(n) * std::min(scale, 1.0);
  return std::max<int64_t>(128, static_cast<int64_t>(rows) / 64 * 64);
}

std::vector<GpuWork> GpuWorks(double scale) {
  std::vector<GpuWork> out;
  // Arrays of 1 GiB.
  const int64_t wide = ScaledRows(16384, scale);
  out.push_back(MovingWork(
      "add", wide, 2, 1, [wide](const Tensor& x, Client& c) { return x + c.Empty({wide, wide}); }));
  out.push_back(MovingWork("sum", wide, 1, 0, [](const Tensor& x, Client&) { return x.Sum(); }));
  const int64_t n = ScaledRows(8192, scale);
  out.push_back(
      MovingWork("softmax", n, 1, 1, [](const Tensor& x, Client&) { return x.Softmax(); }));
  out.push_back(MovingWork("layernorm", n, 1, 1, [](const Tensor& x, Client&) {
    return client::fn::LayerNorm(x, {}, {});
  }));
  for (const auto& [name, dtype] :
       {std::pair{"f32", ir::Dtype::F32}, std::pair{"bf16", ir::Dtype::BF16}}) {
    int64_t last = 0;
    for (const int64_t rows : {1024, 4096, 8192}) {
      const int64_t scaled = ScaledRows(rows, scale);
      if (scaled != last) out.push_back(ProductWork(name, dtype, scaled));
      last = scaled;
    }
  }
  for (const int64_t depth : {64, 128}) {
    for (const bool causal : {false, true}) {
      int64_t last = 0;
      for (const int64_t tokens : {4096, 16384}) {
        const int64_t scaled = ScaledRows(tokens, scale);
        if (scaled != last) out.push_back(AttentionWork(scale < 1 ? 2 : 16, scaled, depth, causal));
        last = scaled;
      }
    }
  }
  for (const auto& [name, rounds] : {std::pair{"tf32", DtypeNumberSet{DtypeNumber::TF32}},
                                     std::pair{"bf16", DtypeNumberSet{DtypeNumber::BF16}}}) {
    if (scale < 1) break;  // its kernels take long to compile
    for (const int64_t images : {1, 64}) out.push_back(ResNetWork(images, name, rounds));
  }
  return out;
}

}  // namespace uopd::perf
