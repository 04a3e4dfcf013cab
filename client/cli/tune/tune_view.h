// SPDX-License-Identifier: MIT
// What a client knows about a tuning operation: the messages of WatchTune put together, and their
// texts.
//
// Bounded, whatever the daemon sends: kMaxKernels kernels with kMaxTunePoints points each
// (client/cpp/net/tune_points.h). Used by one thread.
#pragma once
#include <string>
#include <vector>

#include "uopd/v1/uopd.pb.h"

namespace uopd::cli {

class TuneView {
 public:
  static constexpr size_t kMaxKernels = 1 << 16;

  // Returns the kernels whose state or best candidate is another one now, by index.
  std::vector<size_t> Add(const v1::WatchTuneResponse& message);
  // Before the first message of another call.
  void Clear() { *this = {}; }

  const v1::Tune& tune() const { return tune_; }
  // With all points that are known; ones that nothing was said about yet have no name.
  const std::vector<v1::TunedKernel>& kernels() const { return kernels_; }

  // "[2/5] r_3_2_4 on CPU:0: 37 measured, 1 failed, best 12.3 us, heuristic 20.1 us (1.63x), tries
  // [UPCAST(0, 4)]".
  std::string Line(size_t kernel) const;
  // The same about the kernel that is being searched, or about the operation.
  std::string Progress() const;
  // A line for each kernel, below a head, and a line about all of them.
  std::string Table() const;

 private:
  v1::Tune tune_;
  std::vector<v1::TunedKernel> kernels_;
};

// "12.3 us"; "-" for what is not known.
std::string ShortTime(double seconds);
// The heuristic's time divided by the best one; 0: not known.
double Speedup(const v1::TunedKernel& kernel);

// A picture of the searches of a tuning operation, as SVG: the best time so far over the number of
// candidates, a line for each kernel, and a point for each candidate that is known. Times are on a
// logarithmic axis.
//
// The picture refers to nothing outside of itself. Of many kernels it has those that take most of
// the time.
inline constexpr size_t kMaxSvgKernels = 12;

std::string TuneSvg(const TuneView& view);

}  // namespace uopd::cli
