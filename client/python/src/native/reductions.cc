// SPDX-License-Identifier: MIT
// Reductions, running reductions, sorting: one line each. No axes: all of them.
#include "uopd/reductions.h"
#include "native/binding.h"

namespace uopd::python {
namespace {

namespace fn = client::fn;
using H = const Handle&;
using M = const Maybe&;

}  // namespace

void BindReductions(Ops op) {
  op("sum", [](Site s, H x, Dims a, bool k) { return x.tensor().Sum(a, k, s); });
  op("mean", [](Site s, H x, Dims a, bool k) { return x.tensor().Mean(a, k, s); });
  op("max", [](Site s, H x, Dims a, bool k) { return x.tensor().Max(a, k, s); });
  op("min", [](Site s, H x, Dims a, bool k) { return x.tensor().Min(a, k, s); });
  op("prod", [](Site s, H x, Dims a, bool k) { return x.tensor().Prod(a, k, s); });
  op("any", [](Site s, H x, Dims a, bool k) { return fn::Any(x.tensor(), a, k, s); });
  op("all", [](Site s, H x, Dims a, bool k) { return fn::All(x.tensor(), a, k, s); });
  op("logsumexp", [](Site s, H x, Dims a, bool k) { return fn::LogSumExp(x.tensor(), a, k, s); });
  op("var", [](Site s, H x, Dims a, bool k, int64_t c) { return x.tensor().Var(a, k, c, s); });
  op("std", [](Site s, H x, Dims a, bool k, int64_t c) { return x.tensor().Std(a, k, c, s); });
  op("var_mean",
     [](Site s, H x, Dims a, bool k, int64_t c) { return x.tensor().VarMean(a, k, c, s); });
  op("argmax", [](Site s, H x, int64_t a, bool k) { return x.tensor().Argmax(a, k, s); });
  op("argmin", [](Site s, H x, int64_t a, bool k) { return x.tensor().Argmin(a, k, s); });
  op("cumsum", [](Site s, H x, int64_t a) { return x.tensor().CumSum(a, s); });
  op("cumprod", [](Site s, H x, int64_t a) { return fn::CumProd(x.tensor(), a, s); });
  op("cummax", [](Site s, H x, int64_t a) { return fn::CumMax(x.tensor(), a, s); });
  op("cummin", [](Site s, H x, int64_t a) { return fn::CumMin(x.tensor(), a, s); });
  op("logcumsumexp", [](Site s, H x, int64_t a) { return fn::LogCumSumExp(x.tensor(), a, s); });
  op("sort", [](Site s, H x, int64_t a, bool d) { return x.tensor().Sort(a, d, s); });
  op("topk", [](Site s, H x, int64_t n, int64_t a, bool l) { return x.tensor().TopK(n, a, l, s); });
  op("softmax", [](Site s, H x, int64_t a) { return x.tensor().Softmax(a, s); });
  op("log_softmax", [](Site s, H x, int64_t a) { return x.tensor().LogSoftmax(a, s); });
  op("count_nonzero",
     [](Site s, H x, Dims a, bool k) { return fn::CountNonzero(x.tensor(), a, k, s); });
  op("quantile",
     [](Site s, H x, double q, int64_t a, bool k) { return fn::Quantile(x.tensor(), q, a, k, s); });
  op("bincount",
     [](Site s, H x, int64_t n, M w) { return fn::BinCount(x.tensor(), n, w.get(), s); });
  op("searchsorted", [](Site s, H sorted, H v, bool right) {
    return fn::SearchSorted(sorted.tensor(), v.tensor(), right, s);
  });
}

}  // namespace uopd::python
