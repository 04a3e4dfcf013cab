# SPDX-License-Identifier: MIT
"""Optimisers against NumPy in float64 over several steps, learning rates, groups, and steps under TinyJit."""
import copy
import math
import pickle

import numpy as np
import pytest
import uopd
from uopd import Tensor, TinyJit, nn
from uopd.nn import lr_scheduler, optim
from uopd.nn.state import get_parameters, get_state_dict, load_state_dict

STARTS = [np.array([[1, -0.6], [0.5, 0.75], [-0.25, 1.5]]), np.array([0.3, -0.8])]


def orthogonal(g, steps, coefficients):
  x = g.reshape(g.shape[0], -1)
  x = x / (np.linalg.norm(x) + 1e-7)
  wide = x.shape[0] > x.shape[1]
  if wide: x = x.T
  for _ in range(steps):
    s = x @ x.T
    x = coefficients[0] * x + (coefficients[1] * s + coefficients[2] * s @ s) @ x
  return (x.T if wide else x).reshape(g.shape)


class Momentum:
  """SGD, LARS and Muon, for one parameter."""
  def __init__(self, momentum=0.0, wd=0.0, nesterov=False, classic=False, trust=0.0, ns=None, pre_wd=True): self.__dict__.update(locals())
  def start(self, p): return {"b": np.zeros_like(p)}
  def __call__(self, s, p, g, lr, t):
    a, b = np.linalg.norm(p), np.linalg.norm(g)
    rate = lr * (self.trust * a / (b + self.wd * a) if self.trust and a > 0 and b > 0 else 1)
    if self.pre_wd: g = g + self.wd * p
    if self.classic: g = g * rate
    if self.momentum:
      s["b"] = self.momentum * s["b"] + g
      g = g + self.momentum * s["b"] if self.nesterov else s["b"]
    if self.ns: g = orthogonal(g, *self.ns)
    if not self.classic: g = g * rate
    if not self.pre_wd: g = g + self.wd * lr * p
    return p - g


class Moments:
  """Adam, AdamW and LAMB."""
  def __init__(self, b1=0.9, b2=0.999, eps=1e-8, wd=0.0, trust=False): self.__dict__.update(locals())
  def start(self, p): return {"m": np.zeros_like(p), "v": np.zeros_like(p)}
  def __call__(self, s, p, g, lr, t):
    s["m"] = self.b1 * s["m"] + (1 - self.b1) * g
    s["v"] = self.b2 * s["v"] + (1 - self.b2) * g * g
    u = s["m"] / (1 - self.b1**t) / (np.sqrt(s["v"] / (1 - self.b2**t)) + self.eps) + self.wd * p
    a, b = np.linalg.norm(p), np.linalg.norm(u)
    return p - lr * (a / b if self.trust and a > 0 and b > 0 else 1) * u


NS = (5, (3.4445, -4.775, 2.0315))
CASES = [
  ("sgd", lambda p: optim.SGD(p, lr=0.1), Momentum()),
  ("sgd_default", lambda p: optim.SGD(p), Momentum()),
  ("sgd_momentum", lambda p: optim.SGD(p, 0.1, 0.9, 0.02), Momentum(0.9, 0.02)),
  ("sgd_nesterov", lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.02, nesterov=True), Momentum(0.9, 0.02, True)),
  ("sgd_classic", lambda p: optim.SGD(p, 0.1, momentum=0.9, classic=True, fused=True), Momentum(0.9, classic=True)),
  ("lars", lambda p: optim.LARS(p, lr=0.1, tcoef=0.3), Momentum(0.9, 1e-4, classic=True, trust=0.3)),
  ("lars_plain", lambda p: optim.LARS(p, 0.1, 0.5, 0.01, classic=False, nesterov=True, tcoef=0.2), Momentum(0.5, 0.01, True, trust=0.2)),
  ("lars_decoupled", lambda p: optim.LARS(p, 0.1, 0.5, 0.05, 3, (2.0, -1.5, 0.5), pre_wd=False), Momentum(0.5, 0.05, classic=True, trust=0.001, ns=(3, (2.0, -1.5, 0.5)), pre_wd=False)),
  ("muon", lambda p: optim.Muon(p, lr=0.1), Momentum(0.95, 0.1, True, ns=NS, pre_wd=False)),
  ("adam", lambda p: optim.Adam(p, lr=0.1), Moments()),
  ("adam_options", lambda p: optim.Adam(p, 0.1, 0.8, 0.99, 1e-3, fused=True), Moments(0.8, 0.99, 1e-3)),
  ("adamw", lambda p: optim.AdamW(p, lr=0.1), Moments(wd=0.01)),
  ("lamb", lambda p: optim.LAMB(p, lr=0.1, weight_decay=0.05), Moments(eps=1e-6, wd=0.05, trust=True)),
  ("lamb_adam", lambda p: optim.LAMB(p, 0.1, adam=True), Moments(eps=1e-6)),
]


