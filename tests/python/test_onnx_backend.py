# SPDX-License-Identifier: MIT
"""All tests of backends of the package onnx. Those that are refused are in onnx_refused.txt; UOPD_ACCEPT=1 writes it again. A wrong value is never accepted."""
import collections
import os
import pathlib

import pytest

onnx_suite = pytest.importorskip("onnx_suite", exc_type=ImportError)  # needs the package onnx

REFUSED = pathlib.Path(__file__).with_name("onnx_refused.txt")
HEAD = "# Tests of the package onnx that are refused, and why. Written by UOPD_ACCEPT=1 pytest tests/python/test_onnx_backend.py\n"


@pytest.fixture(scope="module")
def results():
  """The results of all cases, by kind."""
  out = collections.defaultdict(dict)
  for case in onnx_suite.cases(): out[case.kind][case.name] = onnx_suite.run(case)
  if os.environ.get("UOPD_ACCEPT"):
    REFUSED.write_text(HEAD + "".join(f"{name}: {r.why}\n" for kind in onnx_suite.KINDS for name, r in sorted(out[kind].items()) if r.verdict == "refused"))
  return out


@pytest.mark.parametrize("kind", onnx_suite.KINDS)
def test_all_pass_or_are_refused(results, kind):
  allowed = dict(line.split(": ", 1) for line in REFUSED.read_text().splitlines() if not line.startswith("#"))
  assert {name: r.text for name, r in results[kind].items() if r.verdict in ("wrong", "error")} == {}
  refused = {name: r.why for name, r in results[kind].items() if r.verdict == "refused"}
  assert refused == {name: why for name, why in allowed.items() if name in results[kind]}


@pytest.mark.parametrize(("kind", "least"), [("node", 1765), ("simple", 23), ("pytorch-converted", 82), ("pytorch-operator", 35), ("light", 9)])
def test_the_suite_is_whole(results, kind, least):
  assert len(results[kind]) >= least


def test_at_least_95_percent_of_nodes_pass(results):
  passed = sum(r.verdict == "passed" for r in results["node"].values())
  assert passed >= 0.95 * len(results["node"])


@pytest.mark.parametrize("kind", ["pytorch-converted", "pytorch-operator", "light"])
def test_models_of_networks_pass(results, kind):
  assert {name: r.text for name, r in results[kind].items() if r.verdict != "passed"} == {}
