# SPDX-License-Identifier: MIT
"""Names that programs import beside Tensor: settings, counters, files, variables of the environment, marks of functions, TinyJit's options; what is shown of tensors."""
import gzip
import io
import os
import tarfile

import numpy as np
import pytest
import uopd
from uopd import Context, Device, GlobalCounters, Tensor, TinyJit, UOp, Variable, dtypes, fetch, function, getenv, nn
from uopd.helpers import Timing, colored, prod, tqdm, trange
from uopd.settings import WITHOUT_MEANING


def test_settings():
  with Context(WINO=1, DEFAULT_FLOAT="half", DEFAULT_INT="int64", DEBUG=0):
    assert Tensor([1.0]).dtype is dtypes.half and Tensor([1]).dtype is dtypes.int64 and Tensor.zeros(1).dtype is dtypes.half
    with Context(DEFAULT_FLOAT="double"): assert dtypes.default_float is dtypes.double
    assert dtypes.default_float is dtypes.half
  assert dtypes.default_float is dtypes.float32 and dtypes.default_int is dtypes.int32
  with Context(**{name: 1 for name in WITHOUT_MEANING}): assert (Tensor([1]) + 1).item() == 2
  for wrong in ({"DEFAULT_FLOAT": "int32"}, {"DEFAULT_INT": "float32"}, {"SPEED": 1}, {"DEFAULT_FLOAT": "half", "SPEED": 1}):
    with pytest.raises((ValueError, KeyError)):
      with Context(**wrong): pass
    assert dtypes.default_float is dtypes.float32 and dtypes.default_int is dtypes.int32

  @Context(DEFAULT_FLOAT="half", TRAINING=1)
  def f(): return dtypes.default_float, Tensor.training
  assert f() == (dtypes.half, True) and dtypes.default_float is dtypes.float32


def test_getenv(monkeypatch):
  monkeypatch.setenv("UOPD_TEST_VALUE", "3")
  assert getenv("UOPD_TEST_VALUE") == 3 and getenv("UOPD_TEST_VALUE", "x") == "3" and getenv("UOPD_TEST_VALUE", 0.5) == 3.0
  monkeypatch.delenv("UOPD_TEST_VALUE")
  assert getenv("UOPD_TEST_VALUE") == 0 and getenv("UOPD_TEST_VALUE", 7) == 7


