// SPDX-License-Identifier: MIT
// Layers with a state: cells, which make one step, and LSTM and GRU over whole sequences.
//
// Weights start uniform within 1 / sqrt(hidden), biases with 0, as those of tinygrad's LSTMCell.
// Names of state_dict() are PyTorch's.
#pragma once
#include <vector>

#include "uopd/nn.h"

namespace uopd::client {

// The parameters of a cell with `gates` gates; weights are (gates hidden, in) and (gates hidden,
// hidden).
struct CellWeights {
  CellWeights(Client& client, int64_t gates, int64_t in, int64_t hidden, bool with_bias);
  std::vector<Tensor> parameters() const;
  // `suffix` stands behind each name.
  StateDict state_dict(std::string_view suffix = "") const;

  Tensor weight_x, weight_h;
  Tensor bias_x, bias_h;  // empty without them
};

// x is (n, in), the state (n, hidden) each; an empty state is zeros.
struct LstmCell : CellWeights {
  LstmCell(Client& client, int64_t in, int64_t hidden, bool with_bias = true)
      : CellWeights(client, 4, in, hidden, with_bias) {}
  fn::LstmState operator()(const Tensor& x, const fn::LstmState& state = {},
                           Site site = Site::current()) const;
};
struct GruCell : CellWeights {
  GruCell(Client& client, int64_t in, int64_t hidden, bool with_bias = true)
      : CellWeights(client, 3, in, hidden, with_bias) {}
  Tensor operator()(const Tensor& x, const Tensor& state = {}, Site site = Site::current()) const;
};

// Layers over sequences x (n, steps, in). Each layer reads what the one before gives. The steps are
// unrolled into one graph.
struct Lstm {
  Lstm(Client& client, int64_t in, int64_t hidden, int64_t layers = 1, bool with_bias = true);
  // The outputs of the last layer (n, steps, hidden), and the last state of each layer. `states`:
  // one for each layer, or none: zeros.
  struct Result {
    Tensor y;
    std::vector<fn::LstmState> states;
  };
  Result operator()(const Tensor& x, const std::vector<fn::LstmState>& states = {},
                    Site site = Site::current()) const;
  std::vector<Tensor> parameters() const;
  StateDict state_dict() const;

  std::vector<CellWeights> layers;
};
struct Gru {
  Gru(Client& client, int64_t in, int64_t hidden, int64_t layers = 1, bool with_bias = true);
  struct Result {
    Tensor y;
    std::vector<Tensor> states;
  };
  Result operator()(const Tensor& x, const std::vector<Tensor>& states = {},
                    Site site = Site::current()) const;
  std::vector<Tensor> parameters() const;
  StateDict state_dict() const;

  std::vector<CellWeights> layers;
};

}  // namespace uopd::client
