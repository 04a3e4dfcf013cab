# SPDX-License-Identifier: MIT
"""gguf_load, against the package gguf of the inventors of the format: values, every type of block, files in parts, broken files."""
import struct

import gguf
import numpy as np
import pytest
import uopd
from gguf import GGMLQuantizationType as Type
from mutations import try_all
from uopd import Device, Tensor, _core, dtypes, nn
from uopd.disk import FileRange
from uopd.llm.ggml import BLOCKS, PLAIN
from uopd.llm.gguf import ggml_data_to_tensor, gguf_load

MOST_HEADER = 100_000_000
RNG = np.random.default_rng(7)
QUANTISED = [t for t in Type if t.value in BLOCKS]


def blocks(kind, count):
  """Random blocks. Where they have 16-bit floats, these are mostly finite."""
  block = BLOCKS[kind.value]
  raw = RNG.integers(0, 256, (count, block.nbytes), dtype=np.uint8)
  halves = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
            "IQ4_NL": (0,), "IQ4_XS": (0,), "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,), "Q1_0": (0,)}.get(block.name, ())
  for at in halves: raw[:, at:at + 2] = RNG.standard_normal((count, 1)).astype(np.float16).view(np.uint8)
  if block.name == "Q8_K": raw[:, :4] = RNG.standard_normal((count, 1)).astype(np.float32).view(np.uint8)
  return raw


@pytest.mark.parametrize("kind", QUANTISED, ids=lambda t: t.name)
def test_blocks(kind):
  """Bit for bit as the package has it, which follows the C code."""
  block, raw = BLOCKS[kind.value], blocks(kind, 40)
  assert (block.name, (block.elements, block.nbytes)) == (kind.name, gguf.GGML_QUANT_SIZES[kind])
  got = ggml_data_to_tensor(Tensor(raw.reshape(-1)), 40 * block.elements, kind.value)
  assert got.dtype is dtypes.float32 and got.shape == (40 * block.elements,)
  if kind is Type.Q8_K: want = raw[:, :4].copy().view(np.float32) * raw[:, 4:260].view(np.int8)  # the package has no reader of it
  elif kind is Type.Q1_0: want = raw[:, :2].copy().view(np.float16).astype(np.float32) * (np.unpackbits(raw[:, 2:], axis=1, bitorder="little") * 2.0 - 1)  # nor of it
  else: want = gguf.quants.dequantize(raw, kind)
  np.testing.assert_array_equal(got.numpy().reshape(40, -1), want)
  np.testing.assert_array_equal(ggml_data_to_tensor(Tensor(raw.reshape(-1)), block.elements, kind.value).numpy(), want[0])


def test_every_scale_of_mxfp4():
  raw = np.concatenate([np.arange(256, dtype=np.uint8)[:, None], RNG.integers(0, 256, (256, 16), dtype=np.uint8)], axis=1)
  got = ggml_data_to_tensor(Tensor(raw.reshape(-1)), 256 * 32, 39).numpy().reshape(256, 32)
  values = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])
  q = np.concatenate([raw[:, 1:] & 15, raw[:, 1:] >> 4], axis=1)
  with np.errstate(over="ignore"): want = (values[q] * 2.0 ** (np.arange(256.0)[:, None] - 128)).astype(np.float32)
  np.testing.assert_array_equal(got[2:], want[2:])
  np.testing.assert_allclose(got[:2], want[:2], rtol=0, atol=1e-37)  # numbers below the normal ones may be 0 on a device


def test_what_is_made_by_the_quantiser_comes_back():
  a = RNG.standard_normal((8, 256)).astype(np.float32)
  for kind, tolerance in ((Type.Q8_0, 0.02), (Type.Q4_0, 0.5), (Type.Q5_1, 0.15), (Type.BF16, 0.02), (Type.F16, 0.002)):
    raw = gguf.quants.quantize(a, kind)
    got = ggml_data_to_tensor(Tensor(np.ascontiguousarray(raw).view(np.uint8).reshape(-1)), a.size, kind.value).float().numpy().reshape(a.shape)
    assert np.abs(got - a).max() < tolerance, kind


def file_with(path, tensors, values=(), alignment=None, version=None):
  """tensors: name, raw array, type or None. values: name, method of GGUFWriter, value."""
  w = gguf.GGUFWriter(str(path), "llama")
  if alignment: w.add_custom_alignment(alignment)
  for name, method, value in values: getattr(w, method)(name, value)
  for name, array, kind in tensors: w.add_tensor(name, array, raw_dtype=kind)
  w.write_header_to_file()
  w.write_kv_data_to_file()
  w.write_tensors_to_file()
  w.close()
  return path


