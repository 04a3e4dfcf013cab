# SPDX-License-Identifier: MIT
"""A program of a user who checks types. test_types.py gives it to mypy, and runs it."""
import numpy as np
from uopd import Context, Tensor, TinyJit, Variable, dtypes, nn, tuning


class Net:
  def __init__(self) -> None:
    self.l1, self.l2 = nn.Linear(4, 8), nn.Linear(8, 2)

  def __call__(self, x: Tensor) -> Tensor: return self.l2(self.l1(x).relu())


def losses(steps: int) -> list[float]:
  net = Net()
  parameters: list[Tensor] = nn.state.get_parameters(net)
  optimizer = nn.optim.Adam(parameters, lr=0.05)

  @TinyJit
  def step(x: Tensor, y: Tensor) -> Tensor:
    loss = net(x).sparse_categorical_crossentropy(y).backward()
    optimizer.step()
    return loss.realize()

  out: list[float] = []
  with Tensor.train(), Context(DEBUG=0):
    for _ in range(steps): out.append(step(Tensor(np.eye(3, 4, dtype=np.float32)), Tensor([0, 1, 0])).item())
  return out


def sum_of_first(x: Tensor, n: int) -> Tensor: return x[:Variable("n", 1, x.shape[0]).bind(n)].sum()


def mixed(x: Tensor) -> tuple[Tensor, tuple[int, ...], memoryview]:
  y = 2 ** (1 - x / 3) @ x.cast(dtypes.float32).reshape(-1, 1)
  return y, y.shape, y.data()


def tuned(x: Tensor) -> list[tuple[str, float | None, int]]:
  operation: tuning.Operation = tuning.start(x, beam=2, budget=30.0, candidates=6)
  for progress in operation.watch():
    first: tuning.Kernel | None = progress.kernels[0] if progress.kernels else None
    points: list[tuning.Point] = first.best_points() if first else []
    _times: list[float] = [seconds for _, seconds in points]
    if first is not None and first.state == "failed": operation.cancel()
  return [(k.name, k.speedup, k.pruned) for k in operation.wait(timeout=10).kernels]


def wrong() -> None:
  Tensor([1.0]).no_such_method()  # type: ignore[attr-defined]
  Tensor.zeros(2).reshape(1, 2).relu(1)  # type: ignore[call-arg]
  tuning.start(7)  # type: ignore[arg-type]
