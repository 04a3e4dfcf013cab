// SPDX-License-Identifier: MIT
// Measures what cost models assume of a CPU (core/base/target/speeds.h).
//
// The figures are shown beside the assumed ones (`uopctl devices --verbose`). Code does not depend
// on them: an opt may change the order of a sum, and machines of the same model have to give the
// same bits whatever else ran while they were measured.
#pragma once
#include "core/base/target/target.h"
#include "devices/cpu/thread_pool.h"

namespace uopd::devices::cpu {

// Takes under 300 ms of all threads, and for that time 8 MB for each of them, at most `most_bytes`
// together. What cannot be measured is 0: products on a processor without multiply-adds of 32
// bytes, memory with less than 1 MB for each thread. Each value is the best of several runs. Other
// work on the machine makes the figures worse.
Speeds MeasureSpeeds(const Target& target, ThreadPool& threads, int64_t most_bytes);

}  // namespace uopd::devices::cpu