VALUES = [("u8", "add_uint8", 200), ("i8", "add_int8", -3), ("u16", "add_uint16", 60000), ("i16", "add_int16", -300), ("u32", "add_uint32", 4_000_000_000), ("i32", "add_int32", -70000),
          ("f32", "add_float32", 0.5), ("u64", "add_uint64", 1 << 63), ("i64", "add_int64", -(1 << 40)), ("f64", "add_float64", 0.1), ("yes", "add_bool", True), ("text", "add_string", "grüße"),
          ("tokens", "add_array", ["a", "b", "ü" * 100]), ("scores", "add_array", [0.5, -1.0]), ("ints", "add_array", [1, -2, 3]), ("flags", "add_array", [True, False])]


def test_values_and_tensors(tmp_path):
  q = blocks(Type.Q4_K, 6).reshape(3, 2 * 144)
  plain = {n: RNG.integers(-50, 50, (2, 3, 4)).astype(n) for n in ("float32", "float16", "float64", "int8", "int16", "int32", "int64")}
  path = file_with(tmp_path / "m.gguf", [("q", q, Type.Q4_K), *((n, a, None) for n, a in plain.items()), ("one", np.array([3.5], np.float32), None)], VALUES)
  for source in (path, str(path), Tensor(path), Tensor(path).to(Device.DEFAULT), Tensor(path.read_bytes())):
    values, tensors = gguf_load(source)
    assert values["general.architecture"] == "llama" and {n: values[n] for n, _, _ in VALUES} == {n: v for n, _, v in VALUES} and values["yes"] is True and values["flags"] == [True, False]
    assert list(tensors) == ["q", *plain, "one"] and tensors["q"].shape == (3, 512) and tensors["q"].dtype is dtypes.float32
    for n, a in plain.items():
      assert (tensors[n].dtype.name, tensors[n].shape) == (n, a.shape)
      np.testing.assert_array_equal(tensors[n].numpy(), a)
    np.testing.assert_array_equal(tensors["q"].numpy(), gguf.quants.dequantize(q, Type.Q4_K).reshape(3, 512))
  assert nn.state.gguf_load is gguf_load


def test_weights_stay_quantised_on_the_daemon(tmp_path, monkeypatch):
  raw = blocks(Type.Q4_0, 64 * 8).reshape(64, 8 * 18)
  path = file_with(tmp_path / "m.gguf", [("a", raw, Type.Q4_0), ("b", blocks(Type.Q6_K, 4096).reshape(64, -1), Type.Q6_K)])
  seen, read = [], FileRange.read
  monkeypatch.setattr(FileRange, "read", lambda self: (seen.append(self.nbytes), read(self))[1])
  tensors = gguf_load(path)[1]
  w, x = tensors["a"], Tensor(np.ones((1, 256), np.float32))
  assert sum(seen) < 2 << 20 and w.shape == (64, 256)
  seen.clear()
  before = uopd.helpers.GlobalCounters.mem_used
  y = (x @ w.T).numpy()
  assert seen == [raw.size]  # b is never read
  np.testing.assert_allclose(y[0], gguf.quants.dequantize(raw, Type.Q4_0).astype(np.float64).sum(1), rtol=1e-4, atol=1e-3)
  assert (x @ w.T).shape == (1, 64) and seen == [raw.size] and uopd.helpers.GlobalCounters.mem_used - before < 2 * raw.size  # bytes of the blocks, not of float32
  assert w.realize().tolist() == gguf.quants.dequantize(raw, Type.Q4_0).tolist()


def test_alignment(tmp_path):
  a = np.arange(7, dtype=np.float32)
  path = file_with(tmp_path / "m.gguf", [("a", a, None), ("b", a + 1, None)], alignment=256)
  tensors = gguf_load(path)[1]
  assert tensors["a"].tolist() == a.tolist() and tensors["b"].tolist() == (a + 1).tolist()


