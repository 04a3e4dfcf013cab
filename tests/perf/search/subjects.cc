// SPDX-License-Identifier: MIT
#include "tests/perf/search/subjects.h"

#include <algorithm>
#include <functional>
#include <set>

#include "core/base/text.h"
#include "core/codegen/estimate.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"
#include "tests/support/models/models.h"
#include "uopd/executor.h"
#include "uopd/functional.h"
#include "uopd/indexing.h"
#include "uopd/reductions.h"

namespace uopd::perf {
namespace {

using client::Client;
using client::Dtype;
using client::Tensor;
namespace fn = client::fn;

struct Kernel {
  std::string graph;
  double cost = 0;
};

// The different kernels of a graph, those that cost most first. The cost counts a byte as four
// operations.
absl::StatusOr<std::vector<Kernel>> KernelsOf(const client::Exported& graph, const Target& target) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph.graph, ir::Level::kTensor));
  schedule::Options options;
  options.limits = schedule::KernelLimits::Of(target);
  UOPD_ASSIGN(const schedule::Schedule schedule, schedule::MakeSchedule(ctx, sink, options));
  std::set<std::string> seen;
  std::vector<Kernel> out;
  for (const schedule::Item& item : schedule.items) {
    if (item.kind != schedule::Item::kKernel || !seen.insert(item.graph).second) continue;
    ir::UOpContext own;
    UOPD_ASSIGN(const ir::UOp kernel, ir::Decode(own, item.graph, ir::Level::kKernel));
    const codegen::Estimate estimate = codegen::EstimateKernel(own, kernel);
    out.push_back({item.graph, std::max(estimate.flops, 4 * estimate.bytes)});
  }
  std::ranges::stable_sort(out, std::greater(), &Kernel::cost);
  return out;
}

absl::Status AddModel(const char* name, const std::function<std::vector<Tensor>(Client&)>& build,
                      const Target& target, std::vector<SearchSubject>& out) {
  constexpr size_t kKernels = 10;
  Client client(std::make_shared<client::OfflineExecutor>());
  UOPD_ASSIGN(const client::Exported graph, client::Export(build(client)));
  UOPD_ASSIGN(const std::vector<Kernel> kernels, KernelsOf(graph, target));
  for (size_t i = 0; i < std::min(kKernels, kernels.size()); ++i)
    out.push_back({Cat(name, ".", i), kernels[i].graph});
  return absl::OkStatus();
}

struct Other {
  const char* name;
  std::function<Tensor(Client&)> build;
};

Tensor Symbolic(Client& c, const Tensor& x, int64_t axis, int64_t most) {
  return x.Narrow(axis, 0, c.Variable("n", 1, most, most));
}

std::vector<Other> Others() {
  const auto integers = [](Client& c, client::Dims dims, Dtype dtype) {
    return c.Empty(std::move(dims), dtype);
  };
  return {
      {"odd_product", [](Client& c) { return c.Empty({131, 509}).MatMul(c.Empty({509, 257})); }},
      {"odd_convolution",
       [](Client& c) {
         return fn::Conv(c.Empty({1, 19, 37, 41}), c.Empty({23, 19, 3, 3}), {},
                         {.padding = {1, 1}});
       }},
      {"odd_softmax", [](Client& c) { return c.Empty({999, 1001}).Softmax(); }},
      {"odd_variance", [](Client& c) { return c.Empty({777, 1237}).Var({1}); }},
      {"odd_transpose",
       [](Client& c) { return c.Empty({1023, 1025}).Transpose(0, 1).Contiguous(); }},
      {"depthwise",
       [](Client& c) {
         return fn::Conv(c.Empty({1, 96, 57, 57}), c.Empty({96, 1, 3, 3}), {}, {.groups = 96});
       }},
      {"pool", [](Client& c) { return fn::MaxPool(c.Empty({1, 64, 57, 57}), {3, 3}); }},
      {"scan_rows", [](Client& c) { return c.Empty({512, 1000}).CumSum(); }},
      {"scan_columns", [](Client& c) { return c.Empty({1000, 512}).CumSum(0); }},
      {"scan_products", [](Client& c) { return fn::CumProd(c.Empty({1000, 77})); }},
      {"scatter_sums",
       [=](Client& c) {
         return fn::ScatterReduce(c.Empty({64, 500}), 1, integers(c, {64, 700}, Dtype::I64),
                                  c.Empty({64, 700}), fn::ScatterMode::kSum);
       }},
      {"scatter_rows",
       [=](Client& c) {
         return fn::Scatter(c.Empty({300, 200}), 0, integers(c, {100, 200}, Dtype::I64),
                            c.Empty({100, 200}));
       }},
      {"gather",
       [=](Client& c) {
         return c.Empty({5000, 64}).IndexSelect(0, integers(c, {20000}, Dtype::I32));
       }},
      {"integer_product",
       [=](Client& c) {
         return integers(c, {200, 300}, Dtype::I32).MatMul(integers(c, {300, 400}, Dtype::I32));
       }},
      {"byte_product",
       [=](Client& c) {
         return integers(c, {256, 512}, Dtype::I8)
             .Cast(Dtype::I32)
             .MatMul(integers(c, {512, 256}, Dtype::I8).Cast(Dtype::I32));
       }},
      {"integer_division",
       [=](Client& c) { return (integers(c, {1 << 20}, Dtype::I32) * 7 + 3).FloorDiv(5); }},
      {"argmax", [](Client& c) { return c.Empty({1000, 1013}).Argmax(); }},
      {"double_product",
       [](Client& c) {
         return c.Empty({200, 200}, Dtype::F64).MatMul(c.Empty({200, 200}, Dtype::F64));
       }},
      {"symbolic_product",
       [](Client& c) {
         return Symbolic(c, c.Empty({256, 512}), 0, 256).MatMul(c.Empty({512, 384})).Sum({0});
       }},
      {"symbolic_scores",
       [](Client& c) {
         const Tensor keys = Symbolic(c, c.Empty({8, 1024, 64}), 1, 1024);
         return (keys * c.Empty({8, 1, 64})).Sum({2}).Max({1});
       }},
  };
}

}  // namespace

absl::StatusOr<std::vector<SearchSubject>> SearchSubjects(const std::string& set,
                                                          const Target& target) {
  std::vector<SearchSubject> out;
  if (set == "models") {
    UOPD_TRY(AddModel(
        "resnet",
        [](Client& c) {
          test::ResNet model(c, test::ResNet::Shape50());
          return std::vector{model.Forward(c.Empty({1, 3, 224, 224}), false)};
        },
        target, out));
    test::LlamaShape shape;
    shape.layers = 1;
    shape.vocab = 1024;
    UOPD_TRY(AddModel(
        "llama",
        [&](Client& c) {
          test::Llama model(c, shape);
          return test::DecodeStep(c, model, 17);
        },
        target, out));
    return out;
  }
  if (set != "others") return absl::NotFoundError(Cat("no set of kernels is called ", set));
  for (const Other& other : Others()) {
    Client client(std::make_shared<client::OfflineExecutor>());
    const Tensor built = other.build(client);
    auto graph = client::Export(std::span(&built, 1));
    UOPD_TRY(WithFrame(graph.status(), other.name));
    UOPD_ASSIGN(const std::vector<Kernel> kernels, KernelsOf(*graph, target));
    if (kernels.empty()) return absl::InternalError(Cat(other.name, " has no kernel"));
    out.push_back({other.name, kernels.front().graph});
  }
  return out;
}

}  // namespace uopd::perf
