// SPDX-License-Identifier: MIT
// Mutated graphs through every call that takes one.
#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/guest.h"
#include "tests/fuzz/graph_corpus.h"
#include "tests/fuzz/graph_mutator.h"

namespace uopd::chaos::mutants {
namespace {

constexpr double kDeadline = 1;

void Act(World& world, int copy) {
  auto random = world.Random("mutants", copy);
  fuzz::GraphMutator mutator(random());
  const auto corpus = fuzz::Corpus({.generated = 60});
  Guest guest(world, "mutants");
  while (guest.Await()) {
    const std::string graph =
        mutator.Mutate(corpus[mutator.Below(corpus.size())], corpus[mutator.Below(corpus.size())]);
    const int arguments = static_cast<int>(mutator.Below(6));
    switch (mutator.Below(5)) {
      case 0:
        guest.Prepare(graph, kDeadline);
        break;
      case 1:
        guest.Run(graph, arguments, kDeadline);
        break;
      case 2:
        guest.Execute(graph, arguments, kDeadline);
        break;
      case 3:
        guest.Explain(graph, kDeadline);
        break;
      default:
        guest.Pipeline(graph, arguments, kDeadline);
    }
    world.report().Count("mutants");
    if (mutator.Below(8) == 0) world.Pause(0.02);
  }
}

const Register kRegister({.name = "mutants",
                          .doc = "mutated graphs through Prepare, Run, Execute, Explain, Pipeline",
                          .copies = 1,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::mutants
