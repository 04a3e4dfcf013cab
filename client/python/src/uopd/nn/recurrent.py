# SPDX-License-Identifier: MIT
"""Recurrent cells, and LSTM and GRU over sequences. Names and order of the gates are PyTorch's."""
from __future__ import annotations

import math
from typing import Any

from .. import _core
from ..base import maybe, wrap, wrap2
from ..tensor import Tensor


def _weights(gates: int, input_size: int, hidden_size: int, bias: bool) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
  bound, rows = 1 / math.sqrt(hidden_size), gates * hidden_size
  return (Tensor.uniform(rows, input_size, low=-bound, high=bound), Tensor.uniform(rows, hidden_size, low=-bound, high=bound),
          Tensor.zeros(rows) if bias else None, Tensor.zeros(rows) if bias else None)


def _zeros(x: Tensor, hidden_size: int) -> Tensor: return Tensor.zeros(x.shape[0], hidden_size, dtype=x.dtype)


class _Cell:
  """The weights of a cell: (gates * hidden_size, input_size) and (gates * hidden_size, hidden_size)."""
  def __init__(self, gates: int, input_size: int, hidden_size: int, bias: bool) -> None:
    self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh = _weights(gates, input_size, hidden_size, bias)
  def _handles(self) -> tuple[Any, ...]: return self.weight_ih._h, self.weight_hh._h, maybe(self.bias_ih), maybe(self.bias_hh)


class LSTMCell(_Cell):
  """One step of a long short-term memory: x (n, input_size) and the state (h, c) give the next state. No state: zeros.

  >>> h, c = LSTMCell(3, 5)(Tensor.ones(2, 3))
  >>> h.shape, c.shape
  ((2, 5), (2, 5))
  """
  def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None: super().__init__(4, input_size, hidden_size, bias)
  def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
    h, c = hc if hc is not None else (_zeros(x, self.weight_hh.shape[1]),) * 2
    return wrap2(_core.lstm_cell(x._h, h._h, c._h, *self._handles()))


class GRUCell(_Cell):
  """One step of a gated recurrent unit: x (n, input_size) and the state h give the next state. No state: zeros.

  >>> GRUCell(3, 5)(Tensor.ones(2, 3)).shape
  (2, 5)
  """
  def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None: super().__init__(3, input_size, hidden_size, bias)
  def __call__(self, x: Tensor, h: Tensor | None = None) -> Tensor:
    if h is None: h = _zeros(x, self.weight_hh.shape[1])
    return wrap(_core.gru_cell(x._h, h._h, *self._handles()))


class _Sequence:
  """Layers over sequences (n, steps, input_size), each of which reads what the one before gives."""
  def __init__(self, gates: int, input_size: int, hidden_size: int, num_layers: int, bias: bool) -> None:
    self.hidden_size, self.num_layers = hidden_size, num_layers
    for k in range(num_layers):
      names = (f"weight_ih_l{k}", f"weight_hh_l{k}", f"bias_ih_l{k}", f"bias_hh_l{k}")
      for name, value in zip(names, _weights(gates, hidden_size if k else input_size, hidden_size, bias)): setattr(self, name, value)
  def _handles(self, k: int) -> tuple[Any, ...]:
    return tuple(maybe(getattr(self, f"{name}_l{k}")) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
  def _state(self, state: Tensor | None, x: Tensor, k: int) -> Tensor:
    if state is None: return _zeros(x, self.hidden_size)
    if state.ndim != 3 or state.shape[0] != self.num_layers: raise ValueError(f"a state of shape {state.shape} for {self.num_layers} layers")
    return state[k]


class LSTM(_Sequence):
  """Long short-term memory over sequences x (n, steps, input_size). Gives the outputs (n, steps, hidden_size) and the last
  state (h, c), each (num_layers, n, hidden_size). The steps are unrolled into one graph.

  >>> y, (h, c) = LSTM(3, 5, num_layers=2)(Tensor.ones(4, 7, 3))
  >>> y.shape, h.shape
  ((4, 7, 5), (2, 4, 5))
  """
  def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True) -> None:
    super().__init__(4, input_size, hidden_size, num_layers, bias)
  def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    first: tuple[Tensor | None, Tensor | None] = hc if hc is not None else (None, None)
    last: list[tuple[Tensor, Tensor]] = []
    for k in range(self.num_layers):
      h, c = (self._state(s, x, k) for s in first)
      y, *state = (wrap(t) for t in _core.lstm(x._h, h._h, c._h, *self._handles(k)))
      x = y
      last.append((state[0], state[1]))
    h_all, c_all = zip(*last)
    return x, (h_all[0].stack(*h_all[1:]), c_all[0].stack(*c_all[1:]))


class GRU(_Sequence):
  """Gated recurrent units over sequences x (n, steps, input_size). Gives the outputs (n, steps, hidden_size) and the last
  state (num_layers, n, hidden_size).

  >>> y, h = GRU(3, 5)(Tensor.ones(4, 7, 3))
  >>> y.shape, h.shape
  ((4, 7, 5), (1, 4, 5))
  """
  def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True) -> None:
    super().__init__(3, input_size, hidden_size, num_layers, bias)
  def __call__(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
    last: list[Tensor] = []
    for k in range(self.num_layers):
      x, state = wrap2(_core.gru(x._h, self._state(h, x, k)._h, *self._handles(k)))
      last.append(state)
    return x, last[0].stack(*last[1:])
