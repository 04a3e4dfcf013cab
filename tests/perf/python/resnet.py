# SPDX-License-Identifier: MIT
"""ResNet-50 of uopd.nn, for the time that Python takes to build its graph."""
from uopd import nn


class Bottleneck:
  def __init__(self, channels, width, stride):
    self.conv1, self.norm1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm(width)
    self.conv2, self.norm2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm(width)
    self.conv3, self.norm3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm(4 * width)
    self.shortcut = []
    if stride != 1 or channels != 4 * width:
      self.shortcut = [nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm(4 * width)]
  def __call__(self, x):
    y = self.norm1(self.conv1(x)).relu()
    y = self.norm2(self.conv2(y)).relu()
    return (self.norm3(self.conv3(y)) + x.sequential(self.shortcut)).relu()


class ResNet50:
  def __init__(self):
    self.stem, self.norm, self.blocks, channels = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm(64), [], 64
    for stage, count in enumerate((3, 4, 6, 3)):
      for i in range(count):
        self.blocks.append(Bottleneck(channels, 64 << stage, 2 if i == 0 and stage > 0 else 1))
        channels = 256 << stage
    self.head = nn.Linear(2048, 1000)
  def __call__(self, x):
    x = self.norm(self.stem(x)).relu().max_pool2d((3, 3), stride=2, padding=1)
    return self.head(x.sequential(self.blocks).mean((2, 3)))
