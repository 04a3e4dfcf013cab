// SPDX-License-Identifier: MIT
// The requests for each program: uopd_program_requests_total and its siblings. A program is named
// by the first digits of its digest, as uopctl does.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "core/base/digest.h"
#include "server/engine/usage/outcome.h"
#include "server/engine/usage/request_parts.h"
#include "server/engine/usage/shown_uses.h"

namespace uopd::engine {

class ProgramUse {
 public:
  using Name = std::string;

  void Add(Outcome outcome, const RequestParts& parts);

  // For ShownUses.
  static Name Other(const Name&) { return "other"; }
  int64_t Publish(const Name& name);
  static void Show(const Name& name);
  static void Forget(const Name& name);

 private:
  std::array<std::atomic<uint64_t>, kOutcomeCount> requests_{};  // not published yet
  std::atomic<uint64_t> waits_{0};
  std::array<std::atomic<uint64_t>, kPartCount> ns_{};
};

using ProgramUsage = ShownUses<ProgramUse>;

std::string ProgramName(const Digest& digest);

}  // namespace uopd::engine
