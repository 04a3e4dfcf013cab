# SPDX-License-Identifier: MIT
"""Steps of training in PyTorch, for `uopd-perf training`. Needs the distribution's python3-torch.

Reads commands from standard input, one a line, and answers each with one line of JSON, one number for each step:
    MODEL losses STEPS    the loss before each step
    MODEL times STEPS     milliseconds, after one step that is not counted
MODEL is train (ResNet-18, Adam, 8 images of 224 x 224) or mlp-adam. A model is made when it is first named; its numbers
are those of tests/perf/models/subjects.cc. Threads: as many as processors.
"""

import json
import os
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from weights import Weights


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first, self.first_norm = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.second, self.second_norm = convolution(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.second_norm(self.second(functional.relu(self.first_norm(self.first(x)))))
        return functional.relu(y + self.shortcut(x))


def convolution(inputs, outputs, kernel, stride):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


def resnet18():
    layers = [convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage in range(4):
        for i in range(2):
            outputs = 64 << stage
            layers.append(Block(inputs, outputs, 2 if stage > 0 and i == 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class Training:
    def __init__(self, model, images, classes):
        weights, before = Weights(), None
        with torch.no_grad():
            for p in model.parameters():
                shape = tuple(p.shape)
                if len(shape) > 1:
                    value = weights.matrix(shape, int(np.prod(shape[1:])))
                else:
                    value = weights.scale(shape[0]) if before == 4 else weights.shift(shape[0])
                p.copy_(torch.from_numpy(value))
                before = len(shape)
        self.images = torch.from_numpy(weights.make(images, -1, 1))
        self.labels = torch.tensor([i * 7 % classes for i in range(images[0])])
        self.model, self.adam = model.train(), torch.optim.Adam(model.parameters())

    def step(self):
        self.adam.zero_grad()
        loss = functional.cross_entropy(self.model(self.images), self.labels)
        loss.backward()
        self.adam.step()
        return loss.item()


def make(name):
    if name == "train":
        return Training(resnet18(), (8, 3, 224, 224), 1000)
    return Training(nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)), (128, 784), 10)


def main():
    torch.set_num_threads(os.cpu_count())
    made = {}
    for line in sys.stdin:
        name, what, steps = line.split()
        if name not in made:
            made[name] = make(name)
        step, answer = made[name].step, []
        if what == "times":
            step()
        for _ in range(int(steps)):
            start = time.perf_counter()
            loss = step()
            answer.append(loss if what == "losses" else 1e3 * (time.perf_counter() - start))
        print(json.dumps(answer), flush=True)


main()
