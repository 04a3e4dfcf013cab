// SPDX-License-Identifier: MIT
// Plant: a bad kernel that a compiler of candidates makes instead of a good one.
//
// A graph asks for it: it adds a constant that names a kind and a number (MarkerOf). The daemon
// under test (planted_daemon.cc) has workers that find the constant in the text of a candidate, and
// spoil one candidate of the kernel. All else is the daemon's own: the search, the pools of
// workers, the quarantine, the cluster.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace uopd::plants {

enum class Kind : uint8_t {
  kEndless,   // computes for ever
  kFault,     // reads where there is no memory
  kAbort,     // raises SIGABRT
  kWrong,     // computes something else
  kAllocate,  // takes memory until it gets none
  kSleeper,   // waits for ever, and uses no time of a processor
  kNone,      // no plant: a kernel that stays as it is
};
inline constexpr int kKinds = 6;  // that are planted
const char* Name(Kind kind);
// A part of the reason in quarantine.
const char* ReasonOf(Kind kind);

struct Plant {
  Kind kind = Kind::kNone;
  int number = 0;  // below 1,000,000
};
// The constant of a graph, and how an object names its plant.
int32_t MarkerOf(const Plant& plant);
std::optional<Plant> PlantOfText(std::string_view llvm_ir);
std::optional<Plant> PlantOfObject(std::string_view object);

// The text of a candidate (RenderLlvmIr) with the plant in it. nullopt: it is not such a text.
std::optional<std::string> Spoil(std::string_view llvm_ir, const Plant& plant);

// slot 0 = slot 1 * slot 2 + the marker, i32 of n elements.
std::string GraphOf(const Plant& plant, int64_t n);

}  // namespace uopd::plants
