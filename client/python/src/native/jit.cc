// SPDX-License-Identifier: MIT
// Jit of the client library, in the steps that uopd/jit.py calls.
#include "uopd/jit.h"

#include <nanobind/stl/unique_ptr.h>

#include <algorithm>

#include "native/client.h"
#include "native/tuning.h"

namespace uopd::python {
namespace {

using All = const std::vector<const Handle*>&;

struct JitHandle {
  client::Jit jit;
  uint64_t epoch = Epoch();

  explicit JitHandle(client::Client& client) : jit(client, nullptr) {}
  explicit JitHandle(client::Jit loaded) : jit(std::move(loaded)) {}
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

// The steps of a loop, as they come.
class StepsHandle {
 public:
  explicit StepsHandle(client::LoopSteps steps) : steps_(std::move(steps)) {}
  // The bytes of the outputs of the next step; None: there are no more.
  std::optional<std::vector<nb::bytes>> Next() {
    if (epoch_ != Epoch())
      throw StatusError{absl::FailedPreconditionError("the loop belongs to the parent process")};
    Wait(steps_.Coming());
    auto outputs = steps_.Next();
    Check(outputs.status());
    if (!*outputs) return std::nullopt;
    std::vector<nb::bytes> out;
    for (const std::string& bytes : **outputs) out.emplace_back(bytes.data(), bytes.size());
    return out;
  }

 private:
  client::LoopSteps steps_;
  uint64_t epoch_ = Epoch();
};

// The bytes of the recording, without the contents of the tensors `outside`.
nb::bytes Serialized(JitHandle& j, All outside) {
  j.CheckEpoch();
  internal::CheckOwn(outside);
  std::string bytes;
  WaitFor([&]() -> absl::Status {
    UOPD_ASSIGN(bytes, j.jit.Serialize(Tensors(outside)));
    return absl::OkStatus();
  });
  return nb::bytes(bytes.data(), bytes.size());
}

std::unique_ptr<JitHandle> Loaded(const ClientHandle& c, const nb::bytes& bytes, All outside) {
  internal::CheckOwn(outside);
  auto& client = c.get();
  std::unique_ptr<JitHandle> out;
  WaitFor([&]() -> absl::Status {
    UOPD_ASSIGN(client::Jit jit, client::Jit::Deserialize(client, {bytes.c_str(), bytes.size()},
                                                          nullptr, Tensors(outside)));
    out = std::make_unique<JitHandle>(std::move(jit));
    return absl::OkStatus();
  });
  return out;
}

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
      .def("state",
           [](const JitHandle& j) {
             j.CheckEpoch();
             return internal::ToPython(Locked([&] { return j.jit.State(); }));
           })
      .def("has_state",
           [](const JitHandle& j, const Handle& x) {
             if (j.epoch != Epoch()) return false;
             return Locked([&] {
               const std::vector<Tensor> state = j.jit.State();
               return std::ranges::any_of(
                   state, [&](const Tensor& t) { return t.state() == x.tensor().state(); });
             });
           })
      // None stands for an input.
      .def("outputs",
           [](const JitHandle& j) {
             j.CheckEpoch();
             std::vector<std::optional<Handle>> out;
             for (Tensor& t : Locked([&] { return j.jit.Outputs(); })) {
               if (t.state() == nullptr)
                 out.emplace_back();
               else
                 out.emplace_back(internal::ToPython(std::move(t)));
             }
             return out;
           })
      .def("serialize", &Serialized)
      .def("replay",
           [](JitHandle& j, All inputs, const std::vector<std::string>& names,
              const std::vector<int64_t>& values) {
             j.CheckEpoch();
             internal::CheckOwn(inputs);
             std::vector<client::VariableValue> variables;
             for (size_t i = 0; i < names.size(); ++i)
               variables.emplace_back(names[i], values.at(i));
             WaitForRoom();
             Check(LockedWithoutGil(
                 [&] { return j.jit.Replay(Tensors(inputs), variables).status(); }));
           })
      .def("repeat",
           [](JitHandle& j, All inputs, const std::vector<std::string>& names,
              const std::vector<int64_t>& values, uint32_t steps,
              const std::vector<std::string>& advanced, const std::vector<int64_t>& strides,
              std::optional<size_t> until, bool unless_over) {
             j.CheckEpoch();
             internal::CheckOwn(inputs);
             std::vector<client::VariableValue> variables;
             for (size_t i = 0; i < names.size(); ++i)
               variables.emplace_back(names[i], values.at(i));
             client::LoopTerms terms{.steps = steps, .until = until, .unless_over = unless_over};
             for (size_t i = 0; i < advanced.size(); ++i)
               terms.advance.emplace_back(advanced[i], strides.at(i));
             WaitForRoom();
             auto out =
                 LockedWithoutGil([&] { return j.jit.Repeat(Tensors(inputs), variables, terms); });
             Check(out.status());
             return StepsHandle(*std::move(out));
           });
  nb::class_<StepsHandle>(m, "LoopSteps").def("next", &StepsHandle::Next);
  m.def("jit", [](const ClientHandle& c) {
    auto& client = c.get();
    return Locked([&] { return std::make_unique<JitHandle>(client); });
  });
  m.def("load_jit", &Loaded);
}

}  // namespace uopd::python
