// SPDX-License-Identifier: MIT
// The series of /metrics that the show counts over all daemons.
#pragma once

namespace uopd::cluster {

inline constexpr const char* kCompiled = "uopd_kernels_compiled_total";
inline constexpr const char* kUpgraded = "uopd_draft_upgrades_total{result=\"compiled\"}";
inline constexpr const char* kTuned = "uopd_tune_kernels_total{result=\"tuned\"}";
inline constexpr const char* kFailed = "uopd_tune_kernels_total{result=\"failed\"}";
inline constexpr const char* kMeasured = "uopd_tune_candidates_total{outcome=\"measured\"}";
inline constexpr const char* kArrived = "uopd_cluster_arrival_seconds_count";
inline constexpr const char* kArrivedSoon = "uopd_cluster_arrival_seconds_bucket{le=\"0.05\"}";
inline constexpr const char* kSummed[] = {kCompiled, kUpgraded, kTuned,      kFailed,
                                          kMeasured, kArrived,  kArrivedSoon};

}  // namespace uopd::cluster
