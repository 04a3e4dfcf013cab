# SPDX-License-Identifier: MIT
"""Random programs of several live tensors: views of views, assignments, reads, gradients and recorded functions in any order, against a model in
NumPy (stateful_model.py), and against tinygrad where it is installed.

  UOPD_DAEMON=build/release/bin/uopd build/python-venv/bin/python tests/python/stateful_fuzz.py --count 20000 --seed 1

A program that gives something else is printed, without the steps that do not matter. With --devices every tensor lies on several devices, in
pieces along an axis or whole on each (UOPD_DEVICE_LIST=CPU:0,CPU:1,CPU:2 for the daemon).
"""
import argparse
import collections
import os
import sys
import time
import zlib

import numpy as np
from stateful_programs import Log, Maker, model_scope, run

# What may be refused, with the reason that docs/python.md and docs/client.md give.
REFUSED = {
  "below the loss is gone": "a gradient by what was computed from a tensor that was assigned since",
  "graph of the loss is gone": "a gradient by what was computed from a tensor that was assigned since",
  "got other memory": "a replay would write memory that another tensor has",
  "by another name": "a replay with another argument than the recorded one, which the function uses by its own name too",
  "two inputs are the same tensor": "a recording with one tensor twice",
  "are the same tensor, and the function assigns": "a replay with one tensor twice",
  "made outside of the function and not realised": "a recorded function that assigns to a tensor without memory",
  "made outside of it and not realised": "a recorded function that computes with a tensor without memory, of which something was assigned since",
  "setitem on a tensor with other uses": "tinygrad: an assignment to elements of a tensor that others were made from",
  "a tensor is read while": "a mask with as many results as it has true elements, inside of a recorded function",
  "computes nothing": "a function that computes nothing",
}


def uopd_scope(log):
  from uopd import Tensor, TinyJit
  return {"Tensor": Tensor, "TinyJit": TinyJit, "np": np, "see": log.see, "see_gradient": log.see_gradient}


def tinygrad_scope(log):
  from tinygrad import Tensor, TinyJit
  return {"Tensor": Tensor, "TinyJit": TinyJit, "np": np, "see": log.see, "see_gradient": log.see_gradient}


class Placed:
  """Makes tensors as Tensor does, and puts them on several devices: those of a shape in one layout, as the arguments of a recorded function have to be."""
  salt = 0

  def __init__(self, devices):
    from uopd import Tensor
    self.devices, self.make = devices, Tensor
  def place(self, t):
    axes = [i for i, n in enumerate(t.shape) if n >= len(self.devices)] + [None]
    return t.shard(self.devices, axes[zlib.crc32(repr((t.shape, self.salt)).encode()) % len(axes)])
  def __call__(self, *args, **kwargs): return self.place(self.make(*args, **kwargs))
  def __getattr__(self, name):
    f = getattr(self.make, name)
    if name in ("stack", "cat", "where", "maximum", "minimum"): return f
    return lambda *args, **kwargs: self.place(f(*args, **kwargs))


def devices_scope(log):
  names = os.environ.get("UOPD_DEVICE_LIST", "CPU:0,CPU:1").split(",")
  return uopd_scope(log) | {"Tensor": Placed(tuple(names[:2 + Placed.salt % (len(names) - 1)]))}


SCOPES = {"uopd": uopd_scope, "devices": devices_scope, "tinygrad": tinygrad_scope}


# With tensors on several devices: results of operations lie in pieces of their own, and are no argument for what was recorded with others.
REFUSED_ON_DEVICES = {"; the function was recorded with": "an argument in other pieces than the recorded one"}


def refusal(error, library):
  return next((text for text in {**REFUSED, **(REFUSED_ON_DEVICES if library == "devices" else {})} if text in str(error)), None)


def difference(steps, library):
  """(what differs from the model or None, what was refused or None). A program that the model does not take differs in nothing."""
  want, got = Log(), Log()
  done, error = run(steps, model_scope(want))
  if error is not None: return None, None
  done, error = run(steps, SCOPES[library](got))
  for a, b in zip(got, want):
    if a.shape != b.shape or (a.dtype.kind == "b") != (b.dtype.kind == "b") or not np.array_equal(a, b):
      return f"{a.tolist()} instead of {b.tolist()}", None
  if error is None: return None, None
  text = refusal(error, library)
  return (None, text) if text else (f"{type(error).__name__}: {error} (in: {steps[done]})", None)


def kind_of(what): return what.split(":")[0] if ":" in what else "value"


def shrunk(steps, library, what):
  """The program without steps, as long as it differs in the same way."""
  kind, size = kind_of(what), len(steps)
  while size >= 1:
    i, fewer = 0, False
    while i < len(steps):
      less = steps[:i] + steps[i + size:]
      found, _ = difference(less, library)
      if found is not None and kind_of(found) == kind: steps, what, fewer = less, found, True
      else: i += size
    if not fewer: size //= 2
  for i, step in enumerate(steps):  # lines of functions
    lines, k = step.split("\n"), 1
    while k < len(lines):
      less = steps[:i] + ["\n".join(lines[:k] + lines[k + 1:])] + steps[i + 1:]
      found, _ = difference(less, library)
      if found is not None and kind_of(found) == kind: steps, what, lines = less, found, lines[:k] + lines[k + 1:]
      else: k += 1
  return steps, what


def fuzz(seed, count, library="uopd", length=22, report=print, most=20, **choices):
  """The numbers of programs, refused ones by reason, and different ones, which are reported."""
  refused, different, began = collections.Counter(), 0, time.monotonic()
  for i in range(seed, seed + count):
    steps, _ = Maker(i, **choices).program(length)
    Placed.salt = i
    what, text = difference(steps, library)
    if text: refused[text] += 1
    if what is not None:
      different += 1
      steps, what = shrunk(steps, library, what)
      report(f"# seed {i}: {what}\n" + "\n".join(steps) + "\n")
      if different >= most: break
    if (i + 1 - seed) % 500 == 0: print(f"{i + 1 - seed} programs, {different} different, {dict(refused)}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
  return i + 1 - seed, refused, different


def main():
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--count", type=int, default=1000)
  parser.add_argument("--length", type=int, default=22, help="steps of a program")
  parser.add_argument("--most", type=int, default=20, help="different programs after which it ends")
  parser.add_argument("--devices", action="store_true", help="tensors on several devices")
  parser.add_argument("--tinygrad", action="store_true", help="tinygrad against the model: programs without recorded functions, gradients and tensors that are older than an assignment")
  parser.add_argument("--show", action="store_true", help="print the program of the seed")
  for what in ("jit", "gradients"): parser.add_argument(f"--no-{what}", dest=what, action="store_false", help=f"programs without {what}")
  args = parser.parse_args()
  choices = {"jit": args.jit, "gradients": args.gradients}
  if args.tinygrad: choices = {"jit": False, "gradients": False, "fresh": True}  # where it means the same
  if args.show:
    print("\n".join(Maker(args.seed, **choices).program(args.length)[0]))
    return
  count, refused, different = fuzz(args.seed, args.count, "tinygrad" if args.tinygrad else "devices" if args.devices else "uopd", args.length, most=args.most, **choices)
  print(f"{count} programs, {different} different; refused: {dict(refused)}")
  sys.exit(different > 0)


if __name__ == "__main__": main()