def gradient(p): return 3 * p * p + 2


@pytest.mark.parametrize("again", [lambda o: pickle.loads(pickle.dumps(o)), lambda o: pickle.loads(pickle.dumps(o, protocol=4)), copy.deepcopy])
@pytest.mark.parametrize("name, make, rule", [*CASES, ("group", lambda p: optim.OptimizerGroup(optim.Adam(p[:1]), optim.SGD(p[1:], 0.1, 0.9)), None)],
                         ids=[*(c[0] for c in CASES), "group"])
def test_pickles_and_copies_go_on(name, make, rule, again):
  def step(tensors, optimizer):
    optimizer.lr = 0.05
    with Tensor.train():
      sum((t * t * t + t * 2).sum() for t in tensors).backward()
      optimizer.step()
    return [t.numpy() for t in tensors]
  tensors = [Tensor(s) for s in STARTS]
  optimizer = make(tensors)
  schedule = lr_scheduler.StepLR(optimizer, 0.1, 2)
  step(tensors, optimizer)
  others, other, its_schedule = again((tensors, optimizer, schedule))
  assert its_schedule.optimizer is other and its_schedule.get_last_lr() == schedule.get_last_lr()
  assert [p is q for p, q in zip(other.params, others)] == [True] * len(others)
  for _ in range(3):
    for own, its in zip(step(tensors, optimizer), step(others, other)): assert own.tobytes() == its.tobytes()
  assert optimizer.lr.item() == other.lr.item()


def test_a_recorded_step_is_pickled_with_its_optimiser():
  w = Tensor([1.0, 2.0])
  optimizer = optim.Adam([w], 0.1)
  @TinyJit
  def step(x):
    with Tensor.train():
      loss = (w * x).square().sum()
      loss.backward()
      optimizer.step()
    return loss.realize()
  x = Tensor([3.0, 1.0])
  for _ in range(3): step(x)
  its_w, its_optimizer, its_step = pickle.loads(pickle.dumps((w, optimizer, step)))
  for _ in range(3):
    assert step(x).item() == its_step(x).item()
    assert w.tolist() == its_w.tolist() and optimizer.m[0].tolist() == its_optimizer.m[0].tolist()


