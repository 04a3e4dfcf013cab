# SPDX-License-Identifier: MIT
"""Every elementwise function of floats against references with more digits: the bounds of docs/accuracy.md."""
import re

import accuracy
import pytest


@pytest.mark.parametrize("dtype", accuracy.DTYPES)
def test_errors_are_within_bounds(dtype):
  if accuracy.skipped(dtype): pytest.skip("long double is double here")
  pytest.importorskip("mpmath")
  wrong = []
  for name in accuracy.FUNCTIONS:
    error, at, got = accuracy.checked(name, dtype)
    if not error <= accuracy.bound(name, dtype): wrong.append(f"{name}({at}) is {got!r}: off by {error:.3f} units")
  assert not wrong, "\n".join(wrong)


def test_page_lists_all_functions_with_their_bounds():
  rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", accuracy.DOC.read_text(), re.MULTILINE))
  assert list(rows) == list(accuracy.FUNCTIONS)
  for name, row in rows.items():
    cells = [float(c) for c in row.split("|")]
    limits = [accuracy.bound(name, d) for d in accuracy.DTYPES]
    assert cells[-3:] == [limits[0], limits[1], limits[2]] and all(c <= b + 0.005 for c, b in zip(cells, limits)), name
