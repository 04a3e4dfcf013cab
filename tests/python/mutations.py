# SPDX-License-Identifier: MIT
"""Files with mistakes, for tests of readers: what a reader does with them, and what that costs."""
import random
import tracemalloc

# What a reader may raise for a file: errors of values, and of the standard library's archives.
NUMBERS = (b"\0" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, (1 << 31).to_bytes(8, "little"), (1 << 62).to_bytes(8, "little"), (1 << 40).to_bytes(8, "little"))


def mutated(contents, seed):
  """The contents with some mistakes: bytes, bits, lengths, cuts, insertions, repetitions."""
  rng, out = random.Random(seed), bytearray(contents)
  for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
    at = rng.randrange(len(out)) if out else 0
    kind = rng.randrange(7)
    if kind == 0 and out: out[at] ^= 1 << rng.randrange(8)
    elif kind == 1 and out: out[at] = rng.randrange(256)
    elif kind == 2: out[at:at + 8] = rng.choice(NUMBERS)[:len(out[at:at + 8])]
    elif kind == 3: out[at:at + 4] = rng.choice(NUMBERS)[:len(out[at:at + 4])]
    elif kind == 4: del out[at:at + rng.choice((1, 4, 100, len(out)))]
    elif kind == 5: out[at:at] = rng.randbytes(rng.choice((1, 4, 16)))
    else: out[at:at] = out[at:at + rng.choice((1, 8, 64))]
  return bytes(out)


def try_all(contents, read, allowed, count, most_bytes):
  """read(mutation) of `count` mutations ends well or with one of the allowed exceptions, and makes at most `most_bytes` in Python. Returns how many ended well."""
  good = 0
  tracemalloc.start()
  try:
    for seed in range(count):
      case = mutated(contents, seed)
      tracemalloc.reset_peak()
      before = tracemalloc.get_traced_memory()[0]
      try:
        read(case)
        good += 1
      except allowed as e: assert str(e), f"seed {seed}: {type(e).__name__} without a text"
      except Exception as e: raise AssertionError(f"seed {seed}: {type(e).__name__}: {e}") from e
      peak = tracemalloc.get_traced_memory()[1] - before
      assert peak <= most_bytes, f"seed {seed}: {peak} bytes for a file of {len(case)}"
  finally: tracemalloc.stop()
  return good
