# SPDX-License-Identifier: MIT
"""Numbers that a peer makes for itself and that are those of uopd (tests/perf/models/weights.h)."""

import numpy as np


def numbers(shape, seed, low, high):
    """Numbers in [low, high) from a hash of `seed` and of their positions."""
    x = np.arange(int(np.prod(shape)), dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed * 40503 % 2**32)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(739982445)
    x = (x ^ (x >> np.uint32(12))) * np.uint32(695872825)
    x ^= x >> np.uint32(15)
    fraction = (x >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)
    return (np.float32(low) + fraction * np.float32(np.float32(high) - np.float32(low))).reshape(shape)


class Weights:
    """The weights of one model. The k-th array that is asked for has seed k + 1: both sides ask in the same order."""

    def __init__(self):
        self.count = 0

    def make(self, shape, low, high):
        self.count += 1
        return numbers(shape, self.count, low, high)

    def matrix(self, shape, fan):
        bound = np.sqrt(np.float32(3) / np.float32(fan))
        return self.make(shape, -bound, bound)

    def scale(self, n):
        return self.make((n,), 0.5, 1.5)

    def shift(self, n):
        return self.make((n,), -0.1, 0.1)
