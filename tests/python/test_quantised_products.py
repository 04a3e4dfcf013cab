# SPDX-License-Identifier: MIT
"""Products with weights that stay in blocks of GGML on the daemon, against NumPy in float64, and what kernels they make."""
import numpy as np
import pytest

from uopd import Context, Tensor, dtypes
from uopd.llm.gguf import ggml_data_to_tensor

quants = pytest.importorskip("gguf.quants")
from gguf import GGMLQuantizationType as Type  # noqa: E402
from gguf import GGML_QUANT_SIZES  # noqa: E402

TYPES = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K]


def weights_of(kind, rows, columns, seed):
  """The bytes of a matrix in blocks, and its values. Scales are small floats, all other bytes are random."""
  rng = np.random.default_rng(seed)
  elements, size = GGML_QUANT_SIZES[kind]
  raw = rng.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
  at = {Type.Q6_K: [208], Type.Q4_0: [0], Type.Q5_0: [0], Type.Q8_0: [0]}.get(kind, [0, 2])
  for a in at: raw[:, a:a + 2] = rng.uniform(-0.1, 0.1, (len(raw), 1)).astype(np.float16).view(np.uint8)
  return raw.reshape(-1), quants.dequantize(raw, kind).reshape(rows, columns).astype(np.float64)


@pytest.mark.parametrize("kind", TYPES, ids=lambda k: k.name)
@pytest.mark.parametrize("tokens", [1, 3, 40])
def test_products(kind, tokens):
  rows, columns = 37, 1536
  raw, values = weights_of(kind, rows, columns, tokens)
  x = np.random.default_rng(7).standard_normal((tokens, columns)).astype(np.float32)
  w = ggml_data_to_tensor(Tensor(raw).realize(), rows * columns, kind.value).reshape(rows, columns)
  found = Tensor(x).matmul(w.transpose()).numpy()
  scale = np.abs(x.astype(np.float64)) @ np.abs(values.T)  # what the rounding of sums is measured by
  assert (np.abs(found - x.astype(np.float64) @ values.T) <= 1e-6 * scale).all()


@pytest.mark.filterwarnings("ignore:invalid value")
def test_values_that_are_no_numbers():
  raw, _ = weights_of(Type.Q4_1, 4, 64, 1)
  blocks = raw.reshape(-1, 20)
  blocks[0, :2], blocks[3, 2:4] = (np.array([v], np.float16).view(np.uint8) for v in (np.inf, np.nan))
  values = quants.dequantize(blocks, Type.Q4_1).reshape(4, 64)
  w = ggml_data_to_tensor(Tensor(raw).realize(), 256, Type.Q4_1.value).reshape(4, 64)
  found = Tensor.ones(1, 64).matmul(w.transpose()).numpy()[0]
  np.testing.assert_array_equal(np.isfinite(found), np.isfinite(values.sum(-1)))
  assert not np.isfinite(found[:2]).all() and np.isfinite(found[2:]).all()


@pytest.mark.parametrize("kind", TYPES, ids=lambda k: k.name)
def test_one_kernel(kind, capfd):
  """What the blocks mean is computed in the kernel of the product: nothing of it goes to memory."""
  raw, _ = weights_of(kind, 512, 1024, 3)
  weights, x = Tensor(raw).realize(), Tensor(np.ones((1, 1024), np.float32)).realize()
  w = ggml_data_to_tensor(weights, 512 * 1024, kind.value).reshape(512, 1024)
  with Context(DEBUG=2): x.matmul(w.transpose()).numpy()
  said = "".join(capfd.readouterr())
  assert "run of 1 kernels" in said, said


def test_both_uses_of_an_embedding(capfd):
  """The rows of tokens, and the product with all rows, as in models whose output is tied to the embedding: no float copy of the weights is made for the two."""
  raw, values = weights_of(Type.Q8_0, 3000, 256, 5)
  w = ggml_data_to_tensor(Tensor(raw).realize(), 3000 * 256, Type.Q8_0.value).reshape(3000, 256)
  token = Tensor([7], dtype=dtypes.int32).realize()
  with Context(DEBUG=2): found = w[token].matmul(w.transpose()).numpy()
  said = "".join(capfd.readouterr())
  assert "run of 1 kernels" in said or "run of 2 kernels" in said, said
  want = values[7:8] @ values.T
  assert np.abs(found - want).max() <= 1e-6 * (np.abs(values[7:8]) @ np.abs(values.T)).max()
