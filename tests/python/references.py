# SPDX-License-Identifier: MIT
"""What NumPy does not have, in plain loops over NumPy: convolution, pooling, resizing, attention, losses, scatter."""
import itertools
import math

import numpy as np


def erf(x): return np.vectorize(math.erf, otypes=[np.float64])(np.asarray(x, np.float64))


def sigmoid(x): return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
  e = np.exp(x - x.max(axis, keepdims=True))
  return e / e.sum(axis, keepdims=True)


def log_softmax(x, axis=-1): return np.log(softmax(x, axis))


def logsumexp(x, axis=None, keepdims=False): return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def conv(x, w, b=None, groups=1, stride=1, dilation=1, padding=0):
  n = w.ndim - 2
  stride, dilation = ([v] * n if isinstance(v, int) else list(v) for v in (stride, dilation))
  pads = [(padding, padding)] * n if isinstance(padding, int) else list(padding)
  x = np.pad(x, [(0, 0), (0, 0), *pads])
  out = [(x.shape[2 + a] - dilation[a] * (w.shape[2 + a] - 1) - 1) // stride[a] + 1 for a in range(n)]
  y = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
  per_in, per_out = w.shape[1], w.shape[0] // groups
  for g in range(groups):
    for k in itertools.product(*(range(s) for s in w.shape[2:])):
      window = x[(slice(None), slice(g * per_in, (g + 1) * per_in),
                  *(slice(k[a] * dilation[a], k[a] * dilation[a] + stride[a] * (out[a] - 1) + 1, stride[a]) for a in range(n)))]
      kernel = w[(slice(g * per_out, (g + 1) * per_out), slice(None), *k)]
      y[:, g * per_out:(g + 1) * per_out] += np.einsum("bi...,oi->bo...", window, kernel)
  return y if b is None else y + b.reshape(1, -1, *[1] * n)


def conv_transpose(x, w, b=None, groups=1, stride=1, dilation=1, padding=0, output_padding=0):
  n = w.ndim - 2
  stride, dilation, padding, extra = ([v] * n if isinstance(v, int) else list(v) for v in (stride, dilation, padding, output_padding))
  size = [(x.shape[2 + a] - 1) * stride[a] + dilation[a] * (w.shape[2 + a] - 1) + 1 + extra[a] for a in range(n)]
  y = np.zeros((x.shape[0], w.shape[1] * groups, *size), x.dtype)
  per_in, per_out = w.shape[0] // groups, w.shape[1]
  for g in range(groups):
    for k in itertools.product(*(range(s) for s in w.shape[2:])):
      kernel = w[(slice(g * per_in, (g + 1) * per_in), slice(None), *k)]
      part = np.einsum("bi...,io->bo...", x[:, g * per_in:(g + 1) * per_in], kernel)
      y[(slice(None), slice(g * per_out, (g + 1) * per_out),
         *(slice(k[a] * dilation[a], k[a] * dilation[a] + stride[a] * (x.shape[2 + a] - 1) + 1, stride[a]) for a in range(n)))] += part
  y = y[(slice(None), slice(None), *(slice(p, s - p) for p, s in zip(padding, size)))]
  return y if b is None else y + b.reshape(1, -1, *[1] * n)


def windows(x, kernel, stride, dilation, padding, fill, ceil):
  """For the last axes of x: the elements of each window, (..., out..., kernel...), with `fill` outside of x."""
  n = len(kernel)
  lead = x.shape[:x.ndim - n]
  sizes = []
  for a in range(n):
    before, after = padding[a]
    span, whole = dilation[a] * (kernel[a] - 1) + 1, x.shape[x.ndim - n + a] + before + after
    out = (whole - span) // stride[a] + 1
    if ceil and (whole - span) % stride[a] and out * stride[a] < before + x.shape[x.ndim - n + a]: out += 1
    sizes.append(out)
  y = np.full((*lead, *sizes, *kernel), fill, x.dtype)
  for o in itertools.product(*(range(s) for s in sizes)):
    for k in itertools.product(*(range(s) for s in kernel)):
      at = [o[a] * stride[a] + k[a] * dilation[a] - padding[a][0] for a in range(n)]
      if all(0 <= i < x.shape[x.ndim - n + a] for a, i in enumerate(at)): y[(..., *o, *k)] = x[(..., *at)]
  return y


def _each(v, n): return [v] * n if isinstance(v, int) else list(v)


def pool(x, kernel, how, stride=None, dilation=1, padding=0, ceil_mode=False, count_include_pad=True):
  n = len(kernel)
  pads = [(p, p) if isinstance(p, int) else p for p in _each(padding, n)]
  args = (kernel, list(kernel) if stride is None else _each(stride, n), _each(dilation, n), pads)
  axes = tuple(range(-n, 0))
  if how == "max": return windows(x, *args, -np.inf, ceil_mode).max(axes)
  ones = np.ones(x.shape[x.ndim - n:])
  inside = windows(np.pad(ones, pads, constant_values=1), kernel, args[1], args[2], [(0, 0)] * n, 0.0, ceil_mode) if count_include_pad \
      else windows(ones, *args, 0.0, ceil_mode)
  return windows(x, *args, 0.0, ceil_mode).sum(axes) / inside.sum(axes)


def max_pool_indices(x, kernel, **options):
  n = len(kernel)
  pads = [(p, p) for p in _each(options.pop("padding", 0), n)]
  stride = options.pop("stride", None)
  args = (kernel, list(kernel) if stride is None else _each(stride, n), [1] * n, pads)
  spatial = x.shape[x.ndim - n:]
  where = windows(np.broadcast_to(np.arange(np.prod(spatial)).reshape(spatial), x.shape).astype("int64"), *args, -1, False)
  w = windows(x, *args, -np.inf, False)
  flat, place = w.reshape(*w.shape[:-n], -1), where.reshape(*where.shape[:-n], -1)
  return np.take_along_axis(place, flat.argmax(-1)[..., None], -1)[..., 0]


def unpool(y, indices, size):
  lead, n = y.shape[:y.ndim - len(size)], len(size)
  out = np.zeros((*lead, int(np.prod(size))), y.dtype)
  np.put_along_axis(out, indices.reshape(*lead, -1).astype("int64"), y.reshape(*y.shape[:y.ndim - n], -1), -1)
  return out.reshape(*lead, *size)


def resize(x, size, mode, align=False):
  """Along the last axes, one after the other."""
  for a, m in enumerate(size):
    axis = x.ndim - len(size) + a
    n = x.shape[axis]
    i = np.arange(m)
    if mode == "nearest": x = np.take(x, (i * n) // m, axis)
    elif mode == "nearest-exact": x = np.take(x, np.floor((i + .5) * n / m).astype(int), axis)
    else:
      at = i * (n - 1) / (m - 1) if align and m > 1 else np.clip((i + .5) * n / m - .5, 0, n - 1) if not align else np.zeros(m)
      low = np.minimum(np.floor(at).astype(int), n - 1)
      high = np.minimum(low + 1, n - 1)
      t = (at - low).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
      x = np.take(x, low, axis) * (1 - t) + np.take(x, high, axis) * t
  return x


def attention(q, k, v, mask=None, causal=False):
  share = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
  if share > 1: k, v = np.repeat(k, share, -3), np.repeat(v, share, -3)
  s = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
  if causal: s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
  if mask is not None: s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
  return softmax(s) @ v


def layernorm(x, axis, eps=1e-5): return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)


def scatter_reduce(x, dim, index, src, how, include_self=True):
  out, seen = x.copy(), np.zeros(x.shape, int)
  lists = {}
  for i in np.ndindex(*index.shape):
    at = list(i)
    at[dim] = int(index[i])
    lists.setdefault(tuple(at), []).append(src[i])
  f = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[how]
  for at, values in lists.items():
    out[at] = f(np.array(([x[at]] if include_self else []) + values))
  del seen
  return out


def scatter(x, dim, index, src):
  out = x.copy()
  for i in np.ndindex(*index.shape):
    at = list(i)
    at[dim] = int(index[i])
    out[tuple(at)] = src[i]
  return out


def reduced(loss, reduction): return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()


def nll(x, y, weight=None, ignore=None, reduction="mean"):
  """x (n, classes, ...), y (n, ...)."""
  picked = -np.take_along_axis(x, np.expand_dims(np.clip(y, 0, x.shape[1] - 1), 1), 1)[:, 0]
  w = np.ones(y.shape) if weight is None else weight[np.clip(y, 0, x.shape[1] - 1)]
  if ignore is not None: w = np.where(y == ignore, 0, w)
  return picked * w if reduction == "none" else (picked * w).sum() / (w.sum() if reduction == "mean" else 1)


def bce(p, y): return -(y * np.maximum(np.log(p), -100) + (1 - y) * np.maximum(np.log(1 - p), -100))


def bce_logits(x, y, pos=1.0): return (1 - y) * x + (1 + (pos - 1) * y) * np.log1p(np.exp(-x))
