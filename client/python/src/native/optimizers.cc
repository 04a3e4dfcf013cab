// SPDX-License-Identifier: MIT
// Optimisers and learning-rate schedules of the client library.
#include "native/client.h"

#include <nanobind/stl/unique_ptr.h>

#include "uopd/lr_schedule.h"
#include "uopd/optim.h"

namespace uopd::python {
namespace {

using All = const std::vector<const Handle*>&;
using client::LrSchedule;

struct OptimizerHandle {
  std::shared_ptr<client::Optimizer> optimizer;
  uint64_t epoch = Epoch();
  ~OptimizerHandle() {
    if (epoch != Epoch()) {
      Abandon(optimizer);
      return;
    }
    Locked([&] { optimizer.reset(); });
  }
  client::Optimizer& get() const {
    if (epoch != Epoch()) {
      throw StatusError{
          absl::FailedPreconditionError("the optimiser belongs to the parent process")};
    }
    return *optimizer;
  }
};
using MadeOptimizer = std::unique_ptr<OptimizerHandle>;

// make(client, parameters) under the lock.
template <class F>
MadeOptimizer MakeOptimizer(const ClientHandle& c, All parameters, F make) {
  internal::CheckOwn(parameters);
  auto& client = c.get();
  auto handle = std::make_unique<OptimizerHandle>();
  handle->optimizer = Locked([&] { return make(client, Tensors(parameters)); });
  return handle;
}

MadeOptimizer MakeGroup(const std::vector<const OptimizerHandle*>& members) {
  std::vector<std::shared_ptr<client::Optimizer>> all;
  for (const OptimizerHandle* m : members) {
    m->get();
    all.push_back(m->optimizer);
  }
  auto handle = std::make_unique<OptimizerHandle>();
  handle->optimizer =
      Locked([&] { return std::make_shared<client::OptimizerGroup>(std::move(all)); });
  return handle;
}

}  // namespace

void BindOptimizers(nb::module_& m) {
  nb::class_<OptimizerHandle>(m, "Optimizer")
      .def("step",
           [](const OptimizerHandle& o, All also) {
             internal::CheckOwn(also);
             auto& optimizer = o.get();
             Check(LockedWithoutGil([&] {
               const std::vector<Tensor> more = Tensors(also);
               return optimizer.Step(more);
             }));
           })
      .def("update",
           [](const OptimizerHandle& o) {
             auto& optimizer = o.get();
             auto changed = Locked([&] { return optimizer.Update(); });
             Check(changed.status());
             return internal::ToPython(*std::move(changed));
           })
      .def("use_state",
           [](const OptimizerHandle& o, All state) {
             internal::CheckOwn(state);
             auto& optimizer = o.get();
             Check(Locked([&] { return optimizer.UseState(Tensors(state)); }));
           })
      .def("set_lr",
           [](const OptimizerHandle& o, double value) {
             auto& optimizer = o.get();
             Check(LockedWithoutGil([&] { return optimizer.SetLr(value); }));
           })
      .def_prop_ro("state", [](const OptimizerHandle& o) {
        auto& optimizer = o.get();
        return internal::ToPython(Locked([&] { return optimizer.state(); }));
      });
  m.def("lars", [](const ClientHandle& c, All p, double lr, double momentum, double decay,
                   int64_t steps, const std::vector<double>& coefficients, bool nesterov,
                   bool classic, bool decoupled, double trust) {
    return MakeOptimizer(c, p, [&](client::Client& client, std::vector<Tensor> parameters) {
      return client::Lars(client, std::move(parameters),
                          {.lr = lr,
                           .momentum = momentum,
                           .weight_decay = decay,
                           .nesterov = nesterov,
                           .classic = classic,
                           .trust = trust,
                           .orthogonal_steps = steps,
                           .coefficients = coefficients,
                           .decoupled_decay = decoupled});
    });
  });
  m.def("lamb", [](const ClientHandle& c, All p, double lr, double b1, double b2, double eps,
                   double decay, bool trust) {
    return MakeOptimizer(c, p, [&](client::Client& client, std::vector<Tensor> parameters) {
      return trust
                 ? client::Lamb(
                       client, std::move(parameters),
                       {.lr = lr, .beta1 = b1, .beta2 = b2, .epsilon = eps, .weight_decay = decay})
                 : client::Adam(
                       client, std::move(parameters),
                       {.lr = lr, .beta1 = b1, .beta2 = b2, .epsilon = eps, .weight_decay = decay});
    });
  });
  m.def("optimizer_group", &MakeGroup);

  nb::class_<LrSchedule>(m, "LrSchedule").def("__call__", [](const LrSchedule& f, int64_t step) {
    return f(step);
  });
  m.def("step_lr", &client::StepLr);
  m.def("exponential_lr", &client::ExponentialLr);
  m.def("cosine_lr", &client::CosineLr);
  m.def("warmup_cosine_lr", &client::WarmupCosineLr);
  m.def("one_cycle_lr", &client::OneCycleLr);
}

}  // namespace uopd::python
