# SPDX-License-Identifier: MIT
"""The slope of functions where they have a kink: the values that PyTorch computes; of `maximum` and `minimum` also tinygrad's."""
import pytest

from uopd import Tensor

KINKS = [
  ("relu", 0.0, 0, lambda x: x.relu()), ("maximum", 1.0, .5, lambda x: x.maximum(1)), ("minimum", 1.0, .5, lambda x: x.minimum(1)),
  ("clamp, low", -1.0, 1, lambda x: x.clamp(-1, 1)), ("clamp, high", 1.0, 1, lambda x: x.clamp(-1, 1)), ("clamp, min_", 2.0, 1, lambda x: x.clamp(2)),
  ("clamp, max_", 2.0, 1, lambda x: x.clip(max_=2)), ("clamp by tensors", 2.0, 1, lambda x: x.clamp(Tensor([2.0]), Tensor([3.0]))),
  ("abs", 0.0, 0, lambda x: x.abs()), ("relu6, low", 0.0, 0, lambda x: x.relu6()), ("relu6, high", 6.0, 0, lambda x: x.relu6()),
  ("hardtanh, low", -1.0, 0, lambda x: x.hardtanh()), ("hardtanh, high", 1.0, 0, lambda x: x.hardtanh()),
  ("hardsigmoid, low", -3.0, 0, lambda x: x.hardsigmoid()), ("hardswish, low", -3.0, 0, lambda x: x.hardswish()),
  ("hardswish, high", 3.0, 1, lambda x: x.hardswish()), ("leaky_relu", 0.0, .125, lambda x: x.leaky_relu(.125)),
  ("prelu", 0.0, .125, lambda x: x.prelu(Tensor([.125]))), ("threshold", 1.0, 0, lambda x: x.threshold(1.0, 7.0)),
  ("hardshrink", .5, 0, lambda x: x.hardshrink()), ("softshrink", .5, 0, lambda x: x.softshrink()), ("elu", 0.0, 2, lambda x: x.elu(2.0)),
  ("max over an axis", 1.0, .5, lambda x: Tensor.cat(x, Tensor([1.0])).max()), ("l1_loss", 3.0, 0, lambda x: x.l1_loss(Tensor([3.0]))),
  ("hinge_embedding_loss", 1.0, -1, lambda x: x.hinge_embedding_loss(Tensor([-1.0]))),
  ("margin_ranking_loss", 1.0, -1, lambda x: x.margin_ranking_loss(Tensor([1.0]), Tensor([1.0]))),
]


@pytest.mark.parametrize("at, slope, f", [k[1:] for k in KINKS], ids=[k[0] for k in KINKS])
def test_slope(at, slope, f):
  x = Tensor([at])
  assert f(x).sum().gradient(x)[0].tolist() == [slope]


def test_limits_have_the_rest_of_the_gradient():
  x, low = Tensor([1.0, 2.0, 3.0]), Tensor([2.0, 2.0, 2.0])
  gx, glow = x.clamp(low).sum().gradient(x, low)
  assert gx.tolist() == [0, 1, 1] and glow.tolist() == [1, 0, 0]
