# SPDX-License-Identifier: MIT
"""Where programs of tinygrad import Device from."""
from .runtime import Device as Device