def test_fetch(tmp_path, monkeypatch):
  path = tmp_path / "a file"
  path.write_bytes(b"abc")
  assert fetch(str(path)) == path == fetch(path.as_uri()) and fetch(path.as_uri()).read_bytes() == b"abc"
  monkeypatch.setenv("UOPD_DOWNLOADS", str(tmp_path / "downloads"))
  with pytest.raises(FileNotFoundError, match="nothing is downloaded"): fetch("https://example.org/model.bin")
  (tmp_path / "downloads" / "sub").mkdir(parents=True)
  (tmp_path / "downloads" / "model.bin").write_bytes(b"model")
  (tmp_path / "downloads" / "sub" / "n").write_bytes(b"named")
  assert fetch("https://example.org/dir/model.bin?x=1").read_bytes() == b"model" and fetch("http://x/y", name="n", subdir="sub").read_bytes() == b"named"
  with pytest.raises(ValueError, match="another machine"): fetch("file://other/x")
  with pytest.raises(FileNotFoundError): fetch(str(tmp_path / "none"))
  with pytest.raises(RuntimeError, match="SHA-256"): fetch(str(path), sha256="00")
  assert fetch(str(path), sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == path
  (tmp_path / "z.gz").write_bytes(gzip.compress(b"unpacked"))
  assert fetch(str(tmp_path / "z.gz"), gunzip=True).read_bytes() == b"unpacked" == fetch(str(tmp_path / "z.gz"), gunzip=True).read_bytes()
  (tmp_path / "z.gz").write_bytes(gzip.compress(b"another one"))
  assert fetch(str(tmp_path / "z.gz"), gunzip=True).read_bytes() == b"another one"
  for name in ("folder/member", "../out"):
    with tarfile.open(tmp_path / "t.tar" if name[0] != "." else tmp_path / "bad.tar", "w") as tar:
      member = tarfile.TarInfo(name)
      member.size = 3
      tar.addfile(member, io.BytesIO(b"xyz"))
  with pytest.raises(ValueError, match="outside"): fetch(str(tmp_path / "bad.tar"), extract=True)
  assert (fetch(str(tmp_path / "t.tar"), extract=True) / "folder" / "member").read_bytes() == b"xyz"


def test_counters():
  GlobalCounters.reset()
  assert GlobalCounters.kernel_count == 0 and GlobalCounters.time_sum_s == 0
  before = GlobalCounters.mem_used
  x = Tensor.rand(1000, 100).realize()
  x.sum().item()
  assert GlobalCounters.kernel_count >= 2 and 0 < GlobalCounters.time_sum_s < 60 and GlobalCounters.mem_used - before >= 399_000
  GlobalCounters.reset()
  assert GlobalCounters.kernel_count == 0 and GlobalCounters.mem_used - before >= 399_000 and GlobalCounters.global_ops == GlobalCounters.global_mem == 0
  del x
  assert GlobalCounters.mem_used == before  # it is freed at the latest when somebody looks


def test_all_that_was_sent_counts():
  GlobalCounters.reset()
  for i in range(20): x = (Tensor([float(i), 1.0]) + 1).realize()
  assert GlobalCounters.kernel_count == 20
  del x


def test_memory_of_each_device():
  before = GlobalCounters.mem_used_per_device
  x = Tensor.zeros(100, 100).contiguous().realize()
  assert GlobalCounters.mem_used_per_device[x.device] - before[x.device] == 40_000 and GlobalCounters.mem_used_per_device["none such"] == 0
  x = Tensor.zeros(10).contiguous().realize()
  assert GlobalCounters.mem_used_per_device[x.device] - before[x.device] == 40 and sum(GlobalCounters.mem_used_per_device.values()) == GlobalCounters.mem_used


def test_function():
  @function
  def f(x, y): return x + y

  @function(precompile=True)
  def g(x): return x, x * 2

  class Net:
    def __init__(self): self.w = Tensor([2.0])
    @function
    def __call__(self, x): return x * self.w
  assert f(Tensor([1]), Tensor([2])).tolist() == [3] and g(Tensor([3]))[1].tolist() == [6] and Net()(Tensor([4.0])).tolist() == [8]
  with pytest.raises(RuntimeError, match="int"): function(lambda: 3)()
  with pytest.raises(NotImplementedError): function(lambda x: x, grad_fxn=lambda g: g)
  x = Tensor([3.0])
  f(x * x, x).sum().backward()
  assert x.grad.item() == 7


def test_variables_by_their_other_name():
  v = UOp.variable("n", 1, 10)
  assert isinstance(v, Variable) and isinstance(v.bind(3), UOp) and isinstance(v.bind(3) + 1, UOp) and not isinstance(3, UOp)


def test_jit_options():
  @TinyJit(prune=True)
  def f(x): return (x + 1).realize()
  with Context(JIT=0): assert [f(Tensor([i])).item() for i in range(4)] == [1, 2, 3, 4] and not f.captured
  assert [f(Tensor([i])).item() for i in range(4)] == [1, 2, 3, 4] and f.prune and TinyJit(lambda x: x, prune=True).prune and not TinyJit(lambda x: x).prune


def test_times_and_displays(capsys):
  with Timing("took ", lambda ns: f" ({ns > 0})"): pass
  out = capsys.readouterr().out
  assert out.startswith("took ") and out.endswith("ms (True)\n")
  with Timing(enabled=False): pass
  assert capsys.readouterr().out == ""
  assert colored("x", "red") == "\x1b[31mx\x1b[0m" and colored("x", "GREEN", background=True) == "\x1b[102mx\x1b[0m" and colored("x", None) == "x"
  assert prod([2, 3, 4]) == 24 and prod(()) == 1
  assert list(tqdm([1, 2, 3])) == [1, 2, 3] and list(trange(3)) == [0, 1, 2] and capsys.readouterr().err == ""
  assert list(tqdm([1, 2], desc="x", disable=False)) == [1, 2]
  assert capsys.readouterr().err.endswith("x: 2/2 it\x1b[K\n")


def test_small_values_are_shown_if_they_are_there():
  x = Tensor([[1.0, 2.5], [3.0, -0.125]])
  runs = uopd.stats()["executes"]
  assert repr(x) == "<Tensor (2, 2) float32 realized [[ 1. , 2.5 ], [ 3. , -0.125]]>"
  assert "2.5" in x._repr_html_() and x._repr_html_().startswith("<code>&lt;Tensor")
  y = x + 1
  assert repr(y) == "<Tensor (2, 2) float32>" and uopd.stats()["executes"] == runs  # nothing is computed for it
  assert y.tolist() == [[2.0, 3.5], [4.0, 0.875]] and "3.5" in repr(y)  # it was read
  assert "[" not in repr(Tensor(list(range(100)))) and "[" not in repr(Tensor.zeros(3, 0)).replace("(3, 0)", "")
  big = Tensor.rand(300, 300).realize()
  assert repr(big) == "<Tensor (300, 300) float32 realized>"
  b = Tensor([1.0, 2.0]).cast("bfloat16")
  assert repr(b) == "<Tensor (2,) bfloat16>"
  b.tolist()
  assert repr(b).startswith("<Tensor (2,) bfloat16")


def test_integers_are_no_parameters():
  w, count = Tensor([1.0]), Tensor([3])
  step = nn.optim.SGD([w, count], lr=1.0)
  assert step.params == [w] and step.buffers == [count]
  with Tensor.train():
    (w * 2).sum().backward()
    count += 1
    step.step()
  assert w.item() == -1 and count.item() == 4
  with pytest.raises(ValueError): nn.optim.SGD([count])


def test_normalisation_with_statistics_of_all_axes():
  rng = np.random.default_rng(5)
  x, s = rng.standard_normal((2, 3, 4, 5), dtype=np.float32), rng.standard_normal((2, 3, 4, 5), dtype=np.float32)
  w, b, m = (rng.standard_normal(3, dtype=np.float32) for _ in range(3))
  got = Tensor(x).batchnorm(Tensor(w), Tensor(b), Tensor(m), Tensor(s)).numpy()
  column = lambda v: v[None, :, None, None]  # noqa: E731
  np.testing.assert_allclose(got, (x - column(m)) * s * column(w) + column(b), rtol=1e-5, atol=1e-5)
  one = rng.standard_normal((1, 3, 1, 1), dtype=np.float32)
  np.testing.assert_allclose(Tensor(x).batchnorm(None, None, Tensor(one), Tensor(one)).numpy(), (x - one) * one, rtol=1e-5, atol=1e-5)


def test_assign_broadcasts():
  for value, want in ((Tensor.ones(3), np.ones((2, 3))), (Tensor([[1.0], [2.0]]), np.array([[1.0] * 3, [2.0] * 3])), (5, np.full((2, 3), 5)), (Tensor(4.0), np.full((2, 3), 4)),
                      ([1.0, 2.0, 3.0], np.array([[1, 2, 3]] * 2))):
    for x in (Tensor.zeros(2, 3).contiguous().realize(), Tensor.zeros(2, 3)):
      assert x.assign(value).numpy().tolist() == want.tolist()
  with pytest.raises(ValueError): Tensor.zeros(2, 3).assign(Tensor.ones(2))
  with pytest.raises(ValueError): Tensor.zeros(3).assign(Tensor.ones(2, 3))


def test_negative_padding_and_mirrors():
  a = np.arange(20.0, dtype=np.float32).reshape(4, 5)
  x = Tensor(a)
  for mode in ("constant", "reflect", "replicate", "circular"):
    numpy = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    for (b0, a0), (b1, a1) in (((0, 0), (-1, 2)), ((2, -1), (0, 0)), ((1, 1), (2, -2)), ((-1, -1), (-2, 1)), ((0, -4), (0, 0))):
      positive, cut = lambda v: max(v, 0), lambda v: max(-v, 0)  # noqa: E731
      first = a if mode in ("reflect", "replicate") else a[cut(b0):4 - cut(a0), cut(b1):5 - cut(a1)]
      if 0 in first.shape and mode != "constant": continue
      want = np.pad(first, ((positive(b0), positive(a0)), (positive(b1), positive(a1))), numpy)
      if mode in ("reflect", "replicate"): want = want[cut(b0):want.shape[0] - cut(a0), cut(b1):want.shape[1] - cut(a1)]
      np.testing.assert_array_equal(x.pad(((b0, a0), (b1, a1)), mode).numpy(), want, str((mode, b0, a0, b1, a1)))
  with pytest.raises(ValueError): x.pad((-3, -3))
  with pytest.raises(ValueError): x.pad((5, 0), "reflect")


@pytest.mark.parametrize("refused", [
  lambda: Tensor.ones(2, 16, 2, 2).conv2d(Tensor.ones(32, 16, 3, 3)), lambda: Tensor.ones(1, 1, 5).conv2d(Tensor.ones(1, 1, 3), dilation=3),
  lambda: Tensor.ones(1, 1, 2, 2).max_pool2d((3, 3)), lambda: Tensor.ones(1, 1, 2, 2).avg_pool2d((2, 3)), lambda: Tensor.ones(1, 1, 2, 2).max_pool2d((3, 3), return_indices=True),
  lambda: Tensor.ones(1, 1, 2, 2).avg_pool2d((4, 4), ceil_mode=True)], ids=["conv", "dilated", "max", "avg", "indices", "ceil"])
def test_windows_larger_than_their_input_are_refused(refused):
  with pytest.raises(ValueError): refused()


def test_windows_as_large_as_their_input():
  assert Tensor.ones(1, 1, 2, 2).conv2d(Tensor.ones(1, 1, 3, 3), padding=1).shape == (1, 1, 2, 2)
  assert Tensor.ones(0, 1, 3, 3).conv2d(Tensor.ones(1, 1, 3, 3)).shape == (0, 1, 1, 1) and Tensor.ones(1, 1, 3, 3).max_pool2d((3, 3)).tolist() == [[[[1]]]]


@pytest.mark.parametrize("refused", [
  lambda x: x.sum(2), lambda x: x.cumsum(2), lambda x: x.softmax(3), lambda x: x.sort(-3), lambda x: x.flip(2), lambda x: x.transpose(0, 2), lambda x: x.permute(0, 2),
  lambda x: x.unsqueeze(4), lambda x: x.unsqueeze(-4), lambda x: x.cat(x, dim=2), lambda x: x.stack(x, dim=3), lambda x: Tensor.stack([x, x], dim=-4),
  lambda x: x.gather(2, Tensor([[0]])), lambda x: x.flatten(0, 2), lambda x: x.unflatten(2, (1, 1)), lambda x: x.roll(1, 2), lambda x: x.squeeze(2), lambda x: x.split(1, 2),
  lambda x: x.argmax(2), lambda x: x[3], lambda x: x[0, 0, 0], lambda x: x.shard((Device.DEFAULT,), 2), lambda x: x.repeat_interleave(2, 2), lambda x: x.unfold(2, 1, 1),
  lambda x: x.topk(1, 2), lambda x: x.cummax(2), lambda x: x.log_softmax(-3), lambda x: x.diagonal(0, 0, 2)])
def test_axes_out_of_range_are_index_errors(refused):
  with pytest.raises(IndexError): refused(Tensor.ones(2, 3))


@pytest.mark.parametrize("kind, refused", [
  (RuntimeError, lambda x: x.div(2, rounding_mode="typo")), (RuntimeError, lambda x: x.meshgrid(x, indexing="bad")), (ValueError, lambda x: Tensor.eye(-1)), (ValueError, lambda x: Tensor.uniform(3, low=1.0, high=1.0)), (ValueError, lambda x: Tensor.normal(3, std=-1.0)),
  (ValueError, lambda x: Tensor.randint(3, low=4, high=4)), (ValueError, lambda x: Tensor.eye(2, -1)),
  (IndexError, lambda x: Tensor(1.0).cat(Tensor(2.0))), (ValueError, lambda x: x.repeat(2)), (RuntimeError, lambda x: x.half().scatter(0, Tensor([[0]]), Tensor([[1.0]]))),
  (RuntimeError, lambda x: x.half().scatter_reduce(0, Tensor([[0]]), Tensor([[1.0]]), "sum")), (RuntimeError, lambda x: x.scatter_reduce(0, Tensor([[0]]), Tensor([[1.0]]), "typo")),
  (IndexError, lambda x: x[Tensor(1.1)]), (IndexError, lambda x: x[[1.1]]), (IndexError, lambda x: x[Tensor([True, False, True])]), (TypeError, lambda x: x[0.5:1]),
  (ValueError, lambda x: Tensor.stack((x, x), x)), (ValueError, lambda x: Tensor.cat([])), (ValueError, lambda x: Tensor.zeros((2, 3), 4)), (ValueError, lambda x: x.reshape((3, 2), 1)), (AttributeError, lambda x: x.cast("typo")), (ValueError, lambda x: x.sum(dtype="typo")),
  (TypeError, lambda x: bool(x)), (TypeError, lambda x: len(x.sum())), (RuntimeError, lambda x: x.clamp()), (ValueError, lambda x: x.dropout(2.0))])
def test_kinds_of_exceptions(kind, refused):
  with pytest.raises(kind): refused(Tensor.ones(2, 3))


def test_windows_of_nothing_and_negative_padding_of_convolutions():
  assert Tensor.ones(3, 8).unfold(1, 0, 3).shape == (3, 3, 0)
  x, w = Tensor.arange(16).reshape(1, 1, 4, 4).float(), Tensor.ones(1, 1, 2, 2)
  assert x.conv2d(w, padding=-1).tolist() == [[[[30.0]]]] and x.conv2d(w, padding=(0, -1, 0, 0)).shape == (1, 1, 3, 2)


def test_gradients_of_copies_and_moves():
  x = Tensor([1.0, 2.0])
  (x * x).sum().backward()
  copy = x.clone()
  copy.grad += 1  # a gradient of its own
  assert x.grad.tolist() == [2, 4] and copy.grad.tolist() == [3, 5]
  assert Tensor([1.0]).is_param_(False).clone().is_param is False
  moved = x.to_(Device.DEFAULT)
  assert moved.grad.tolist() == [2, 4]
  assert (x * 2).sum().gradient(x, gradient=Tensor([3.0]))[0].tolist() == [6, 6]


def test_bools_among_integers_are_integers():
  x = Tensor.arange(6).reshape(3, 2)
  assert x[[True, False, 2]].tolist() == [[2, 3], [0, 1], [4, 5]] and x[[True, False, True]].tolist() == [[0, 1], [4, 5]]


def test_places_of_names():
  """The places from which programs of tinygrad import."""
  for line in ("from {0} import Tensor, TinyJit, Variable, dtypes, Device, GlobalCounters, Context, fetch, getenv, function, nn", "from {0}.tensor import Tensor", "from {0}.dtype import dtypes, DType",
               "from {0}.device import Device", "from {0}.helpers import Context, GlobalCounters, fetch, getenv, prod, colored, Timing, tqdm, trange", "from {0}.engine.jit import TinyJit",
               "from {0}.nn import optim, state, datasets, Linear, Conv2d, BatchNorm, LayerNorm, RMSNorm, Embedding, GroupNorm, InstanceNorm", "from {0}.nn.optim import Adam, AdamW, SGD, LAMB, LARS, Muon",
               "from {0}.nn.state import safe_load, safe_save, torch_load, get_state_dict, get_parameters, load_state_dict, zip_extract, tar_extract, TensorIO, safe_load_metadata",
               "from {0}.nn.datasets import mnist, cifar", "from {0}.llm.gguf import gguf_load, ggml_data_to_tensor"):
    exec(line.format("uopd"), {})
