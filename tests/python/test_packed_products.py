# SPDX-License-Identifier: MIT
"""Products with packed quantised matrices, which are sums of integers, against NumPy in float64."""
import numpy as np
import pytest

from uopd import Context, Tensor
from uopd.llm.ggml import BLOCKS
from uopd.llm.gguf import Stored
from uopd.llm.packed import BLOCK, Factor, Packed, Part, packed_of as matrices_of

quants = pytest.importorskip("gguf.quants")
from gguf import GGML_QUANT_SIZES  # noqa: E402
from test_quantised_products import TYPES, weights_of  # noqa: E402


def packed_of(kind, raw, rows, columns):
  block = BLOCKS[kind.value]
  packed = Packed((rows, columns), block.numbers(Tensor(raw).reshape(-1, block.nbytes)))
  Tensor.realize(*packed.tensors)
  return packed


def bound(x, values):
  """What a product may differ by: half a step of 16 bits for each element of x, and the rounding of sums in float32."""
  blocks = np.abs(x).reshape(len(x), -1, BLOCK).max(-1)                           # (count, blocks)
  weights = np.abs(values).reshape(len(values), -1, BLOCK).sum(-1)                # (rows, blocks)
  return blocks @ weights.T / (2 * 127 * 256) * 1.001 + 2e-6 * np.abs(x) @ np.abs(values).T


@pytest.mark.parametrize("kind", TYPES, ids=lambda k: k.name)
def test_the_packed_form_has_the_same_elements(kind):
  rows, columns = 48, 768
  raw, values = weights_of(kind, rows, columns, 1)
  packed = packed_of(kind, raw, rows, columns)
  np.testing.assert_array_equal(packed.tensor().numpy(), values.astype(np.float32))
  assert sum(t.nbytes() for t in packed.tensors) <= 1.03 * raw.nbytes


@pytest.mark.parametrize("kind", TYPES, ids=lambda k: k.name)
@pytest.mark.parametrize("count", [1, 3, 40])
def test_products(kind, count):
  rows, columns = 80, 1536
  raw, values = weights_of(kind, rows, columns, count)
  rng = np.random.default_rng(7)
  x = (rng.standard_normal((count, columns)) * np.exp(rng.standard_normal((count, columns)))).astype(np.float32)
  found = packed_of(kind, raw, rows, columns).product(Factor(Tensor(x))).numpy().astype(np.float64)
  wanted = x.astype(np.float64) @ values.T
  assert (np.abs(found - wanted) <= bound(x.astype(np.float64), values)).all()


@pytest.mark.parametrize("kind", TYPES, ids=lambda k: k.name)
def test_numbers_at_their_limits(kind):
  """All bits of the weights are set, or none; the elements of x are the largest of their block."""
  elements, size = GGML_QUANT_SIZES[kind]
  for byte in (0, 255):
    raw, _ = weights_of(kind, 16, 256, 1)
    blocks = raw.reshape(-1, size)
    scales = {t: [208] if t.name == "Q6_K" else [0] if t.name in ("Q4_0", "Q5_0", "Q8_0") else [0, 2] for t in TYPES}[kind]
    kept = [a + i for a in scales for i in range(2)]
    blocks[:, [i for i in range(size) if i not in kept]] = byte
    values = quants.dequantize(blocks, kind).reshape(16, 256).astype(np.float64)
    for sign in (1, -1):
      x = np.full((2, 256), sign * 3.5, np.float32)
      found = packed_of(kind, raw, 16, 256).product(Factor(Tensor(x))).numpy().astype(np.float64)
      assert (np.abs(found - x.astype(np.float64) @ values.T) <= bound(x.astype(np.float64), values)).all()


