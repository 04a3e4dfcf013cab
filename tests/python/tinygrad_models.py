#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tinygrad's models with uopd in tinygrad's place: outputs, tokens and gradients beside tinygrad's own.

  tests/python/tinygrad_models.py FOLDER [MODEL...] [--keep RESULTS]

FOLDER is a checkout of tinygrad with its folders tinygrad, examples and extra; what is needed else is as for tinygrad_suite.py, which rewrites the imports. Each model runs
twice, in processes of its own: with the tinygrad of FOLDER on its CPU device, and with uopd. Weights and inputs are small and drawn by NumPy from their names, so both have the
same. --keep: tinygrad's results stay in this folder and are used again. f32 results agree within 1e-4 of the largest number of each result; tokens are equal."""
import argparse
import importlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types
import zlib

import numpy as np

MODELS = {}
LIMIT = 1e-4


def model(f):
  MODELS[f.__name__] = f
  return f


def numbers(name, shape, scale=1.0): return (np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape) * scale).astype(np.float32)
def tokens(name, shape, count): return np.random.default_rng(zlib.crc32(name.encode())).integers(0, count, shape).astype(np.int32)


class Library:
  """tinygrad or uopd, and modules of tinygrad that import it."""
  def __init__(self, root, reference):
    self.root, self.reference = root, reference
    if reference: sys.path.insert(0, str(root))
    import tinygrad_suite
    if not reference: tinygrad_suite.stand_in()
    sys.meta_path.insert(0, tinygrad_suite.Finder(root, not reference))
    self.finder = sys.meta_path[0]
    # What the examples import for weights and sound that are not needed here.
    for name, names in (("librosa", ()), ("transformers", ("AutoTokenizer",))):
      stub = types.ModuleType(name)
      for n in names: setattr(stub, n, None)
      sys.modules.setdefault(name, stub)
    self.lib = importlib.import_module("tinygrad" if reference else "uopd")
    self.Tensor, self.nn, self.dtypes = self.lib.Tensor, self.lib.nn, self.lib.dtypes
    self.Variable, self.Context = self.lib.Variable, importlib.import_module(f"{self.lib.__name__}.helpers").Context
  def module(self, name): return importlib.import_module(name)
  def app(self):
    """tinygrad/llm/model.py. It writes into its caches by nodes of graphs, for which an assignment stands here."""
    if self.reference: return importlib.import_module("tinygrad.llm.model")
    class Node:
      def __init__(self, t): self.t, self.dtype = t, t.dtype
      def store(self, value): return self.t.assign(value.t)
      def after(self, stored): return self
      def handle(self): return (self.t + 0)._h
    self.Tensor.uop = property(Node)
    file = self.root / "tinygrad" / "llm" / "model.py"
    spec = importlib.util.spec_from_file_location("llm_model", file, loader=self.finder)
    module = importlib.util.module_from_spec(spec)
    sys.modules["llm_model"] = module
    spec.loader.exec_module(module)
    return module
  def fill(self, m, scale=.2):
    """Weights of a model, by their names. What is no parameter stays."""
    state = self.nn.state.get_state_dict(m)
    new = {}
    for name, t in state.items():
      if not self.dtypes.is_float(t.dtype) or self.is_state(name): continue
      values = numbers(name, t.shape, scale)
      if name.endswith("weight") and len(t.shape) == 1: values += 1
      new[name] = self.Tensor(values).cast(t.dtype)
    self.nn.state.load_state_dict(m, new, strict=False, verbose=False)
    return m
  @staticmethod
  def is_state(name):
    """Whether the tensor of this name is no parameter: a table, or what a model keeps from call to call."""
    return any(part in name for part in ("freqs_cis", "mask", "cache_", "conv_state", "ssm_state"))
  def gradients(self, m, loss):
    """The loss and the gradients of the parameters."""
    loss.backward()
    out = {"loss": loss.numpy()}
    for name, t in self.nn.state.get_state_dict(m).items():
      if t.grad is not None and self.dtypes.is_float(t.dtype) and t.is_param and not self.is_state(name): out[f"gradient of {name}"] = t.grad.numpy()
    return out


