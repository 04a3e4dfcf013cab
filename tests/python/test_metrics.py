# SPDX-License-Identifier: MIT
"""A training loop, as an operator sees it: its calls are messages of a pipeline, and count all the same."""
import re
import time

import numpy as np
import pytest
import uopd
from a_daemon import ADaemon
from uopd import Tensor, TinyJit
from uopd.nn.optim import SGD

STEPS = 30


@pytest.fixture
def daemon():
  before = uopd.runtime._default
  with ADaemon("--log-slow-ms=1ms", "--compile-fast-tier=false") as d:
    uopd.connect(d.address)
    yield d
    uopd.runtime._default = before


def train():
  """Fits a line; returns the losses."""
  rng = np.random.default_rng(1)
  x, w = Tensor(rng.normal(size=(64, 8)).astype(np.float32)), Tensor.zeros(8, 1, requires_grad=True).contiguous()
  w.requires_grad = True
  y = x @ Tensor(rng.normal(size=(8, 1)).astype(np.float32))
  optimizer = SGD([w], lr=0.1)

  @TinyJit
  def step():
    loss = ((x @ w - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.realize()
  with Tensor.train(): return [step().item() for _ in range(STEPS)]


def test_a_training_loop_is_counted_and_timed(daemon):
  losses = train()
  assert losses[-1] < losses[0] / 10
  seen = daemon.metrics()
  executes = seen['uopd_tenant_requests_total{tenant="-",method="Execute",code="OK"}']
  assert executes >= STEPS
  assert seen['uopd_rpc_duration_seconds_count{method="Execute",code="OK"}'] == executes
  assert seen['uopd_tenant_request_duration_seconds_count{tenant="-",span="total"}'] >= executes
  assert seen['uopd_tenant_seconds_total{tenant="-",part="device"}'] > 0
  assert seen['uopd_tenant_seconds_total{tenant="-",part="compile"}'] > 0
  limit = time.monotonic() + 20  # gauges are those of the last second
  while not daemon.metrics().get('uopd_device_busy_seconds_total{device="CPU:0"}', 0) and time.monotonic() < limit: time.sleep(0.1)
  assert daemon.metrics()['uopd_device_busy_seconds_total{device="CPU:0"}'] > 0
  # The compile of the step is slow by the limit of this test, and its line says what took the time.
  with open(f"{daemon.folder.name}/log") as log: text = log.read()
  assert re.search(r'msg="slow request" method=(Execute|Prepare) .*compile_us=\d+', text), text
