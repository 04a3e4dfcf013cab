# SPDX-License-Identifier: MIT
"""Files of torch.save: zip files, and the two formats before them."""
from __future__ import annotations

import collections
import io
import math
import tarfile
import zipfile
from typing import Any, NamedTuple

from . import _core
from .base import wrap
from .deferred import later
from .disk import DiskTensor
from .dtype import DType, dtypes
from .runtime import client
from .tensor import Tensor
from .archives import beginning_of, from_path, tar_extract, zip_extract
from .pickle_reader import Call, PickleReader, Refused

_LEGACY_MAGIC, _LEGACY_PROTOCOL = 0x1950a86a20f9469cfc6c, 1001
_STORAGES = {"DoubleStorage": dtypes.float64, "FloatStorage": dtypes.float32, "HalfStorage": dtypes.float16, "BFloat16Storage": dtypes.bfloat16,
             "LongStorage": dtypes.int64, "IntStorage": dtypes.int32, "ShortStorage": dtypes.int16, "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8,
             "BoolStorage": dtypes.bool, "UntypedStorage": dtypes.uint8}
_DTYPES = {"float64": dtypes.float64, "double": dtypes.float64, "float32": dtypes.float32, "float": dtypes.float32, "float16": dtypes.float16,
           "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "int64": dtypes.int64, "long": dtypes.int64, "int32": dtypes.int32, "int": dtypes.int32,
           "int16": dtypes.int16, "short": dtypes.int16, "int8": dtypes.int8, "uint8": dtypes.uint8, "bool": dtypes.bool, "uint16": dtypes.uint16,
           "uint32": dtypes.uint32, "uint64": dtypes.uint64, "float8_e4m3fn": dtypes.fp8e4m3, "float8_e5m2": dtypes.fp8e5m2}


class _Kind(NamedTuple):
  """The class of a storage."""
  dtype: DType


class _Storage(NamedTuple):
  """A storage that a tensor lies in: its key, and the type of its elements."""
  key: str
  dtype: DType