@model
def llama(l):
  m = l.module("extra.models.llama")
  t = l.fill(m.Transformer(dim=32, hidden_dim=64, n_heads=4, n_layers=2, norm_eps=1e-5, vocab_size=61, n_kv_heads=2, max_context=16))
  nan = float("nan")
  out = {"prompt": t(l.Tensor(tokens("prompt", (1, 5), 61)), 0, nan).numpy()}
  for p in range(5, 11): out[f"position {p}"] = t(l.Tensor(tokens(f"token {p}", (1, 1), 61)), p, nan).numpy()
  t = l.fill(m.Transformer(dim=32, hidden_dim=64, n_heads=4, n_layers=2, norm_eps=1e-5, vocab_size=61, n_kv_heads=2, max_context=16, jit=False))
  text = tokens("prompt", (1, 4), 61)
  chosen = []
  for p in range(6):
    chosen.append(int(t(l.Tensor(text if p == 0 else [[chosen[-1]]]), 0 if p == 0 else 3 + p, 0.0).item()))
  return {**out, "tokens": np.array(chosen)}


@model
def llama_training(l):
  t = l.fill(l.module("extra.models.llama").Transformer(dim=32, hidden_dim=64, n_heads=4, n_layers=2, norm_eps=1e-5, vocab_size=61, n_kv_heads=2, max_context=16, jit=False,
                                                        disable_kv_cache=True))
  x = tokens("text", (2, 9), 61)
  logits = t(l.Tensor(x[:, :-1]), 0, float("nan"))
  return l.gradients(t, logits.sparse_categorical_crossentropy(l.Tensor(x[:, 1:])))


@model
def gpt2(l):
  m = l.module("examples.gpt2")
  t = l.fill(m.Transformer(dim=32, n_heads=4, n_layers=2, norm_eps=1e-5, vocab_size=61))
  text = list(tokens("prompt", (5,), 61))
  start = 0
  for _ in range(10):
    x = l.Variable("tokens", 0, 60).bind(int(text[start])) if len(text) - start == 1 else l.Tensor(np.array([text[start:]], np.int32))
    chosen = t(x, l.Variable("start_pos", 1 if start else 0, m.MAX_CONTEXT - 1).bind(start), 0.0).tolist()
    start = len(text)
    text.append(chosen[0])
  t, seen = l.fill(m.Transformer(dim=32, n_heads=4, n_layers=2, norm_eps=1e-5, vocab_size=61)), []
  head = t.lm_head
  t.lm_head = lambda x: seen.append(head(x)) or seen[-1]
  t.forward(l.Tensor(tokens("prompt", (2, 7), 61)), l.Variable("start_pos", 0, m.MAX_CONTEXT - 1).bind(0), 0.0)
  return {"tokens": np.array(text), "logits": seen[0].numpy()}


@model
def whisper(l):
  dims = dict(n_mels=8, n_audio_ctx=16, n_audio_state=32, n_audio_head=4, n_audio_layer=2, n_vocab=61, n_text_ctx=16, n_text_state=32, n_text_head=4, n_text_layer=2)
  w = l.fill(l.module("examples.whisper").Whisper(dims))
  out = {}
  for i in range(3): out[f"sound {i}"] = (heard := w.encoder.encode(l.Tensor(numbers(f"sound {i}", (1, 8, 32))))).numpy()
  out["prompt"] = w.decoder(l.Tensor(tokens("prompt", (1, 3), 61)), 0, heard).numpy()
  for p in range(3, 9): out[f"position {p}"] = w.decoder(l.Tensor(tokens(f"token {p}", (1, 1), 61)), p, heard).numpy()
  return out


@model
def mamba(l):
  m = l.module("examples.mamba")
  x = tokens("prompt", (1, 5), 64)
  t = l.fill(m.Mamba(dim=32, n_layers=2, vocab_size=64))
  out = {"prompt": t.forward(l.Tensor(x)).numpy()}
  for i in range(6): out[f"step {i}"] = t.forward_jit(l.Tensor(tokens(f"token {i}", (1, 1), 64))).numpy()
  t = l.fill(m.Mamba(dim=32, n_layers=2, vocab_size=64))
  logits = t.lm_head(t.backbone(l.Tensor(x[:, :-1])))  # forward() realises them, after which tinygrad has no gradients
  return {**out, **l.gradients(t, logits.sparse_categorical_crossentropy(l.Tensor(x[:, 1:])))}


