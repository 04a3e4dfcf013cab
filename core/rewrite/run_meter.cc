// SPDX-License-Identifier: MIT
#include "core/rewrite/run_meter.h"

#include <utility>

namespace uopd::rewrite {
namespace {
thread_local RunMeter* current = nullptr;
}  // namespace

RunMeter* RunMeter::MaybeCurrent() { return current; }
RunMeter::RunMeter(Finished maybe_finished)
    : finished_(std::move(maybe_finished)), outer_(std::exchange(current, this)) {}
RunMeter::~RunMeter() { current = outer_; }

}  // namespace uopd::rewrite
