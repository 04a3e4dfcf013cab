# SPDX-License-Identifier: MIT
"""Tunes kernels of models with the search of the reference pipeline (BEAM of tinygrad), for `uopd-perf search-rate`.

Reads lines `MODEL KERNELS CANDIDATES`: a model of cold.py, how many of its kernels (those with most operations first), and
after how many measured candidates a search ends. Answers each with one line of JSON: the candidates that were compiled and
measured, and the seconds of all searches. Imports, and the start of the pool of compiling processes, are excluded.

Arguments: DEVICE PARALLEL, for instance `CPU:LLVM 2`.
"""

import json
import sys
import time

import cold  # reads the arguments, and sets what the reference reads when it is imported
from tinygrad import Context, Tensor
from tinygrad.codegen.opt import search
from tinygrad.engine.realize import compile_linear
from tinygrad.helpers import prod

WIDTH = 2
_beam_search, _time_program = search.beam_search, search._time_program


class EnoughCandidates(Exception):
    pass


def kernels_of(tensors):
    """The arguments of each search that compiling would begin, those with most operations first."""
    found = {}

    def keep(kernel, *args, **kwargs):
        found.setdefault(kernel.ast.key, (kernel.copy(), args, kwargs))
        return kernel

    search.beam_search = keep
    tensors = [t for t in tensors if not t.uop.is_virtual and not t.uop.has_buffer_identity()]
    linear, _ = Tensor.linear_with_vars(*tensors)
    with Context(BEAM=WIDTH):
        compile_linear(linear)
    search.beam_search = _beam_search
    return sorted(found.values(), key=lambda call: -prod(n for n in call[0].full_shape if isinstance(n, int)))


def tune(call, most):
    """Searches, and returns the number of measured candidates and the seconds."""
    measured = 0

    def count(*args, **kwargs):
        nonlocal measured
        times = _time_program(*args, **kwargs)
        measured += 1
        if measured >= most:
            raise EnoughCandidates
        return times

    search._time_program = count
    kernel, args, kwargs = call
    start = time.perf_counter()
    try:
        _beam_search(kernel, *args, **{**kwargs, "disable_cache": True})
    except EnoughCandidates:
        pass
    return measured, time.perf_counter() - start


def main():
    models = {"resnet50": cold.resnet50, "decode": cold.decode}
    for line in sys.stdin:
        name, kernels, most = line.split()
        calls = kernels_of(models[name]())[: int(kernels)]
        tune(calls[-1], 2)  # starts the pool
        results = [tune(call, int(most)) for call in calls]
        print(json.dumps({"candidates": sum(n for n, _ in results), "seconds": sum(s for _, s in results)}), flush=True)


if __name__ == "__main__":
    main()
