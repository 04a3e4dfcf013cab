// SPDX-License-Identifier: MIT
// Building blocks of networks and losses: one line each.
#include "native/binding.h"
#include "uopd/einsum.h"
#include "uopd/functional.h"
#include "uopd/image.h"
#include "uopd/losses.h"
#include "uopd/pooling.h"

namespace uopd::python {
namespace {

namespace fn = client::fn;
using H = const Handle&;
using M = const Maybe&;

fn::Reduction R(int r) { return static_cast<fn::Reduction>(r); }
fn::PoolOptions Pool(const Dims& stride, const Dims& padding, const Dims& dilation,
                     bool count = true) {
  return {.stride = stride, .padding = padding, .dilation = dilation, .count_padding = count};
}

}  // namespace

void BindNetwork(Ops op) {
  op("matmul", [](Site s, H a, H b) { return a.tensor().MatMul(Operand(b.tensor(), s)); });
  op("einsum", [](Site s, std::string formula, const std::vector<const Handle*>& all) {
    return fn::Einsum(formula, Tensors(all), s);
  });
  op("conv", [](Site s, H x, H w, M b, Dims stride, Dims padding, Dims dilation, int64_t groups) {
    return fn::Conv(x.tensor(), w.tensor(), b.get(),
                    {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups},
                    s);
  });
  op("max_pool", [](Site s, H x, Dims k, Dims st, Dims p, Dims d) {
    return fn::MaxPool(x.tensor(), k, Pool(st, p, d), s);
  });
  op("max_pool_indices", [](Site s, H x, Dims k, Dims st, Dims p, Dims d) {
    return fn::MaxPoolWithIndices(x.tensor(), k, Pool(st, p, d), s);
  });
  op("max_unpool",
     [](Site s, H x, H i, Dims size) { return fn::MaxUnpool(x.tensor(), i.tensor(), size, s); });
  op("avg_pool", [](Site s, H x, Dims k, Dims st, Dims p, Dims d, bool count) {
    return fn::AvgPool(x.tensor(), k, Pool(st, p, d, count), s);
  });
  op("interpolate", [](Site s, H x, Dims size, int mode, bool corners) {
    return fn::Interpolate(x.tensor(), size, static_cast<fn::InterpolateMode>(mode), corners, s);
  });
  op("layernorm", [](Site s, H x, M w, M b, int64_t axes, double e) {
    return fn::LayerNorm(x.tensor(), w.get(), b.get(), axes, e, s);
  });
  op("rmsnorm", [](Site s, H x, M w, double e) { return fn::RmsNorm(x.tensor(), w.get(), e, s); });
  op("embedding", [](Site s, H w, H i) { return fn::Embedding(w.tensor(), i.tensor(), s); });
  op("attention", [](Site s, H q, H k, H v, M mask, bool causal) {
    return fn::Attention(q.tensor(), k.tensor(), v.tensor(), mask.get(), {.causal = causal}, s);
  });
  op("dropout", [](Site s, H x, double p) { return x.tensor().Dropout(p, s); });
  op("one_hot",
     [](Site s, H x, int64_t n, int t) { return x.tensor().OneHot(n, static_cast<Dtype>(t), s); });

  op("binary_crossentropy", [](Site s, H x, H y, int r) {
    return fn::BinaryCrossEntropy(x.tensor(), y.tensor(), {}, R(r), s);
  });
  op("binary_crossentropy_logits", [](Site s, H x, H y, int r, M pos) {
    return fn::BinaryCrossEntropyWithLogits(x.tensor(), y.tensor(), {}, pos.get(), R(r), s);
  });
  op("cross_entropy", [](Site s, H x, H y, int r, double smoothing, std::optional<int64_t> ignore) {
    return fn::CrossEntropy(
        x.tensor(), y.tensor(),
        {.ignore_index = ignore, .reduction = R(r), .label_smoothing = smoothing}, s);
  });
  op("nll_loss", [](Site s, H x, H y, M w, std::optional<int64_t> ignore, int r) {
    return fn::NllLoss(x.tensor(), y.tensor(),
                       {.weight = w.get(), .ignore_index = ignore, .reduction = R(r)}, s);
  });
}

}  // namespace uopd::python
