# SPDX-License-Identifier: MIT
"""Parameters of objects, by name."""
from __future__ import annotations

from typing import Any, Iterable

from ..tensor import Tensor


def get_state_dict(obj: Any, prefix: str = "") -> dict[str, Tensor]:
  """The tensors of an object, its attributes, lists and dictionaries, by dotted names.

  >>> from uopd import nn
  >>> sorted(get_state_dict([nn.Linear(2, 3)]))
  ['0.bias', '0.weight']
  """
  if isinstance(obj, Tensor): return {prefix.strip("."): obj}
  items: Iterable[tuple[Any, Any]]
  if isinstance(obj, dict): items = obj.items()
  elif isinstance(obj, tuple) and hasattr(obj, "_asdict"): items = obj._asdict().items()
  elif isinstance(obj, (list, tuple)): items = ((str(i), x) for i, x in enumerate(obj))
  elif hasattr(obj, "__dict__"): items = vars(obj).items()
  else: return {}
  found: dict[str, Tensor] = {}
  for name, x in items: found.update(get_state_dict(x, f"{prefix}{name}."))
  return found


def get_parameters(obj: Any) -> list[Tensor]: return list(get_state_dict(obj).values())


def load_state_dict(model: Any, state_dict: dict[str, Tensor], strict: bool = True, verbose: bool = True) -> None:
  """Assigns tensors to the parameters of their names. Not strict: parameters without a tensor keep their values."""
  own = get_state_dict(model)
  for name, parameter in own.items():
    if name not in state_dict:
      if strict: raise KeyError(f"the state has no {name!r}")
      continue
    new = state_dict[name]
    if new.shape != parameter.shape: raise ValueError(f"{name} has shape {parameter.shape}, and the state {new.shape}")
    parameter.assign(new.cast(parameter.dtype))
  if own: parameter.realize(*own.values())
