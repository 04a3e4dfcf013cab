# SPDX-License-Identifier: MIT
"""Methods against NumPy in float64: many cases in one request, so that the whole table takes little time."""
import numpy as np
import pytest
from cases import TOLERANCE, all_cases

from uopd import Tensor

CASES = list(all_cases())
BATCH = 40


def test_number_of_cases():
  assert len(CASES) >= 2000


@pytest.mark.parametrize("first", range(0, len(CASES), BATCH))
def test_batch(first):
  batch = CASES[first:first + BATCH]
  results = [method(*(Tensor(a) for a in inputs)) for _, inputs, method, _ in batch]
  results[0].realize(*results[1:])
  wrong = []
  for (name, inputs, _, reference), result in zip(batch, results):
    floats = inputs[0].dtype.kind == "f"
    with np.errstate(all="ignore"): expected = np.asarray(reference(*(a.astype("float64") if floats else a for a in inputs)))
    got = result.numpy()
    if got.shape != expected.shape:
      wrong.append(f"{name}: shape {got.shape}, expected {expected.shape}")
      continue
    rtol, atol = TOLERANCE.get(inputs[0].dtype.name, (0, 0))
    if got.dtype.kind == "f": same = np.allclose(got.astype("float64"), expected, rtol, atol, equal_nan=True)
    else: same = np.array_equal(got, expected.astype(got.dtype))
    if not same: wrong.append(f"{name}: {got.reshape(-1)[:6]}, expected {expected.reshape(-1)[:6]}")
  assert not wrong, f"{len(wrong)} of {len(batch)}\n" + "\n".join(wrong)
