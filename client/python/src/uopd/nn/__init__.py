# SPDX-License-Identifier: MIT
"""Layers, optimisers, states of models, data sets. Names, signatures and first values are tinygrad's where it has them."""
from . import datasets as datasets, lr_scheduler as lr_scheduler, optim as optim, state as state
from .attention import MultiHeadAttention as MultiHeadAttention
from .layers import (Conv1d as Conv1d, Conv2d as Conv2d, Conv3d as Conv3d, ConvTranspose1d as ConvTranspose1d,
                     ConvTranspose2d as ConvTranspose2d, ConvTranspose3d as ConvTranspose3d, Embedding as Embedding, Linear as Linear)
from .norms import (BatchNorm as BatchNorm, BatchNorm2d as BatchNorm2d, BatchNorm3d as BatchNorm3d, GroupNorm as GroupNorm,
                    InstanceNorm as InstanceNorm, LayerNorm as LayerNorm, LayerNorm2d as LayerNorm2d, RMSNorm as RMSNorm)
from .recurrent import GRU as GRU, GRUCell as GRUCell, LSTM as LSTM, LSTMCell as LSTMCell

# Their public place, for pickles and for what is made of the docstrings.
for _name in ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding", "BatchNorm",
              "GroupNorm", "InstanceNorm", "LayerNorm", "LayerNorm2d", "RMSNorm", "LSTMCell", "GRUCell", "LSTM", "GRU", "MultiHeadAttention"):
  globals()[_name].__module__ = __name__
