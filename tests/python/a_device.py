# SPDX-License-Identifier: MIT
"""How much a test computes on the device that it runs on."""
from typing import TypeVar

from uopd import Device

T = TypeVar("T")


def of_device(usual: T, **others: T) -> T:
  """`usual`, or what is given for another kind of device. A kernel that is interpreted (INTERP) takes thousands of times as long as one that is
  compiled, and PoCL (CL) takes a quarter of a second of processor time to compile one, however small: a sort of 1,025 elements has 34."""
  return others.get(Device.DEFAULT.partition(":")[0], usual)
