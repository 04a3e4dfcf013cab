// SPDX-License-Identifier: MIT
// New programs all the time: random graphs whose results are all compared with the naive
// interpreter. A program that was compiled some time before a kill of the daemon is not compiled
// again after it.
#include <cmath>

#include "core/base/text.h"
#include "core/ir/io/wire.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/caller.h"
#include "tests/support/graph_generator.h"

namespace uopd::chaos::fresh {
namespace {

// Seconds until a kernel is on disk: a kernel that is younger may be lost when the daemon dies.
constexpr double kDurableAfter = 0.2;

// Where the interpreter has a NaN, every NaN is accepted.
bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

class Fresh {
 public:
  Fresh(World& world, int copy)
      : world_(world), random_(world.Random("fresh", copy)), caller_(world, Cat("fresh ", copy)) {}

  void Run() {
    while (caller_.Ready()) {
      if (caller_.generation() != generation_) {
        if (generation_ >= 0) Recall();
        generation_ = caller_.generation();
      }
      RunOne();
      if (!world_.Pause(0.05)) return;
    }
  }

 private:
  struct Prepared {
    std::string graph;
    double at = 0;
    int64_t generation = 0;
  };

  void RunOne() {
    ir::UOpContext ctx;
    const uint64_t seed = random_();
    const auto g = test::GenerateGraph(
        ctx, seed, {.ops = 4 + static_cast<int>(seed % 24), .symbolic = seed % 4 == 1});
    const auto want = test::TensorInterpreter(ctx).Run(g.sink, g.slots, g.variables);
    if (!want.ok()) return;
    const std::string graph = ir::Encode(ctx, g.sink);
    v1::PrepareResponse prepared;
    if (caller_.Prepare(graph, &prepared) != Caller::kOk) return;
    done_.push_back({graph, Now(), caller_.generation()});
    v1::ExecuteRequest request;
    request.set_session_id(caller_.session());
    request.set_digest(prepared.digest());
    std::vector<size_t> returned;  // slots, in the order of the returned data
    for (size_t slot = 0; slot < g.slots.size(); ++slot) {
      v1::Argument& argument = *request.add_arguments();
      const int at = static_cast<int>(slot);
      if (at >= prepared.signature().slots_size()) continue;
      const v1::SlotInfo& info = prepared.signature().slots(at);
      if (!info.read() && !info.written()) continue;
      argument.set_data(g.slots[slot].ToBytes());
      argument.set_return_data(true);
      returned.push_back(slot);
    }
    for (const v1::VariableInfo& variable : prepared.signature().variables()) {
      request.add_variables(g.variables.at(variable.name()));
    }
    v1::ExecuteResponse response;
    if (caller_.Execute(Cat("random graph ", seed), request, &response) != Caller::kOk) return;
    bool right = response.data_size() == static_cast<int>(returned.size());
    for (size_t i = 0; right && i < returned.size(); ++i) {
      const test::HostArray& expected = (*want)[returned[i]];
      const auto got = test::HostArray::FromBytes(expected.dtype, expected.dims,
                                                  response.data(static_cast<int>(i)))
                           .ToDoubles();
      const auto meant = expected.ToDoubles();
      for (const size_t at : g.visible[returned[i]]) right = right && Same(got[at], meant[at]);
    }
    caller_.Check(right, Cat("random graph of seed ", seed));
  }

  // After a kill: what had been compiled some time before is still in the cache.
  void Recall() {
    for (const Prepared& before : done_) {
      const double killed = world_.KilledAt(before.generation);
      if (before.at > killed - kDurableAfter || killed == 0) continue;
      v1::PrepareResponse again;
      if (caller_.Prepare(before.graph, &again) != Caller::kOk) return;
      world_.report().Count("programs_recalled");
      if (again.cache().kernels_compiled() > 0 && !world_.damaged_cache()) {
        world_.report().Violation(
            "recompiled", Cat(again.cache().kernels_compiled(), " kernels of a program prepared ",
                              killed - before.at, " s before the kill"));
      }
    }
    done_.clear();
  }

  World& world_;
  std::mt19937_64 random_;
  Caller caller_;
  int64_t generation_ = -1;
  std::vector<Prepared> done_;  // compiled in this generation
};

const Register kRegister({.name = "fresh",
                          .doc = "random graphs, prepared and run once, against the interpreter",
                          .copies = 1,
                          .well_behaved = true,
                          .act = [](World& world, int copy) { Fresh(world, copy).Run(); }});

}  // namespace
}  // namespace uopd::chaos::fresh
