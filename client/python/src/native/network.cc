// SPDX-License-Identifier: MIT
// Building blocks of networks and losses: one line each.
#include "native/binding.h"
#include "uopd/functional.h"
#include "uopd/image.h"
#include "uopd/pooling.h"

namespace uopd::python {
namespace {

namespace fn = client::fn;
using H = const Handle&;
using M = const Maybe&;

// Padding has the numbers before all axes, then those after them.
fn::PoolOptions Pool(const Dims& stride, const Dims& padding, const Dims& dilation, bool ceil,
                     bool count = true) {
  const auto half = padding.begin() + static_cast<ptrdiff_t>(padding.size() / 2);
  return {.stride = stride,
          .padding = Dims(padding.begin(), half),
          .dilation = dilation,
          .padding_after = Dims(half, padding.end()),
          .count_padding = count,
          .ceil_mode = ceil};
}

}  // namespace

void BindNetwork(Ops op) {
  op("conv", [](Site s, H x, H w, M b, Dims stride, Dims padding, Dims dilation, int64_t groups) {
    return fn::Conv(x.tensor(), w.tensor(), b.get(),
                    {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups},
                    s);
  });
  op("conv_transpose", [](Site s, H x, H w, M b, Dims stride, Dims padding, Dims extra,
                          Dims dilation, int64_t groups) {
    return fn::ConvTranspose(x.tensor(), w.tensor(), b.get(),
                             {.stride = stride,
                              .padding = padding,
                              .output_padding = extra,
                              .dilation = dilation,
                              .groups = groups},
                             s);
  });
  op("max_pool", [](Site s, H x, Dims k, Dims st, Dims p, Dims d, bool ceil) {
    return fn::MaxPool(x.tensor(), k, Pool(st, p, d, ceil), s);
  });
  op("max_pool_indices", [](Site s, H x, Dims k, Dims st, Dims p, Dims d, bool ceil) {
    return fn::MaxPoolWithIndices(x.tensor(), k, Pool(st, p, d, ceil), s);
  });
  op("max_unpool",
     [](Site s, H x, H i, Dims size) { return fn::MaxUnpool(x.tensor(), i.tensor(), size, s); });
  op("avg_pool", [](Site s, H x, Dims k, Dims st, Dims p, Dims d, bool ceil, bool count) {
    return fn::AvgPool(x.tensor(), k, Pool(st, p, d, ceil, count), s);
  });
  op("adaptive_max_pool",
     [](Site s, H x, Dims size) { return fn::AdaptiveMaxPool(x.tensor(), size, s); });
  op("adaptive_avg_pool",
     [](Site s, H x, Dims size) { return fn::AdaptiveAvgPool(x.tensor(), size, s); });
  op("pixel_shuffle",
     [](Site s, H x, int64_t factor) { return fn::PixelShuffle(x.tensor(), factor, s); });
  op("pixel_unshuffle",
     [](Site s, H x, int64_t factor) { return fn::PixelUnshuffle(x.tensor(), factor, s); });
  op("interpolate", [](Site s, H x, Dims size, int mode, bool corners) {
    return fn::Interpolate(x.tensor(), size, static_cast<fn::InterpolateMode>(mode), corners, s);
  });
  op("layernorm", [](Site s, H x, M w, M b, int64_t axes, double e) {
    return fn::LayerNorm(x.tensor(), w.get(), b.get(), axes, e, s);
  });
  op("rmsnorm", [](Site s, H x, M w, double e) { return fn::RmsNorm(x.tensor(), w.get(), e, s); });
  op("embedding", [](Site s, H w, H i) { return fn::Embedding(w.tensor(), i.tensor(), s); });
  op("attention", [](Site s, H q, H k, H v, M mask, bool causal, double dropout) {
    return fn::Attention(q.tensor(), k.tensor(), v.tensor(), mask.get(),
                         {.causal = causal, .dropout = dropout}, s);
  });
  op("dropout", [](Site s, H x, double p) { return x.tensor().Dropout(p, s); });
  op("one_hot",
     [](Site s, H x, int64_t n, int t) { return x.tensor().OneHot(n, static_cast<Dtype>(t), s); });
}

}  // namespace uopd::python
