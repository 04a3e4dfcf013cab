// SPDX-License-Identifier: MIT
// uopd._core: the client library for the Python sources of this package.
#include "native/binding.h"

NB_MODULE(_core, m) {
  using namespace uopd::python;  // NOLINT(google-build-using-namespace)
  BindErrors(m);
  BindClient(m);
  BindTensor(m);
  const Ops op(m);
  BindElementwise(op);
  BindMovement(op);
  BindReductions(op);
  BindNetwork(op);
  BindLosses(op);
  BindLinalg(op);
  BindNn(op);
  BindIndexing(op);
  BindCreation(op);
  BindOptimizers(m);
  BindFiles(m);
  BindGguf(m);
  BindOnnx(m);
  BindTuning(m);
  BindJit(m);
}