def test_zeros_and_small_numbers():
  kind = TYPES[1]
  raw, values = weights_of(kind, 16, 64, 1)
  packed = packed_of(kind, raw, 16, 64)
  np.testing.assert_array_equal(packed.product(Factor(Tensor.zeros(2, 64))).numpy(), 0)
  for size in (1e-30, 1e30):
    x = (np.random.default_rng(1).standard_normal((1, 64)) * size).astype(np.float32)
    found = packed.product(Factor(Tensor(x))).numpy().astype(np.float64)
    assert (np.abs(found - x.astype(np.float64) @ values.T) <= bound(x.astype(np.float64), values)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers(bad):
  """They reach all results that they are a term of, and no other one."""
  kind = TYPES[1]
  raw, _ = weights_of(kind, 16, 64, 1)
  packed = packed_of(kind, raw, 16, 64)
  x = np.ones((3, 64), np.float32)
  x[1, 40] = bad
  found = packed.product(Factor(Tensor(x))).numpy()
  assert np.isfinite(found[[0, 2]]).all() and not np.isfinite(found[1]).any()
  blocks = raw.reshape(16, 2, 20)
  blocks[5, 1, 2:4] = np.array([bad], np.float16).view(np.uint8)
  found = packed_of(kind, raw, 16, 64).product(Factor(Tensor.ones(1, 64))).numpy()[0]
  np.testing.assert_array_equal(np.isfinite(found), np.arange(16) != 5)


@pytest.mark.parametrize("kind", TYPES, ids=lambda k: k.name)
@pytest.mark.parametrize("count", [1, 32])
def test_numbers_are_not_written(kind, count, capfd):
  """Neither the numbers nor the sums of blocks go to memory: there is one kernel for the product, at most three round the other operand, and two compute scales of parts."""
  raw, _ = weights_of(kind, 512, 1024, 3)
  packed, x = packed_of(kind, raw, 512, 1024), Tensor(np.ones((count, 1024), np.float32)).realize()
  with Context(DEBUG=2): packed.product(Factor(x)).numpy()
  said = "".join(capfd.readouterr())
  kernels = int(said.split("run of ")[1].split()[0])
  assert kernels <= 4 + 2 * (count > 1 and kind.name.endswith("_K")), said


def files_of(kinds, rows, columns):
  """Matrices of these types as they are in a file, and their elements in float64."""
  stored, values = {}, {}
  for i, (kind, n) in enumerate(zip(kinds, rows)):
    raw, values[f"m{i}"] = weights_of(kind, n, columns, 10 + i)
    stored[f"m{i}"] = Stored((n, columns), kind.value, Tensor(raw.reshape(-1)).realize())
  return stored, values


@pytest.mark.parametrize("kind", TYPES, ids=lambda k: k.name)
@pytest.mark.parametrize("count", [1, 3, 40])
def test_matrices_that_are_packed_together(kind, count):
  """Their packed forms have the bits of those that are packed alone, and their products are as exact."""
  stored, values = files_of([kind] * 3, (64, 16, 32), 768)
  joined, alone = matrices_of(stored, together=[("m0", "m1", "m2")]), matrices_of(stored)
  x = (np.random.default_rng(5).standard_normal((count, 768))).astype(np.float32)
  factor = Factor(Tensor(x))
  for parts in zip(joined["m0"]._whole.tensors, *(alone[name].tensors for name in values), strict=True):
    whole, *apart = (t.numpy() for t in parts)
    np.testing.assert_array_equal(whole.view(np.uint8), np.concatenate(apart).view(np.uint8))
  for name, wanted in values.items():
    assert isinstance(joined[name], Part) and isinstance(alone[name], Packed) and joined[name].shape == alone[name].shape == wanted.shape
    np.testing.assert_array_equal(joined[name].tensor().numpy(), wanted.astype(np.float32))
    found = joined[name].product(factor).numpy()
    assert (np.abs(found - x.astype(np.float64) @ wanted.T) <= bound(x.astype(np.float64), wanted)).all()


@pytest.mark.parametrize("count", [1, 32])
def test_one_kernel_multiplies_by_matrices_that_are_packed_together(count, capfd):
  stored, _ = files_of([TYPES[1]] * 3, (512, 256, 256), 1024)
  joined, x = matrices_of(stored, together=[("m0", "m1", "m2")]), Tensor(np.ones((count, 1024), np.float32)).realize()
  factor, names = Factor(x), ("m0", "m1", "m2")
  with Context(DEBUG=2): joined["m0"].product(factor).cat(*[joined[name].product(factor) for name in names[1:]], dim=1).numpy()
  kernels = int("".join(capfd.readouterr()).split("run of ")[1].split()[0])
  assert kernels <= 4 + 1, kernels  # the last one puts the results together, which this test alone asks for


def test_what_is_not_packed_together():
  """Another type, another width, what is not packed, and names that the file does not have."""
  q4, q8 = TYPES[1], next(k for k in TYPES if k.name == "Q8_0")
  stored, values = files_of([q4, q4, q8, q4, q4], (32, 32, 32, 32, 32), 256)
  wide, values["wide"] = weights_of(q4, 32, 512, 3)
  stored["wide"] = Stored((32, 512), q4.value, Tensor(wide.reshape(-1)).realize())
  odd, values["odd"] = weights_of(q4, 24, 256, 4)
  stored["odd"] = Stored((24, 256), q4.value, Tensor(odd.reshape(-1)).realize())
  found = matrices_of(stored, together=[("m0", "nobody", "odd", "m1", "m2", "m3"), ("m4", "wide")])
  assert {name for name, m in found.items() if isinstance(m, Part)} == {"m0", "m1"} and found["m0"]._whole is found["m1"]._whole
  assert {name for name, m in found.items() if isinstance(m, Packed)} == {"m2", "m3", "m4", "wide"} and isinstance(found["odd"], Tensor)
  for name, m in found.items():
    got = (m if isinstance(m, Tensor) else m.tensor()).numpy()
    np.testing.assert_array_equal(got, values[name].astype(np.float32))
