# SPDX-License-Identifier: MIT
"""Methods against NumPy in float64: many cases in one request, so that the whole table takes little time."""
import numpy as np
import pytest
from cases import TOLERANCE, all_cases
from uopd import Tensor

CASES = list(all_cases())
BATCH = 60


def test_number_of_cases():
  assert len(CASES) >= 2900


@pytest.mark.parametrize("first", range(0, len(CASES), BATCH))
def test_batch(first):
  batch = CASES[first:first + BATCH]
  results = [c.method(*c.tensors()) for c in batch]
  results[0].realize(*results[1:])
  wrong = []
  for c, result in zip(batch, results):
    floats = c.inputs[0].dtype.kind == "f"
    with np.errstate(all="ignore"): expected = np.asarray(c.reference(*(a.astype("float64") if floats else a for a in c.inputs)))
    got = result.numpy()
    if got.shape != expected.shape:
      wrong.append(f"{c.name}: shape {got.shape}, expected {expected.shape}")
      continue
    rtol, atol = TOLERANCE.get(c.rounding or c.dtype or c.inputs[0].dtype.name, (0, 0))
    if got.dtype.kind == "f":
      with np.errstate(all="ignore"): rounded = expected.astype(got.dtype).astype("float64")
      same = np.allclose(got.astype("float64"), rounded, rtol, atol, equal_nan=True)
    else: same = np.array_equal(got, expected.astype(got.dtype))
    if not same: wrong.append(f"{c.name}: {got.reshape(-1)[:6]}, expected {expected.reshape(-1)[:6]}")
  assert not wrong, f"{len(wrong)} of {len(batch)}\n" + "\n".join(wrong)


def test_pads_of_any_shape():
  """Small arrays: a vector of a kernel has more lanes than a row, and most of them are padding or beside the array."""
  rng = np.random.default_rng(3)
  given = [((2, 2, 3), [(1, 0), (0, 2), (0, 0)])]
  for _ in range(60):
    shape = tuple(int(n) for n in rng.integers(1, 5, size=int(rng.integers(1, 4))))
    given.append((shape, [tuple(int(n) for n in rng.integers(0, 4, size=2)) for _ in shape]))
  for i, (shape, pads) in enumerate(given):
    x = rng.integers(-99, 99, size=shape).astype((np.int32, np.float32, np.float64)[i % 3])
    assert np.array_equal(Tensor(x).pad(pads).numpy(), np.pad(x, pads)), (x.dtype, shape, pads)