# The powers of beta are float32 numbers for float32 parameters: 1 - 0.999**t has few right digits.
@pytest.mark.parametrize("dtype, rtol, atol", [("float32", 2e-5, 1e-5), ("float64", 1e-9, 1e-12)])
@pytest.mark.parametrize("name, make, rule", CASES, ids=[c[0] for c in CASES])
def test_against_numpy(name, make, rule, dtype, rtol, atol):
  tensors, wants = [Tensor(s.astype(dtype)) for s in STARTS], [s.astype(dtype).astype(np.float64) for s in STARTS]
  optimizer = make(tensors)
  states = [rule.start(w) for w in wants]
  lr = optimizer.lr.item()
  assert lr == pytest.approx(0.001 if name == "sgd_default" else 0.1) and optimizer.lr.shape == (1,)
  with Tensor.train():
    for step in range(1, 6):
      if step == 3:
        lr = 0.05
        optimizer.lr.assign(Tensor([lr], dtype=dtype))
      if step == 4:
        lr = 0.025
        optimizer.lr = lr
      optimizer.zero_grad()
      sum((t * t * t + t * 2).sum() for t in tensors).backward()
      optimizer.step()
      wants = [rule(s, w, gradient(w), lr, step) for s, w in zip(states, wants)]
      for t, w in zip(tensors, wants): np.testing.assert_allclose(t.numpy(), w, rtol, atol, err_msg=f"step {step}")
  for key in states[0]:
    kept = getattr(optimizer, key)
    for t, s in zip(kept, states): np.testing.assert_allclose(t.numpy(), s[key], 10 * rtol, atol)
  if isinstance(rule, Moments): np.testing.assert_allclose([optimizer.b1_t.item(), optimizer.b2_t.item()], [rule.b1**5, rule.b2**5], rtol=1e-5)


def test_what_cannot_be_right():
  w = Tensor([1.0])
  with pytest.raises(ValueError, match="needs parameters"): optim.SGD([])
  with pytest.raises(ValueError, match="learning rate is -1"): optim.SGD([w], lr=-1)
  with pytest.raises(ValueError, match="momentum is -1"): optim.SGD([w], momentum=-1)
  with pytest.raises(ValueError, match="weight decay is -1"): optim.AdamW([w], weight_decay=-1)
  with pytest.raises(NotImplementedError): optim.Muon([w], fused=True)
  with pytest.raises(NotImplementedError): optim.SGD([w], device="NULL")
  step = optim.SGD([w])
  with pytest.raises(ValueError, match="learning rate is -2"): step.lr = -2
  w.sum().backward()
  with pytest.raises(RuntimeError, match="Tensor.train"): step.step()
  with Tensor.train():
    step.step()
    with pytest.raises(uopd.Error, match="parameter 0 has no gradient"): step.step()
    w.replace(Tensor([2.0]))
    with pytest.raises(RuntimeError, match="another tensor"): step.step()


def test_groups_are_one_request():
  a, b = Tensor([1.0, 2.0]).realize(), Tensor([3.0]).realize()
  group = optim.OptimizerGroup(optim.SGD([a], lr=0.5), optim.SGD([b], lr=0.25))
  assert group[1].params == [b] and len(group.params) == 2
  uopd.sync()
  with Tensor.train():
    for _ in range(2):
      group.zero_grad()
      (a.sum() + (b * 2).sum()).backward()
      before = uopd.stats()["executes"]
      group.step()
      uopd.sync()
      assert uopd.stats()["executes"] == before + 1
  assert a.tolist() == [0.0, 1.0] and b.tolist() == [2.0]
  group.lr = 1.0
  assert [o.lr.item() for o in group.optimizers] == [1.0, 1.0]
  with Tensor.train():
    (a.sum() + (b * 2).sum()).backward()
    scheduled = group.schedule_step()
    assert a.grad is None
    scheduled[0].realize(*scheduled[1:])
  assert a.tolist() == [-1.0, 0.0] and b.tolist() == [0.0]
  with pytest.raises(ValueError): optim.OptimizerGroup()


class Model:
  def __init__(self):
    self.conv, self.norm, self.cell, self.head = nn.Conv2d(1, 3, 3), nn.BatchNorm(3), nn.GRUCell(12, 5), nn.Linear(5, 4)
  def __call__(self, x): return self.head(self.cell(self.norm(self.conv(x)).relu().flatten(1)))


