// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/heuristic/heuristic_steps.h"

namespace uopd::codegen {
namespace {

constexpr double kMostLines = 8000;  // estimated limit on the length of the kernel

}  // namespace

std::vector<Opt> Heuristic::Run() {
  ChooseVectors();
  if (reduces_ != 0) {
    if (!ChooseTensorCore()) {
      ChooseTile();
      ChooseStageUnroll();
      ChooseUnroll();
    }
  } else {
    ChooseElementwiseUpcast();
  }
  ChooseThreads();
  if (!ChooseBlocks()) ChoosePacks();
  ChooseMemoryOpts();
  ChooseParts();
  return plan_.opts();
}

bool Heuristic::TryCopies(const Opt& opt, int64_t copies) {
  const auto axis = static_cast<size_t>(opt.axis);
  grown_[axis] *= static_cast<double>(copies);
  if (Lines() <= kMostLines && Try(opt)) return true;
  grown_[axis] /= static_cast<double>(copies);
  return false;
}

double Heuristic::Lines() const {
  double all = 0;
  for (const auto& [along, lines] : lines_) {
    double copies = lines;
    for (size_t a = 0; a < axes_.size(); ++a) copies *= (along & Bit(a)) != 0 ? grown_[a] : 1;
    all += copies;
  }
  return all;
}

bool Heuristic::Upcast(size_t axis, int64_t amount) {
  if (amount == 1) return true;
  if (!TryCopies({OptKind::kUpcast, static_cast<int>(axis), amount}, amount)) return false;
  left_[axis] = Rounds(axis, amount);
  accumulators_ *= amount;
  copies_[axis] *= amount;
  return true;
}

bool Heuristic::HasLanes(const Access& a) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (lanes_[i] > 1 && a.strides[i] != 0) return true;
  }
  return false;
}

std::vector<MemoryAxis> Heuristic::MemoryAxes() const {
  std::vector<MemoryAxis> out;
  for (size_t a = 0; a < axes_.size(); ++a) {
    const int64_t tile =
        IsReduce(a) ? (sizes_[a] + left_[a] - 1) / left_[a] : lanes_[a] * copies_[a];
    out.push_back({axes_[a], sizes_[a], lanes_[a], tile, left_[a], fixed_[a], IsReduce(a)});
  }
  return out;
}

}  // namespace uopd::codegen
