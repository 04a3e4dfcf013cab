// SPDX-License-Identifier: MIT
// Jit of the client library, in the steps that uopd/jit.py calls.
#include "uopd/jit.h"

#include <nanobind/stl/unique_ptr.h>

#include "native/client.h"
#include "native/tuning.h"

namespace uopd::python {
namespace {

using All = const std::vector<const Handle*>&;

struct JitHandle {
  client::Jit jit;
  uint64_t epoch = Epoch();

  explicit JitHandle(client::Client& client) : jit(client, nullptr) {}
  ~JitHandle() {
    if (epoch != Epoch()) {
      Abandon(jit);
      return;
    }
    Locked([&] { jit.Reset(); });
  }
  void CheckEpoch() const {
    if (epoch == Epoch()) return;
    throw StatusError{absl::FailedPreconditionError("the TinyJit belongs to the parent process")};
  }
};

}  // namespace

void BindJit(nb::module_& m) {
  nb::class_<JitHandle>(m, "Jit")
      .def("begin",
           [](JitHandle& j, All inputs) {
             j.CheckEpoch();
             internal::CheckOwn(inputs);
             auto arguments = LockedWithoutGil([&] { return j.jit.Begin(Tensors(inputs)); });
             Check(arguments.status());
             return internal::ToPython(*std::move(arguments));
           })
      .def("end",
           [](JitHandle& j, All outputs) {
             j.CheckEpoch();
             internal::CheckOwn(outputs);
             Check(LockedWithoutGil([&] { return j.jit.End(Tensors(outputs)); }));
           })
      .def("graphs",
           [](const JitHandle& j) {
             j.CheckEpoch();
             return Locked([&] {
               std::vector<TuneGraph> out;
               for (const client::RecordedGraph& g : j.jit.Graphs())
                 out.push_back({*g.graph, g.options});
               return out;
             });
           })
      .def("abandon",
           [](JitHandle& j) {
             if (j.epoch != Epoch())
               return;  // the recording is the parent's, which goes on with it
             Locked([&] { j.jit.Abandon(); });
           })
      .def("replay", [](JitHandle& j, All inputs, const std::vector<std::string>& names,
                        const std::vector<int64_t>& values) {
        j.CheckEpoch();
        internal::CheckOwn(inputs);
        std::vector<client::VariableValue> variables;
        for (size_t i = 0; i < names.size(); ++i) variables.emplace_back(names[i], values.at(i));
        WaitForRoom();
        Check(LockedWithoutGil([&] { return j.jit.Replay(Tensors(inputs), variables).status(); }));
      });
  m.def("jit", [](const ClientHandle& c) {
    auto& client = c.get();
    return Locked([&] { return std::make_unique<JitHandle>(client); });
  });
}

}  // namespace uopd::python
