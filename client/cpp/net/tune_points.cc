// SPDX-License-Identifier: MIT
#include "client/cpp/net/tune_points.h"

#include <algorithm>
#include <limits>

namespace uopd::client {
namespace {

using Points = google::protobuf::RepeatedPtrField<v1::TunePoint>;

// Every second point goes, but not those that were the fastest when they came, nor the last one.
void Thin(Points& points) {
  Points kept;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < points.size(); ++i) {
    const bool is_best = points[i].seconds() < best;
    best = std::min(best, points[i].seconds());
    if (is_best || i % 2 == 0 || i + 1 == points.size()) *kept.Add() = points[i];
  }
  points.Swap(&kept);
}

}  // namespace

void UpdateKernel(v1::TunedKernel& known, const v1::TunedKernel& now) {
  Points points;
  if (now.search() == known.search()) points.Swap(known.mutable_points());
  points.MergeFrom(now.points());
  while (points.size() > static_cast<int>(kMaxTunePoints)) {
    const int before = points.size();
    Thin(points);
    if (points.size() == before) points.DeleteSubrange(0, before / 2);
  }
  known = now;
  known.mutable_points()->Swap(&points);
}

}  // namespace uopd::client
