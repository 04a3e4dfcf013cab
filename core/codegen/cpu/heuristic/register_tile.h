// SPDX-License-Identifier: MIT
// The register tile of a reduction: how many results are summed up at the same time.
//
// A model of one step of the innermost reduction: the multiply-adds, the loads, and the bytes that
// come from beyond the first-level cache each take cycles. The tile with the most useful
// multiply-adds per cycle wins; nothing is measured. A matrix that is read once comes from memory,
// at a rate that no tile changes. Then one row at a time is best: processors foresee one long row
// better than several. Threads share the tiles of one axis, so a tile whose number along no axis is
// a multiple of the threads leaves some of them idle.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/target/target.h"

namespace uopd::codegen {

// A load inside of the reduction. `strides`: by axis, the bytes between the addresses of two
// neighbouring iterations; 0 if not constant.
struct TileLoad {
  // The windows of a convolution whose reduction is unrolled whole: neighbouring copies along an
  // axis begin `slide` elements apart and read `size` elements each. Elements that several copies
  // read are loaded once.
  struct Window {
    size_t axis = 0;
    int64_t slide = 1, size = 1;  // slide < size
  };
  uint64_t along = 0;       // the axes that it depends on, a bit each
  double instructions = 1;  // to load one value; over 1 for lanes that are not contiguous
  double work = 0;          // vector instructions that take the elements out of the value
  double bytes = 4;         // of one value with all its lanes
  double steps = 1;         // steps of the reductions: different values of one copy
  double often = 1;         // loads for each step of the innermost reduction; below 1: around it
  std::vector<int64_t> strides;
  std::vector<Window> windows;
  // Contiguous bytes that the steps of the reduction read one after the other. If they are less
  // than a line of the cache, and the value is one for all lanes, the rest of the line comes in
  // vain.
  int64_t run_bytes = 64;
  double memory_bytes = 0;  // of one value, if it comes from memory: the kernel reads nothing twice
};

struct TileAxis {
  size_t axis = 0;
  int64_t size = 1;          // iterations left
  int64_t most = INT64_MAX;  // copies: no more of them can be packed
  bool pads = true;          // amounts that do not divide the size are allowed
  bool splits = true;        // threads may share the axis without reading pieces of rows
};

// What the model expects of a tile, in cycles of one step of the innermost reduction.
struct TilePrice {
  // These three overlap: the longest one counts. They are to begin multiply-adds and loads, to wait
  // for the sums of the step before, and to get bytes from memory.
  double issue = 0, latency = 0, memory = 0;
  double loop = 0, second_level = 0;  // in addition: the loop itself, and bytes from that cache
  double far = 1;                     // factor of vectors, or pieces of lines, on different pages
  double useful = 1;                  // part of the multiply-adds that are not padding
  double busy = 1;                    // part of the time for which all threads have tiles

  double Cycles() const;
  // "6 to issue + 0.5 for the loop, 99 % useful": the terms that count.
  std::string Text() const;
};

struct Tile {
  std::vector<std::pair<size_t, int64_t>> amounts;  // at most two axes; none has amount 1
  int64_t accumulators = 1;
  double rate = 0;  // useful multiply-adds of vectors that one thread begins in a cycle
  TilePrice price;
};

struct TileSums {
  // Results of innermost reductions that are alive together for each element of the tile.
  int64_t count = 1;
  bool joins = false;   // each result is the sum of the lanes of a vector
  int64_t ahead = 0;    // values of one load that are in registers at the same time, at least
  int64_t terms = 1;    // of each sum in one step; over 1: the reduction is unrolled whole
  int64_t threads = 1;  // that share the tiles of one axis
};

// Of at most two of the axes; between equals those that come first in `axes`. Numbers of results
// whose lanes are joined are powers of two: those join without waste. REQUIRES: loads is not empty.
// `maybe_next`, if not null, gets the best of the other tiles.
Tile ChooseRegisterTile(std::span<const TileAxis> axes, std::span<const TileLoad> loads,
                        const TileSums& sums, const Target& target, Tile* maybe_next = nullptr);

}  // namespace uopd::codegen
