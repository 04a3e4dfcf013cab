// SPDX-License-Identifier: MIT
// What the searches of opts leave for later ones, in the cache: the times of the programs of each
// kernel (search/trial_book.h), and how times depend on programs on a kind of device
// (search/cost_model.h).
//
// Neither decides what a kernel computes, and a winner is confirmed against the heuristic's choice
// by new measurements. So what is lost or damaged costs a search time, and nothing else. Keys name
// the way of measuring and the device, but no version of the search or of the code generator: a
// changed search space does not start from nothing. With a cluster the rows are shared, so a search
// that ended with its daemon goes on in another one.
//
// Thread-safe. A model is what the search that ended last has learned: of two at the same time one
// is lost.
#pragma once
#include <string_view>

#include "cache/store.h"
#include "core/base/target/target.h"
#include "core/search/cost_model.h"
#include "core/search/trial_book.h"

namespace uopd::engine {

class SearchMemory {
 public:
  static constexpr char kBooks[] = "trials", kModels[] = "cost_model";  // stores

  // The store outlives this object.
  explicit SearchMemory(cache::Store& store) : store_(store) {}

  // `graph` is an Item::graph. An empty book, or a new model, if there is none.
  search::TrialBook Book(std::string_view graph, const Target& target) const;
  search::CostModel Model(const Target& target) const;
  void Keep(std::string_view graph, const Target& target, const search::TrialBook& book) const;
  void Keep(const Target& target, const search::CostModel& model) const;

 private:
  cache::Store& store_;
};

}  // namespace uopd::engine
