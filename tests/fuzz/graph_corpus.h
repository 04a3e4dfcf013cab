// SPDX-License-Identifier: MIT
// Graphs that mutations start from: valid ones of all ops that clients use.
#pragma once
#include <string>
#include <vector>

#include "uopd/v1/graph.pb.h"

namespace uopd::fuzz {

struct CorpusOptions {
  int generated = 200;  // of tests/support/graph_generator.h
  int max_nodes = 400;  // larger ones are left out
};

std::vector<v1::Graph> Corpus(const CorpusOptions& options);

}  // namespace uopd::fuzz