def app(l, **changes):
  m = l.app()
  config = m.TransformerConfig(**{**dict(num_blocks=2, dim=32, hidden_dim=64, n_heads=4, n_kv_heads=2, norm_eps=1e-5, vocab_size=61, head_dim=8, rope_theta=10000.0, rope_dim=8,
                                         v_head_dim=8, max_context=64), **changes})
  out = {}
  for scale in (.2, .5):
    t = l.fill(m.Transformer(config), scale)
    x = t.token_embd(l.Tensor(tokens("prompt", (1, 7), 61))).float()
    for block in t.blk: x = block(x, 0)
    out[f"logits {scale}"] = t.output(t.output_norm(x)).numpy()
  t = l.fill(m.Transformer(config), .5)
  made = t.generate([int(x) for x in tokens("prompt", (9,), 61)], chunk_size=4)
  return {**out, "tokens": np.array([next(made) for _ in range(8)])}


@model
def llm_dense(l): return app(l)
@model
def llm_qk_norm(l): return app(l, qk_norm=8, qkv_bias=True)
@model
def llm_experts(l): return app(l, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, shared_expert_dim=16)
@model
def llm_latent(l): return app(l, kv_lora_rank=16, q_lora_rank=16, head_dim=12, rope_dim=4, v_head_dim=8, n_kv_heads=4)


@model
def cifar(l):
  c = l.module("examples.hlb_cifar10")
  with l.Context(TRAINING=1):
    m = l.fill(c.SpeedyResNet(l.Tensor(numbers("whitening", (12, 3, 2, 2), .3))), .05)
    parameters = [p for p in l.nn.state.get_parameters(m) if p.is_param]
    opt = l.nn.optim.SGD(parameters, lr=.01, momentum=.85, nesterov=True, weight_decay=.01)
    out = {}
    # Where the two largest elements of a pooling window are within rounding of each other, f32 may choose another one than f64 does. The gradient then goes to another
    # place, and the next steps differ by 1e-3 and more, in PyTorch and tinygrad too: an ulp in the first weights is enough. With eight images a step there is such a window in nearly every
    # run. So there are two images, drawn so that in no window of these steps the elements are closer than seven times the rms error of PyTorch's f32.
    for step, draw in enumerate((0, 4, 59, 31)):
      x = l.Tensor(numbers(f"images {step}, draw {draw}", (2, 3, 32, 32)))
      y = l.Tensor(np.eye(10, dtype=np.float32)[tokens(f"labels {step}", (2,), 10)])
      opt.zero_grad()
      loss = m(x).cross_entropy(y, reduction="mean", label_smoothing=.2)
      gradients = l.gradients(m, loss)
      out[f"loss {step}"] = loss.numpy()  # tinygrad would compute it after the step from the new weights
      opt.step()
      if step == 0:
        out.update(gradients)
        out.update({f"{name} after a step": t.numpy() for name, t in l.nn.state.get_state_dict(m).items()})
    for name, t in l.nn.state.get_state_dict(m).items(): out[name] = t.numpy()
  return out


def denoised(l, levels):
  """A UNet, and what it makes of a noisy latent."""
  m = l.module("extra.models.unet")
  m.mixed_precision_dtype = l.dtypes.float32  # a sine that float16 rounds in another way differs by more than the limit
  u = l.fill(m.UNetModel(adm_in_ch=None, in_ch=4, out_ch=4, model_ch=32, attention_resolutions=levels, num_res_blocks=1, channel_mult=levels, n_heads=4,
                                                     transformer_depth=[1] * len(levels), ctx_dim=24, use_linear=False), .05)
  return u, u(l.Tensor(numbers("latent", (2, 4, 8, 8))), l.Tensor(np.array([7, 300], np.float32)), l.Tensor(numbers("context", (2, 5, 24))))


@model
def unet(l): return {"out": denoised(l, [1, 2])[1].numpy()}