def test_a_model_in_several_files(tmp_path):
  split = lambda i: [("split.count", "add_uint16", 3), ("split.no", "add_uint16", i)]  # noqa: E731
  for i in range(3): file_with(tmp_path / f"m-0000{i + 1}-of-00003.gguf", [(f"t{i}", np.full(4, i, np.float32), None)], split(i) + ([("name", "add_string", "x")] if i == 0 else []))
  values, tensors = gguf_load(tmp_path / "m-00001-of-00003.gguf")
  assert values["name"] == "x" and {n: t.tolist() for n, t in tensors.items()} == {f"t{i}": [i] * 4 for i in range(3)}
  with pytest.raises(ValueError, match="not the first"): gguf_load(tmp_path / "m-00002-of-00003.gguf")
  with pytest.raises(ValueError, match="path of the first"): gguf_load(Tensor(tmp_path / "m-00001-of-00003.gguf"))
  (tmp_path / "m-00003-of-00003.gguf").unlink()
  with pytest.raises(FileNotFoundError): gguf_load(tmp_path / "m-00001-of-00003.gguf")
  file_with(tmp_path / "m-00003-of-00003.gguf", [("t0", np.zeros(1, np.float32), None)], split(2))
  with pytest.raises(ValueError, match="once more"): gguf_load(tmp_path / "m-00001-of-00003.gguf")
  (tmp_path / "m-00001-of-00003.gguf").rename(tmp_path / "first.gguf")
  with pytest.raises(ValueError, match="its name ends"): gguf_load(tmp_path / "first.gguf")


# Files by hand.
def text(s): return struct.pack("<Q", len(s)) + s.encode()
def u32(key, value): return text(key) + struct.pack("<II", 4, value)
def info(name, dims, kind, offset): return text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)


def by_hand(values=(), infos=(), data=b"", version=3, magic=b"GGUF", n_values=None, n_tensors=None):
  head = magic + struct.pack("<IQQ", version, len(infos) if n_tensors is None else n_tensors, len(values) if n_values is None else n_values) + b"".join(values) + b"".join(infos)
  return head + b"\0" * (-len(head) % 32) + data


def test_by_hand():
  values, tensors = gguf_load(Tensor(by_hand([u32("x", 5)], [info("w", (2,), 0, 0), info("none", (0, 3), 0, 0), info("scalar", (), 0, 32)], struct.pack("<2f24xf", 1, 2, 3))))
  assert values == {"x": 5} and tensors["w"].tolist() == [1, 2] and tensors["none"].shape == (3, 0) and tensors["scalar"].item() == 3
  nested = text("n") + struct.pack("<IIQ", 9, 9, 2) + struct.pack("<IQB", 0, 1, 7) + struct.pack("<IQBB", 0, 2, 8, 9)
  assert gguf_load(Tensor(by_hand([nested], version=2)))[0] == {"n": [[7], [8, 9]]}
  assert gguf_load(Tensor(by_hand([text("s") + struct.pack("<IQ", 8, 2) + b"\xff\xfe"])))[0]["s"].encode("utf-8", "surrogateescape") == b"\xff\xfe"


@pytest.mark.parametrize("contents, says", [
  (b"", "ends within its header"), (b"GGU", "ends within"), (by_hand(magic=b"GGML"), "begins with GGUF"), (by_hand(version=1), "version 1"), (by_hand(version=0x03000000), "big-endian"),
  (by_hand(n_values=1 << 60), "ends before them"), (by_hand(n_tensors=1 << 60), "ends before them"), (by_hand([u32("a", 1), u32("a", 2)]), "`a` twice"),
  (by_hand([text("a") + struct.pack("<I", 77)]), "unknown type 77"), (by_hand([struct.pack("<Q", 1 << 62) + b"abcdefgh"]), "ends within"),
  (by_hand([text("a") + struct.pack("<IIQ", 9, 0, 1 << 61)]), "an array of"), (by_hand([text("a") + struct.pack("<IIQ", 9, 8, 1 << 61)]), "an array of"),
  (by_hand([text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100]), "arrays in 9 arrays"), (by_hand([u32("general.alignment", 24)]), "alignment is 24"),
  (by_hand([u32("general.alignment", 0)]), "alignment is 0"), (by_hand([], [info("w", (2,), 0, 0)] * 2, b"\0" * 8), "`w` twice"), (by_hand([], [info("w", (3,), 0, 0)], b"\0" * 8), "`w` goes to byte"),
  (by_hand([], [info("w", (1 << 47, 1 << 47), 0, 0)]), "sizes"), (by_hand([], [info("w", (2,), 0, 3)], b"\0" * 32), "alignment"), (by_hand([], [info("w", (2,), 99, 0)]), "type 99 is not known"),
  (by_hand([], [info("w", (33,), 2, 0)], b"\0" * 99), "whole blocks"), (by_hand([], [info("w", (), 2, 0)], b"\0" * 99), "whole blocks"), (by_hand([], [info("w", (1,) * 9, 0, 0)], b"\0" * 9), "9 axes"),
  (by_hand([], [info("w", (32,), 2, 1 << 62)], b"\0" * 18), "goes to byte"),
  (by_hand([], [info("v", (9,), 0, 0), info("w", (2,), 0, 32)], b"\0" * 40), "`w` begins at byte 32 of the data, within tensor `v`"),
  (by_hand([text("a") + struct.pack("<IQ", 8, 99)]), "while reading the value `a`"), (by_hand([], [info("\x1b[2J", (2,), 99, 0)]), r"tensor `\?\[2J`: GGML type 99")])