class _Loader:
  """What the pickles of one file may make. `storages`: the bytes by key. The keys of storages that are wanted and whose bytes come later are noted."""
  def __init__(self, storages: dict[str, Tensor] | None) -> None:
    self.storages, self.wanted = storages, collections.OrderedDict[str, int]()
    names: dict[tuple[str, str], Any] = {("collections", "OrderedDict"): self._ordered, ("torch._utils", "_rebuild_tensor"): self._tensor,
             ("torch._utils", "_rebuild_tensor_v2"): self._tensor, ("torch._utils", "_rebuild_tensor_v3"): self._typed,
             ("torch._utils", "_rebuild_parameter"): self._parameter, ("torch._utils", "_rebuild_parameter_with_state"): self._parameter,
             ("torch._tensor", "_rebuild_from_type_v2"): self._of_type, ("torch", "Size"): self._size, ("torch.serialization", "_get_layout"): self._named,
             ("torch", "device"): self._named, ("torch", "Tensor"): self._no, ("torch.nn.parameter", "Parameter"): self._parameter,
             ("_codecs", "encode"): self._encode, ("builtins", "set"): self._set, ("__builtin__", "set"): self._set}
    self._names = {key: Call(".".join(key), f) for key, f in names.items()}

  def find(self, module: str, name: str) -> Any:
    """What a name of a pickle stands for."""
    if (module, name) in self._names: return self._names[module, name]
    if module in ("torch", "torch.cuda", "torch.storage") and name in _STORAGES: return _Kind(_STORAGES[name])
    if module == "torch" and name in _DTYPES: return _DTYPES[name]
    raise Refused(f"the file has a {module}.{name}: only tensors, numbers, texts and containers of these are read")
  def storage(self, persistent: Any) -> _Storage:
    """The storage of a persistent id: ("storage", class, key, place, elements, and in old files the part that a view has)."""
    if not isinstance(persistent, tuple) or len(persistent) not in (5, 6) or persistent[0] != "storage" or not isinstance(persistent[1], _Kind):
      raise Refused("the file has no storage where one belongs")
    kind, key, size = persistent[1], persistent[2], persistent[4]
    if not isinstance(key, str) or not isinstance(size, int) or not 0 <= size < 1 << 48: raise Refused("the file has a storage without a key or a size")
    if len(persistent) == 6 and persistent[5] is not None: raise Refused(f"storage {key} is a view of another one")
    nbytes = size * kind.dtype.itemsize
    if self.wanted.setdefault(key, nbytes) != nbytes: raise Refused(f"storage {key} has two sizes")
    return _Storage(key, kind.dtype)

  def _tensor(self, storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Any:
    if not isinstance(storage, _Storage): raise Refused("a tensor lies in no storage")
    return self._strided(storage.key, storage.dtype, offset, size, stride)
  def _typed(self, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, *_: Any) -> Any:
    if not isinstance(storage, _Storage) or not isinstance(dtype, DType): raise Refused("a tensor lies in no storage")
    return self._strided(storage.key, dtype, offset, size, stride)
  def _strided(self, key: str, dtype: DType, offset: Any, size: Any, stride: Any) -> Any:
    if not isinstance(size, tuple) or not isinstance(stride, tuple) or len(size) != len(stride) or len(size) > 16: raise Refused("a tensor has no shape")
    if not all(isinstance(v, int) and 0 <= v < 1 << 48 for v in (offset, *size, *stride)): raise Refused("a tensor has no shape")
    if self.storages is None: return None
    if key not in self.storages: raise Refused(f"storage {key} is missing")
    return strided(self.storages[key], dtype, offset, size, stride, key)
  @staticmethod
  def _parameter(data: Any = None, *_: Any) -> Any: return data
  def _of_type(self, f: Any, kind: Any, arguments: Any, *_: Any) -> Any:
    if not isinstance(f, Call) or not isinstance(kind, Call) or not isinstance(arguments, tuple): raise Refused("a tensor has an unknown class")
    return f.f(*arguments)
  @staticmethod
  def _ordered(pairs: Any = ()) -> Any:
    if not isinstance(pairs, (list, tuple)) or not all(isinstance(p, (list, tuple)) and len(p) == 2 and isinstance(p[0], (str, int)) for p in pairs):
      raise Refused("a state is made of no pairs")
    return collections.OrderedDict(pairs)
  @staticmethod
  def _set(items: Any = ()) -> Any:
    if not isinstance(items, (list, tuple)) or not all(isinstance(v, (str, int, float)) for v in items): raise Refused("a set is made of no numbers or texts")
    return set(items)
  @staticmethod
  def _size(sizes: Any = ()) -> Any:
    if not isinstance(sizes, (list, tuple)): raise Refused("a size is made of no numbers")
    return tuple(sizes)
  @staticmethod
  def _named(*parts: Any) -> Any: return ":".join(str(p) for p in parts if isinstance(p, (str, int)))
  @staticmethod
  def _encode(text: Any, coding: Any = "latin1", *_: Any) -> Any:
    if not isinstance(text, str) or coding not in ("latin1", "latin-1"): raise Refused("bytes are written in an unknown way")
    return text.encode("latin-1")
  @staticmethod
  def _no(*_: Any) -> Any: raise Refused("a tensor has no storage")


def strided(storage: Tensor, dtype: DType, offset: int, size: tuple[int, ...], stride: tuple[int, ...], name: str) -> Tensor:
  """A tensor of elements that lie at distances in the bytes of a storage. Distances of 0 repeat elements. ValueError if they leave the storage or meet."""
  held = storage.shape[0] // dtype.itemsize
  if math.prod(size) == 0: return Tensor.empty(*size, dtype=dtype)
  last = offset + sum((n - 1) * s for n, s in zip(size, stride))
  if last >= held: raise Refused(f"a tensor goes to element {last} of storage {name}, which has {held}")
  real = [i for i in range(len(size)) if size[i] > 1 and stride[i] > 0]
  contiguous = [math.prod(size[i + 1:]) for i in range(len(size))]
  part = storage[offset * dtype.itemsize:(last + 1) * dtype.itemsize]
  if all(n == 1 or s == c for n, s, c in zip(size, stride, contiguous)): return (part.bitcast(dtype) if dtype is not dtypes.bool or isinstance(part, DiskTensor) else part != 0).reshape(size)
  order, reach = sorted(real, key=lambda i: stride[i]), 1
  for i in order:
    if stride[i] < reach: raise Refused(f"elements of a tensor in storage {name} meet")
    reach = stride[i] * size[i]

  def gathered() -> Tensor:
    """The part once more without gaps and in order; then what is repeated."""
    import numpy as np
    bits = np.frombuffer(part._bytes(), f"u{dtype.itemsize}")
    shape = tuple(size[i] if i in real else 1 for i in range(len(size)))
    view = np.lib.stride_tricks.as_strided(bits, shape, tuple(s * dtype.itemsize for s in stride), writeable=False)
    flat = np.ascontiguousarray(view)
    h = _core.from_buffer(client(), (dtypes.uint8 if dtype is dtypes.bool else dtype).core, list(shape), flat.reshape(-1).view(np.uint8))
    return wrap(_core.expand(_core.ne(h, 0) if dtype is dtypes.bool else h, list(size)))
  return later(size, dtype, gathered)


def _whole(t: Tensor) -> io.BytesIO: return io.BytesIO(bytes(t._bytes()))


def _zip(t: Tensor) -> Any:
  files = zip_extract(t)
  pickles = [n for n in files if n.endswith("/data.pkl") and n.count("/") == 1]
  if len(pickles) != 1: raise ValueError("the file has no data.pkl: torch.save did not make it")
  base = pickles[0].removesuffix("data.pkl")
  if base + "byteorder" in files and bytes(files[base + "byteorder"]._bytes()) != b"little": raise ValueError("the numbers of the file are big-endian")
  storages = {n.removeprefix(base + "data/"): data for n, data in files.items() if n.startswith(base + "data/")}
  loader = _Loader(storages)
  return PickleReader(_whole(files[pickles[0]]), loader.find, loader.storage).load()


def _number(file: io.BytesIO, code: int = 8) -> int:
  data = file.read(code)
  if len(data) != code: raise Refused("the file ends too early")
  return int.from_bytes(data, "little", signed=True)


def _legacy(t: Tensor) -> Any:
  """Five pickles: a magic number, the version, the sizes of numbers, the object, the keys of the storages, which follow with their lengths."""
  limit = t.shape[0]
  file = beginning_of(t)  # the storages are at the end and are not read here
  loader = _Loader(None)
  def read() -> Any: return PickleReader(file, loader.find, loader.storage).load()
  if read() != _LEGACY_MAGIC or read() != _LEGACY_PROTOCOL: raise Refused("this is no file of torch.save")
  system = read()
  if isinstance(system, dict) and system.get("little_endian") is False: raise ValueError("the numbers of the file are big-endian")
  begin = file.tell()
  read()
  keys = read()
  if not isinstance(keys, list) or not all(isinstance(k, str) for k in keys): raise Refused("the file has no list of storages")
  at, storages = file.tell(), {}
  for key in keys:
    if key not in loader.wanted: raise Refused(f"nothing lies in storage {key}")
    end = at + 8 + loader.wanted[key]
    if end > limit: raise Refused(f"storage {key} goes to byte {end} of {limit}")
    storages[key], at = t[at + 8:end], end
  file.seek(begin)
  loader = _Loader(storages)
  return PickleReader(file, loader.find, loader.storage).load()


def _tar(t: Tensor) -> Any:
  """The first format: a tar file with the storages, the tensors by key and the object."""
  files = tar_extract(t)
  if not {"storages", "tensors", "pickle"} <= files.keys(): raise ValueError("the tar file has no storages, tensors and pickle: torch.save did not make it")
  loader, storages, kinds = _Loader({}), dict[str, Tensor](), dict[str, DType]()
  file = _whole(files["storages"])
  def read(f: io.BytesIO) -> Any: return PickleReader(f, loader.find, lambda _: _refuse_id()).load()
  for _ in range(_count(read(file))):
    entry, elements = read(file), _number(file)
    if not isinstance(entry, tuple) or len(entry) != 3 or not isinstance(entry[2], _Kind): raise Refused("a storage has no class")
    key, at, kind = str(entry[0]), file.tell(), entry[2].dtype
    end = at + elements * kind.itemsize
    if elements < 0 or end > files["storages"].shape[0]: raise Refused(f"storage {key} goes to byte {end} of {files['storages'].shape[0]}")
    storages[key], kinds[key] = files["storages"][at:end], kind
    file.seek(end)
  file, tensors = _whole(files["tensors"]), dict[str, Tensor]()
  for _ in range(_count(read(file))):
    entry, rank, _padding = read(file), _number(file, 4), _number(file, 4)
    if not isinstance(entry, tuple) or len(entry) != 3 or not 0 <= rank <= 16: raise Refused("a tensor has no storage")
    key = str(entry[1])
    if key not in storages: raise Refused(f"storage {key} is missing")
    size, stride, offset = tuple(_number(file) for _ in range(rank)), tuple(_number(file) for _ in range(rank)), _number(file)
    if not all(0 <= v < 1 << 48 for v in (offset, *size, *stride)): raise Refused("a tensor has no shape")
    tensors[str(entry[0])] = strided(storages[key], kinds[key], offset, size, stride, key)

  def of_key(key: Any) -> Tensor:
    if str(key) not in tensors: raise Refused("the file has no tensor of a key")
    return tensors[str(key)]
  return PickleReader(_whole(files["pickle"]), loader.find, of_key).load()


def _count(n: Any) -> int: return n if isinstance(n, int) and n >= 0 else _refuse_count()
def _refuse_count() -> Any: raise Refused("the file has no count where one belongs")
def _refuse_id() -> Any: raise Refused("the file has a storage where none belongs")


@from_path
def load(t: Tensor) -> Any:
  """What nn.state.torch_load gives."""
  if t.ndim != 1 or t.dtype is not dtypes.uint8: raise ValueError(f"a file as a tensor has uint8 and one axis; this is {t!r}")
  head = bytes(t[:262]._bytes())
  try:
    if head[:4] == b"PK\x03\x04": return _zip(t)
    return _tar(t) if head[257:262] == b"ustar" else _legacy(t)
  except (zipfile.BadZipFile, tarfile.ReadError) as e:
    raise ValueError(f"the file is broken: {e}") from None