@model
def unet_training(l):  # of one level: tinygrad's compilation of the gradients of two does not end within an hour
  u, y = denoised(l, [1])
  return {"out": y.numpy(), **l.gradients(u, y.square().mean())}


@model
def autoencoder(l):
  s = l.module("examples.stable_diffusion")
  mid, up = l.fill(s.Mid(32), .1), l.fill(s.ResnetBlock(32, 64), .1)
  x = l.Tensor(numbers("features", (1, 32, 8, 8)))
  y = up(mid(x))
  return {"out": y.numpy(), **l.gradients([mid, up], y.square().mean()), "alphas": s.get_alphas_cumprod().numpy()}


@model
def clip(l):
  c = l.module("extra.models.clip")
  text = l.fill(c.Open.ClipTextTransformer(32, 4, 2, vocab_size=61), .2)
  image = l.fill(c.Open.ClipVisionTransformer(32, 2, 8, 16, 4), .2)
  y = text(l.Tensor(tokens("text", (2, 77), 61)))
  z = image(l.Tensor(numbers("image", (2, 3, 16, 16))))
  return {"text": y.numpy(), "image": z.numpy(), **l.gradients(text, y.square().mean())}


def differences(ours, theirs):
  """What is missing, or another value. A gradient that is 0 but for rounding, such as that of a bias before a normalisation, is none of
  its own: below a millionth of the largest gradient all are equal."""
  least = 1e-6 * max((np.abs(v).max() for name, v in theirs.items() if name.startswith("gradient of") and v.size), default=0)
  for name in theirs:
    if name not in ours: yield f"{name}: missing"
    elif ours[name].shape != theirs[name].shape: yield f"{name}: shape {ours[name].shape}, not {theirs[name].shape}"
    elif theirs[name].dtype.kind in "iu":
      if not np.array_equal(ours[name], theirs[name]): yield f"{name}: {ours[name].tolist()}, not {theirs[name].tolist()}"
    elif theirs[name].size:
      off, most = np.abs(ours[name].astype(np.float64) - theirs[name]).max(), np.abs(theirs[name]).max()
      if not off <= max(LIMIT * most, least if name.startswith("gradient of") else 0): yield f"{name}: off by {off:.2g} of {most:.2g}"
  for name in ours:
    if name not in theirs: yield f"{name}: not there with tinygrad"


def run(root, name, reference, keep=None):
  """The results of a model, computed by a process of its own; None and what it wrote if it failed."""
  kept = keep / f"{name}.npz" if keep else None
  if kept and kept.is_file():
    with np.load(kept) as f: return {k: f[k] for k in f.files}, ""
  with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "out.npz"
    command = [sys.executable, __file__, str(root), name, "--one", str(out), *(["--reference"] if reference else [])]
    done = subprocess.run(command, env={**os.environ, "DEV": "CPU"}, capture_output=True, text=True)
    if done.returncode: return None, done.stderr.strip()[-1500:]
    if kept:
      keep.mkdir(parents=True, exist_ok=True)
      shutil.copy(out, kept)
    with np.load(out) as f: return {k: f[k] for k in f.files}, ""


def main():
  p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  p.add_argument("folder", type=pathlib.Path)
  p.add_argument("models", nargs="*", help=", ".join(MODELS))
  p.add_argument("--keep", type=pathlib.Path)
  p.add_argument("--one", help=argparse.SUPPRESS)
  p.add_argument("--reference", action="store_true", help=argparse.SUPPRESS)
  args = p.parse_args()
  root = args.folder.resolve()
  if args.one:
    np.savez(args.one, **MODELS[args.models[0]](Library(root, args.reference)))
    return
  bad = 0
  for name in args.models or MODELS:
    theirs, error = run(root, name, True, args.keep)
    if theirs is None:
      print(f"{name}: not with tinygrad itself: {error}", flush=True)
      continue
    ours, error = run(root, name, False)
    found = [f"fails: {error}"] if ours is None else list(differences(ours, theirs))
    bad += bool(found)
    print(f"{name}: {'equal, ' + str(len(theirs)) + ' results' if not found else '; '.join(found)}", flush=True)
  sys.exit(bad > 0)


if __name__ == "__main__": main()
