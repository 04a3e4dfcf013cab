# SPDX-License-Identifier: MIT
"""The examples of the docstrings."""
import doctest
import importlib
import pkgutil

import pytest
import uopd

MODULES = ["uopd"] + [m.name for m in pkgutil.walk_packages(uopd.__path__, "uopd.") if not m.name.endswith("_core")]


@pytest.mark.parametrize("name", MODULES)
def test_module(name):
  result = doctest.testmod(importlib.import_module(name), extraglobs={"Tensor": uopd.Tensor})
  assert result.failed == 0


def test_there_are_examples():
  finder = doctest.DocTestFinder(exclude_empty=True)
  assert sum(bool(t.examples) for name in MODULES for t in finder.find(importlib.import_module(name))) >= 10
