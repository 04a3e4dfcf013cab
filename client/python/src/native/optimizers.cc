// SPDX-License-Identifier: MIT
// Optimisers of the client library.
#include "native/client.h"

#include <nanobind/stl/unique_ptr.h>
#include "uopd/optim.h"

namespace uopd::python {
namespace {

using All = const std::vector<const Handle*>&;

struct OptimizerHandle {
  std::unique_ptr<client::Optimizer> optimizer;
  uint64_t epoch = Epoch();
  ~OptimizerHandle() {
    if (epoch != Epoch()) {
      Abandon(optimizer);
      return;
    }
    Locked([&] { optimizer.reset(); });
  }
};

}  // namespace

void BindOptimizers(nb::module_& m) {
  nb::class_<OptimizerHandle>(m, "Optimizer").def("step", [](OptimizerHandle& o) {
    if (o.epoch != Epoch()) {
      throw StatusError{
          absl::FailedPreconditionError("the optimiser belongs to the parent process")};
    }
    Check(LockedWithoutGil([&] { return o.optimizer->Step(); }));
  });
  m.def("sgd", [](const ClientHandle& c, All parameters, double lr, double momentum, double decay,
                  bool nesterov) {
    internal::CheckOwn(parameters);
    auto& client = c.get();
    auto handle = std::make_unique<OptimizerHandle>();
    handle->optimizer = Locked([&] {
      return client::Sgd(
          client, Tensors(parameters),
          {.lr = lr, .momentum = momentum, .weight_decay = decay, .nesterov = nesterov});
    });
    return handle;
  });
  m.def("adam", [](const ClientHandle& c, All parameters, double lr, double b1, double b2,
                   double eps, double decay) {
    internal::CheckOwn(parameters);
    auto& client = c.get();
    auto handle = std::make_unique<OptimizerHandle>();
    handle->optimizer = Locked([&] {
      return client::Adam(
          client, Tensors(parameters),
          {.lr = lr, .beta1 = b1, .beta2 = b2, .epsilon = eps, .weight_decay = decay});
    });
    return handle;
  });
}

}  // namespace uopd::python
