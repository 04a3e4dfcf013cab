# SPDX-License-Identifier: MIT
"""The Mandelbrot set, as characters on the terminal, and as an image if a file is named.

  python client/examples/python/mandelbrot.py --out mandelbrot.pgm --size 1200 --steps 200
  python client/examples/python/mandelbrot.py --short
"""
import argparse
import time

import numpy as np
from uopd import Tensor, TinyJit

INNER = 10  # iterations in one replay


def main(argv=None):
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--size", type=int, default=600, help="width in points")
  parser.add_argument("--steps", type=int, default=100, help="iterations; a multiple of 10")
  parser.add_argument("--out", help="a PGM file to write")
  parser.add_argument("--short", action="store_true", help="90 points and 30 iterations")
  args = parser.parse_args(argv)
  if args.short: args.size, args.steps = 90, 30
  width, height = args.size, args.size * 2 // 3

  begin = time.perf_counter()
  cx = Tensor.linspace(-2.1, 0.6, width).reshape(1, -1).expand(height, width).contiguous()
  cy = Tensor.linspace(-0.9, 0.9, height).reshape(-1, 1).expand(height, width).contiguous()

  @TinyJit
  def iterate(x, y, count):
    """Some iterations of z = z*z + c for all points. count: how many a point has stayed within 2 of the origin."""
    for _ in range(INNER):
      inside = x * x + y * y <= 4
      count = count + inside.int()
      x, y = inside.where(x * x - y * y + cx, x), inside.where(2 * x * y + cy, y)
    return x, y, count

  x, y, count = (Tensor.zeros(height, width).contiguous(), Tensor.zeros(height, width).contiguous(),
                 Tensor.zeros(height, width, dtype="int32").contiguous())
  for _ in range(args.steps // INNER): x, y, count = iterate(x, y, count)
  counts = count.numpy()
  seconds = time.perf_counter() - begin

  if args.out:
    with open(args.out, "wb") as file:
      file.write(f"P5 {width} {height} 255\n".encode() + (255 - counts * 255 // args.steps).astype(np.uint8).tobytes())
  rows, columns = max(1, height // 24), max(1, width // 72)
  for line in counts[::rows, ::columns]: print("".join(" .:-=+*%#@"[min(9, 10 * c // args.steps)] for c in line))
  print(f"{width} x {height} points, {args.steps} iterations: {seconds:.2f} s with compiling")
  return {"counts": counts, "x": cx.numpy(), "y": cy.numpy(), "steps": args.steps}


if __name__ == "__main__": main()
