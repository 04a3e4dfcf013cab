// SPDX-License-Identifier: MIT
// Uploads buffers of some MiB and downloads them again.
#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/caller.h"

namespace uopd::chaos::transfer {
namespace {

void Act(World& world, int copy) {
  auto random = world.Random("transfer", copy);
  Caller caller(world, Cat("transfer ", copy));
  uint64_t handle = 0;
  while (caller.Ready()) {
    std::string data(random() % (3 << 20) + 1, '\0');
    for (size_t i = 0; i < data.size(); i += 64) data[i] = static_cast<char>(random());
    std::string back;
    ++handle;
    if (caller.Upload(handle, data) == Caller::kOk &&
        caller.Download(handle, &back) == Caller::kOk) {
      caller.Check(back == data, Cat("a buffer of ", data.size(), " bytes"));
      caller.Free({handle});
    }
    if (!world.Pause(0.1)) return;
  }
}

const Register kRegister({.name = "transfer",
                          .doc = "uploads and downloads of up to 3 MiB",
                          .copies = 1,
                          .well_behaved = true,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::transfer
