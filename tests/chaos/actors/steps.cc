// SPDX-License-Identifier: MIT
// A small training loop: every step updates a state in place, under a request id. Some steps are
// sent twice, as by a client that has lost an answer. The state must be as if each step had run
// once.
#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/caller.h"
#include "tests/chaos/graphs.h"
#include "tests/e2e/graphs.h"

namespace uopd::chaos::steps {
namespace {

constexpr int64_t kElements = 3000;
constexpr uint64_t kState = 1;

class Loop {
 public:
  Loop(World& world, int copy)
      : random_(world.Random("steps", copy)), caller_(world, Cat("steps ", copy)) {}

  void Run() {
    bool fresh = false;
    while (caller_.Ready(&fresh)) {
      if (fresh && !Begin()) {
        caller_.Close();
        continue;
      }
      if (!Step()) caller_.Close();
      if (steps_ % 16 == 0 && !CheckState()) caller_.Close();
      if (!caller_.world().Pause(0.02)) return;
    }
  }

 private:
  bool Begin() {
    state_ = e2e::Scattered(kElements, random_());
    graph_ = StepGraph(kElements, 0.5);
    v1::PrepareResponse prepared;
    if (caller_.Upload(kState, e2e::Bytes(state_)) != Caller::kOk ||
        caller_.Prepare(graph_, &prepared) != Caller::kOk) {
      return false;
    }
    digest_ = prepared.digest();
    return true;
  }

  bool Step() {
    const std::vector<float> input = e2e::Scattered(kElements, random_());
    v1::ExecuteRequest request;
    request.set_session_id(caller_.session());
    request.set_digest(digest_);
    request.set_request_id(++id_);
    *request.add_arguments() = Buffer(kState);
    *request.add_arguments() = Data(e2e::Bytes(input));
    for (int time = random_() % 8 == 0 ? 2 : 1; time > 0; --time) {
      v1::ExecuteResponse response;
      if (caller_.Execute("step", request, &response) != Caller::kOk) return false;
    }
    // The product is exact, so there is only one rounding, whether the kernel fuses or not.
    for (size_t i = 0; i < state_.size(); ++i) state_[i] = state_[i] * 0.5f + input[i];
    ++steps_;
    return true;
  }

  bool CheckState() {
    std::string bytes;
    if (caller_.Download(kState, &bytes) != Caller::kOk) return false;
    caller_.Check(bytes == e2e::Bytes(state_), Cat("the state after ", steps_, " steps"));
    return true;
  }

  std::mt19937_64 random_;
  Caller caller_;
  std::vector<float> state_;
  std::string graph_, digest_;
  uint64_t id_ = 0;
  int64_t steps_ = 0;
};

const Register kRegister({.name = "steps",
                          .doc = "in-place updates with request ids, some sent twice",
                          .copies = 1,
                          .well_behaved = true,
                          .act = [](World& world, int copy) { Loop(world, copy).Run(); }});

}  // namespace
}  // namespace uopd::chaos::steps
