# SPDX-License-Identifier: MIT
"""Files as torch.save writes them, made without torch: its three formats, with names of its functions and classes."""
import io
import pickle
import struct
import sys
import tarfile
import types
import zipfile
from collections import OrderedDict
from contextlib import contextmanager

STORAGES = {"float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage", "int64": "LongStorage", "int32": "IntStorage",
            "int16": "ShortStorage", "int8": "CharStorage", "uint8": "ByteStorage", "bool": "BoolStorage"}


@contextmanager
def names_of_torch():
  """Modules with the names that pickles of torch have, for the pickler, which looks them up."""
  made = {n: types.ModuleType(n) for n in ("torch", "torch._utils", "torch.nn", "torch.nn.parameter", "torch._tensor", "torch.serialization")}
  def put(module, name, thing):
    thing.__module__, thing.__qualname__, thing.__name__ = module, name, name
    setattr(made[module], name, thing)
    return thing
  for name in [*STORAGES.values(), "Tensor", "UntypedStorage", "device", "Size"]: put("torch", name, type(name, (), {}))
  put("torch.nn.parameter", "Parameter", type("Parameter", (), {}))
  for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"): put("torch._utils", name, lambda *a: None)
  put("torch._tensor", "_rebuild_from_type_v2", lambda *a: None)
  before = {n: sys.modules.get(n) for n in made}
  sys.modules.update(made)
  try: yield made
  finally:
    for n, m in before.items():
      if m is None: del sys.modules[n]
      else: sys.modules[n] = m


class Storage:
  """Bytes that tensors lie in."""
  def __init__(self, key, dtype, contents): self.key, self.dtype, self.contents = key, dtype, bytes(contents)


class Stored:
  """A tensor of a storage."""
  def __init__(self, storage, size, stride, offset=0, parameter=False, rebuild="_rebuild_tensor_v2"):
    self.storage, self.size, self.stride, self.offset, self.parameter, self.rebuild = storage, size, stride, offset, parameter, rebuild


class _Pickler(pickle._Pickler):
  def __init__(self, file, modules, itemsize, protocol=2, legacy=False):
    super().__init__(file, protocol)
    self.modules, self.itemsize, self.legacy = modules, itemsize, legacy
  def persistent_id(self, obj):
    if not isinstance(obj, Storage): return None
    kind = getattr(self.modules["torch"], STORAGES[obj.dtype])
    pid = ("storage", kind, obj.key, "cpu", len(obj.contents) // self.itemsize[obj.dtype])
    return (*pid, None) if self.legacy else pid
  def reducer_override(self, obj): return NotImplemented
  def save(self, obj, save_persistent_id=True):
    if isinstance(obj, Stored):
      utils = self.modules["torch._utils"]
      arguments = (obj.storage, obj.offset, obj.size, obj.stride) + ((False, OrderedDict()) if obj.rebuild == "_rebuild_tensor_v2" else ())
      if not obj.parameter: return self.save_reduce(getattr(utils, obj.rebuild), arguments, obj=obj)
      plain = Stored(obj.storage, obj.size, obj.stride, obj.offset)
      return self.save_reduce(utils._rebuild_parameter, (plain, True, OrderedDict()), obj=obj)
    return super().save(obj, save_persistent_id)


def _pickled(obj, modules, itemsize, **options):
  out = io.BytesIO()
  _Pickler(out, modules, itemsize, **options).dump(obj)
  return out.getvalue()


def zip_file(obj, storages, itemsize, base="archive", compression=zipfile.ZIP_STORED):
  with names_of_torch() as modules: data = _pickled(obj, modules, itemsize)
  out = io.BytesIO()
  with zipfile.ZipFile(out, "w", compression) as z:
    z.writestr(f"{base}/data.pkl", data)
    z.writestr(f"{base}/byteorder", "little")
    for s in storages: z.writestr(f"{base}/data/{s.key}", s.contents)
    z.writestr(f"{base}/version", "3\n")
  return out.getvalue()


def legacy_file(obj, storages, itemsize):
  with names_of_torch() as modules: data = _pickled(obj, modules, itemsize, legacy=True)
  dump = lambda x: pickle.dumps(x, 2)  # noqa: E731
  out = dump(0x1950a86a20f9469cfc6c) + dump(1001) + dump({"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}) + data
  out += dump([s.key for s in storages])
  for s in storages: out += struct.pack("<q", len(s.contents) // itemsize[s.dtype]) + s.contents
  return out


def tar_file(state, storages, itemsize):
  """state: names and Stored tensors."""
  with names_of_torch() as modules:
    dump = lambda x: pickle.dumps(x, 2)  # noqa: E731
    kind = lambda s: getattr(modules["torch"], STORAGES[s.dtype])  # noqa: E731
    first = dump(len(storages)) + b"".join(dump((s.key, "cpu", kind(s))) + struct.pack("<q", len(s.contents) // itemsize[s.dtype]) + s.contents for s in storages)
    second, keys = dump(len(state)), {}
    for i, (name, t) in enumerate(state.items()):
      keys[name] = str(1000 + i)
      second += dump((keys[name], t.storage.key, modules["torch"].Tensor)) + struct.pack("<ii", len(t.size), 0)
      second += struct.pack(f"<{2 * len(t.size)}q", *t.size, *t.stride) + struct.pack("<q", t.offset)

    class Keyed:
      def __init__(self, key): self.key = key
    class P(pickle._Pickler):
      def persistent_id(self, obj): return obj.key if isinstance(obj, Keyed) else None
    third = io.BytesIO()
    P(third, 2).dump(OrderedDict((name, Keyed(key)) for name, key in keys.items()))
  out = io.BytesIO()
  with tarfile.open(fileobj=out, mode="w") as tar:
    for name, data in (("sys_info", dump({})), ("pickle", third.getvalue()), ("tensors", second), ("storages", first)):
      member = tarfile.TarInfo(name)
      member.size = len(data)
      tar.addfile(member, io.BytesIO(data))
  return out.getvalue()