@pytest.mark.parametrize("make", [
  lambda p: optim.SGD(p, 0.1, 0.9, nesterov=True), lambda p: optim.LARS(p, 0.1), lambda p: optim.Muon(p, 0.05), lambda p: optim.LAMB(p, 0.05, weight_decay=0.01),
  lambda p: optim.OptimizerGroup(optim.AdamW(p[:4], 0.05), optim.SGD(p[4:], 0.1))], ids=["sgd", "lars", "muon", "lamb", "group"])
def test_training_under_tiny_jit_is_the_same(make):
  def train(wrap):
    Tensor.manual_seed(5)
    model = Model()
    optimizer = make(get_parameters(model))
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, 0.1, 5)

    def step(x, y):
      optimizer.zero_grad()
      loss = model(x).sparse_categorical_crossentropy(y).backward()
      optimizer.step()
      return loss.realize()
    step, rng = wrap(step), np.random.default_rng(1)
    with Tensor.train():
      losses = []
      for _ in range(6):
        x, y = rng.standard_normal((4, 1, 4, 4), np.float32), rng.integers(0, 4, 4).astype(np.int32)
        losses.append(step(Tensor(x), Tensor(y)).item())
        scheduler.step()
    return losses, {name: t.numpy() for name, t in get_state_dict(model).items()}
  (losses, state), (jit_losses, jit_state) = train(lambda f: f), train(TinyJit)
  assert losses == jit_losses and len(set(losses)) == 6
  for name, value in state.items(): np.testing.assert_array_equal(value, jit_state[name], err_msg=name)
  assert state["norm.num_batches_tracked"] == 6


def test_a_saved_optimiser_goes_on():
  def steps(w, optimizer, n):
    with Tensor.train():
      for _ in range(n):
        (w * w * w).sum().backward()
        optimizer.step()
  w = Tensor([1.0, 2.0])
  optimizer = optim.Adam([w], lr=0.1)
  steps(w, optimizer, 3)
  saved = {name: Tensor(t.numpy()) for name, t in get_state_dict(optimizer).items()}
  assert sorted(saved) == ["b1_t", "b2_t", "lr", "m.0", "params.0", "v.0"]
  steps(w, optimizer, 3)
  other = Tensor([0.0, 0.0])
  again = optim.Adam([other], lr=0.5)
  load_state_dict(again, saved)
  steps(other, again, 3)
  np.testing.assert_array_equal(other.numpy(), w.numpy())


def test_schedules():
  def rates(make, n):
    optimizer = optim.SGD([Tensor([1.0])], lr=7.0)
    scheduler = make(optimizer)
    out = [optimizer.lr.item()]
    for _ in range(n - 1):
      scheduler.step()
      out.append(optimizer.lr.item())
    assert scheduler.get_last_lr() == pytest.approx(out[-1])
    return out
  cosine = [0.2 + 0.4 * (1 + math.cos(math.pi * min(t, 8) / 8)) for t in range(10)]
  np.testing.assert_allclose(rates(lambda o: lr_scheduler.StepLR(o, 2.0, 2, 0.5), 5), [2, 2, 1, 1, 0.5])
  np.testing.assert_allclose(rates(lambda o: lr_scheduler.ExponentialLR(o, 2.0, 0.5), 4), [2, 1, 0.5, 0.25])
  np.testing.assert_allclose(rates(lambda o: lr_scheduler.CosineAnnealingLR(o, 1.0, 8, 0.2), 10), cosine, rtol=1e-6)
  np.testing.assert_allclose(rates(lambda o: lr_scheduler.WarmupCosineLR(o, 1.0, 2, 10, 0.2), 12), [0.5, 1.0, *cosine], rtol=1e-6)
  np.testing.assert_allclose(rates(lambda o: lr_scheduler.OneCycleLR(o, 1.0, 10), 10)[:3], [0.04, 0.52, 1.0], rtol=1e-6)
  np.testing.assert_allclose(rates(lambda o: lr_scheduler.LRScheduler(o, lambda t: 1 / (t + 1)), 3), [1, 1 / 2, 1 / 3], rtol=1e-6)
