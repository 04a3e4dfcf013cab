// SPDX-License-Identifier: MIT
// What the layers of uopd.nn need besides network.cc: one line each.
#include "native/binding.h"
#include "uopd/functional.h"

namespace uopd::python {
namespace {

namespace fn = client::fn;
using H = const Handle&;
using M = const Maybe&;
using Three = std::tuple<Tensor, Tensor, Tensor>;

}  // namespace

void BindNn(Ops op) {
  op("groupnorm", [](Site s, H x, int64_t groups, M w, M b, double e) {
    return fn::GroupNorm(x.tensor(), groups, w.get(), b.get(), e, s);
  });
  op("multi_head_attention", [](Site s, H q, H k, H v, int64_t heads, H in, M in_bias, H out,
                                M out_bias, M mask, bool causal) {
    return fn::MultiHeadAttention(q.tensor(), k.tensor(), v.tensor(), heads,
                                  {in.tensor(), in_bias.get(), out.tensor(), out_bias.get()},
                                  mask.get(), {.causal = causal}, s);
  });
  op("lstm_cell", [](Site s, H x, H h, H c, H wx, H wh, M bx, M bh) {
    fn::LstmState next = fn::LstmCell(x.tensor(), {h.tensor(), c.tensor()}, wx.tensor(),
                                      wh.tensor(), bx.get(), bh.get(), s);
    return std::pair(std::move(next.h), std::move(next.c));
  });
  op("gru_cell", [](Site s, H x, H h, H wx, H wh, M bx, M bh) {
    return fn::GruCell(x.tensor(), h.tensor(), wx.tensor(), wh.tensor(), bx.get(), bh.get(), s);
  });
  op("lstm", [](Site s, H x, H h, H c, H wx, H wh, M bx, M bh) {
    auto [y, last] = fn::Lstm(x.tensor(), {h.tensor(), c.tensor()}, wx.tensor(), wh.tensor(),
                              bx.get(), bh.get(), s);
    return Three(std::move(y), std::move(last.h), std::move(last.c));
  });
  op("gru", [](Site s, H x, H h, H wx, H wh, M bx, M bh) {
    auto [y, last] =
        fn::Gru(x.tensor(), h.tensor(), wx.tensor(), wh.tensor(), bx.get(), bh.get(), s);
    return std::pair(std::move(y), std::move(last));
  });
}

}  // namespace uopd::python
