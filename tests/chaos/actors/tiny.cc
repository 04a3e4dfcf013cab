// SPDX-License-Identifier: MIT
// Prepared additions of 16 elements with inline data. They must stay quick whatever else happens.
#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/caller.h"
#include "tests/e2e/graphs.h"

namespace uopd::chaos::tiny {
namespace {

constexpr size_t kElements = 16;

void Act(World& world, int copy) {
  auto random = world.Random("tiny", copy);
  Caller caller(world, Cat("tiny ", copy));
  v1::ExecuteRequest request;
  bool fresh = false;
  while (caller.Ready(&fresh)) {
    if (fresh) {
      v1::PrepareResponse prepared;
      if (caller.Prepare(e2e::AddGraph(kElements), &prepared) != Caller::kOk) {
        caller.Close();
        continue;
      }
      request.set_digest(prepared.digest());
    }
    request.set_session_id(caller.session());
    std::vector<float> a(kElements), b(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      a[i] = static_cast<float>(random() % 1000), b[i] = static_cast<float>(random() % 1000);
    }
    request.clear_arguments();
    *request.add_arguments() = Returned();
    *request.add_arguments() = Data(e2e::Bytes(a));
    *request.add_arguments() = Data(e2e::Bytes(b));
    v1::ExecuteResponse response;
    const double start = Now();
    if (caller.Execute("tiny execute", request, &response) == Caller::kOk) {
      world.report().Sample("tiny_ms", (Now() - start) * 1e3);
      const std::vector<float> got =
          response.data_size() == 1 ? e2e::Floats(response.data(0)) : std::vector<float>();
      bool right = got.size() == kElements;
      for (size_t i = 0; right && i < kElements; ++i) right = got[i] == a[i] + b[i];
      caller.Check(right, "a sum");
    }
    if (!world.Pause(0.005)) return;
  }
}

const Register kRegister({.name = "tiny",
                          .doc = "prepared additions of 16 elements, 200 a second",
                          .copies = 2,
                          .well_behaved = true,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::tiny
