# SPDX-License-Identifier: MIT
"""Short forms of many_clients.py, memory.py and kills.py."""
import kills
import many_clients
import memory
import pytest
import uopd


@pytest.fixture
def connection_of_its_own():
  """The default connection is put back after the test."""
  before = uopd.runtime._default
  yield
  uopd.runtime._default = before


def test_many_clients_train_at_once():
  r = many_clients.run(8, 150)
  assert r["moved"] > 0.1 and r["apart"] < 1e-4 and r["losses"] == 8
  assert r["slowest"] <= 2 * r["fastest"] + 0.2, r  # a step takes under a millisecond here: less than the noise of a busy machine


@pytest.mark.parametrize("work, steps", [(memory.replays, 20_000), (memory.builds, 4_000), (memory.forwards, 4_000), (memory.training_with_reads, 2_000)])
def test_memory_is_flat(connection_of_its_own, work, steps):
  seen = memory.run(work, steps)
  (_, client, daemon, _), (_, client_end, daemon_end, _) = seen[1], seen[-1]
  assert len(seen) == 11 and client_end < client + 2 and daemon_end < daemon + 4, seen


def test_killed_clients_leave_nothing():
  most, left, _ = kills.run(4, longest=0.8)
  assert most > 10e6 and left == {}