def test_broken_files(contents, says):
  with pytest.raises(ValueError, match=says): gguf_load(Tensor(np.frombuffer(contents, np.uint8)))


def test_the_reader_knows_the_same_types():
  """The table of the C++ reader, and what makes tensors of the types."""
  plain = {n: dtype.core for n, dtype in PLAIN.items()}
  assert {n: dtype for n, _, _, _, dtype in _core.ggml_types() if dtype is not None} == plain
  assert {n: (name, elements, nbytes) for n, name, elements, nbytes, dtype in _core.ggml_types() if dtype is None} == {n: b[:3] for n, b in BLOCKS.items()}
  assert all((Type(n).name, gguf.GGML_QUANT_SIZES[Type(n)]) == (name, (elements, nbytes)) for n, name, elements, nbytes, _ in _core.ggml_types())


def test_long_headers(tmp_path, monkeypatch):
  """They are read in parts, and little behind them."""
  tokens, merges = [f"token {i}" for i in range(50_000)], [f"a{i} b{i}" for i in range(48_000)]
  path = file_with(tmp_path / "m.gguf", [("w", np.zeros(8 << 20, np.uint8).view(np.int8), None), ("v", np.arange(3, dtype=np.int32), None)],
                   [("tokens", "add_array", tokens), ("scores", "add_array", [0.5] * 50_000), ("merges", "add_array", merges), ("ids", "add_array", list(range(-5, 50_000)))])
  seen, read = [], FileRange.read
  monkeypatch.setattr(FileRange, "read", lambda self: (seen.append(self.nbytes), read(self))[1])
  values, tensors = gguf_load(path)
  assert (values["tokens"], values["merges"], values["scores"], values["ids"]) == (tokens, merges, [0.5] * 50_000, list(range(-5, 50_000)))
  assert sum(seen) < 2 * (path.stat().st_size - (8 << 20)) + (2 << 20) and list(values)[-4:] == ["tokens", "scores", "merges", "ids"]
  assert tensors["v"].tolist() == [0, 1, 2]


def test_other_mistakes(tmp_path):
  with pytest.raises(ValueError, match="type 19 is not known"): ggml_data_to_tensor(Tensor(b"\0" * 100), 32, 19)
  with pytest.raises(ValueError, match="take 18 bytes"): ggml_data_to_tensor(Tensor(b"\0" * 17), 32, 2)
  with pytest.raises(ValueError, match="uint8"): gguf_load(Tensor([1.0]))
  with pytest.raises(FileNotFoundError): gguf_load(tmp_path / "none.gguf")
  path = tmp_path / "long.gguf"  # a hole
  path.write_bytes(by_hand([text("a") + struct.pack("<IIQ", 9, 0, 2 * MOST_HEADER)]))
  with open(path, "r+b") as f: f.truncate(3 * MOST_HEADER)
  with pytest.raises(ValueError, match="an array of"): gguf_load(path)
  assert set(PLAIN) | set(BLOCKS) <= {t.value for t in Type}


def test_mutated_files(tmp_path):
  path = file_with(tmp_path / "m.gguf", [("q", blocks(Type.Q5_0, 4).reshape(2, 44), Type.Q5_0), ("f", np.ones((3, 5), np.float32), None)], VALUES)
  contents = path.read_bytes()

  def read(case):
    path.write_bytes(case)
    for t in gguf_load(path)[1].values(): assert t.numel() < 1 << 48
  assert try_all(contents, read, (ValueError,), 1500, 40 * len(contents) + (4 << 20)) > 50
