// SPDX-License-Identifier: MIT
// One compile per program, however many callers ask for it. The thread of the first caller works
// for all. The other callers wait without a thread.
//
// A flight continues while any caller waits for it. The first caller may leave early and gets its
// answer then. The work ends early only when the last caller has left. An error goes to those who
// wait at that time and is then forgotten.
//
// Thread-safe.
#pragma once
#include <functional>
#include <memory>
#include <string_view>

#include "cache/base/wait/flights.h"
#include "core/base/digest.h"
#include "server/engine/compile/program/preparation.h"

namespace uopd::engine {

class ProgramFlights {
 public:
  // Makes the program, for as long as `for_all` allows. It is called again if callers came after
  // all others had left and the work had stopped.
  using Fly = std::function<Preparation::Answer(RequestContext& for_all)>;

  // `caller` has been started; the flight finishes it. The thread of the first caller does the work
  // in this function. For other callers the function returns at once.
  void Join(const Digest& key, const std::shared_ptr<Preparation>& caller, const Fly& fly);

  // Callers that have not left.
  size_t waiting(const Digest& key) const { return static_cast<size_t>(flights_.wanted(key)); }

  // The flights that callers of a flow (Caller::flow) have joined, and their kernels.
  struct Progress {
    uint32_t programs = 0, kernels = 0, ready = 0;
  };
  Progress ProgressOf(std::string_view flow) const;

 private:
  struct Caller {
    std::shared_ptr<Preparation> preparation;
    int64_t joined_ns = 0;  // NowNs
    bool operator==(const Caller&) const = default;
  };
  // The progress is that of the work's present try: a try ends with all its threads, and the next
  // one begins at 0.
  using Table = cache::Flights<Caller, CompileProgress>;
  void Run(const Digest& key, const std::shared_ptr<Table::Flight>& flight,
           const RequestContext& first, const Fly& fly);

  Table flights_;
};

}  // namespace uopd::engine
