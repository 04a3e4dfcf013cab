// SPDX-License-Identifier: MIT
// Models of ONNX files.
#include "uopd/onnx_model.h"

#include "native/client.h"

namespace uopd::python {
namespace {

using client::OnnxData;
using client::OnnxType;

// What Python holds of a model. Its tensors are destroyed under the lock, and not at all in the
// child of a fork().
class OnnxModelHandle {
 public:
  OnnxModelHandle(ClientHandle& client, const std::string& path) : box_(client.box) {
    client::Client& c = client.get();
    auto opened = LockedWithoutGil([&] { return client::OnnxRunner::Open(c, path); });
    Check(opened.status());
    runner_.emplace(*std::move(opened));
  }
  OnnxModelHandle(const OnnxModelHandle&) = delete;
  OnnxModelHandle& operator=(const OnnxModelHandle&) = delete;
  ~OnnxModelHandle() {
    if (box_->epoch != Epoch()) {
      Abandon(runner_);
      Abandon(box_);
    } else {
      Locked([&] {
        runner_.reset();
        return 0;
      });
    }
  }
  const client::OnnxModel& model() const { return runner_->model(); }
  void Run(const client::OnnxDataMap& inputs, client::OnnxDataMap& results) const {
    if (box_->epoch != Epoch())
      throw StatusError{absl::FailedPreconditionError("the model belongs to the parent process")};
    const Site site = CallerSite();
    WaitFor([&]() -> absl::Status {
      const client::SiteScope scope(site);
      UOPD_ASSIGN(results, runner_->Run(inputs));
      return absl::OkStatus();
    });
  }

 private:
  std::shared_ptr<Box> box_;  // the client outlives the model
  std::optional<client::OnnxRunner> runner_;
};

// Inputs and outputs, whose tensors are destroyed under the lock, also where something throws.
struct LockedData {
  client::OnnxDataMap map;

  LockedData() = default;
  LockedData(const LockedData&) = delete;
  LockedData& operator=(const LockedData&) = delete;
  ~LockedData() {
    Locked([&] {
      map.clear();
      return 0;
    });
  }
};

void TakeData(nb::handle value, OnnxData& out) {
  const auto one = [](nb::handle v) {
    const auto& h = nb::cast<const Handle&>(v);
    h.CheckEpoch();
    return Locked([&] { return h.tensor(); });
  };
  if (value.is_none()) return;
  if (nb::isinstance<nb::tuple>(value)) {  // strings: (shape, list of bytes)
    auto& strings = out.emplace<client::OnnxStrings>();
    strings.dims = nb::cast<Dims>(value[0]);
    for (const nb::handle v : nb::borrow<nb::list>(value[1])) {
      const auto bytes = nb::cast<nb::bytes>(v);
      strings.elements.emplace_back(bytes.c_str(), bytes.size());
    }
  } else if (nb::isinstance<nb::int_>(value)) {
    out = client::OnnxNumber{nb::cast<int64_t>(value)};
  } else if (nb::isinstance<nb::list>(value)) {
    auto& all = out.emplace<std::vector<Tensor>>();
    for (const nb::handle v : value) all.push_back(one(v));
  } else {
    out = one(value);
  }
}

nb::object ObjectOf(OnnxData data) {
  if (auto* t = std::get_if<Tensor>(&data)) return nb::cast(Handle(std::move(*t)));
  if (auto* all = std::get_if<std::vector<Tensor>>(&data))
    return nb::cast(internal::ToPython(std::move(*all)));
  if (auto* strings = std::get_if<client::OnnxStrings>(&data)) {
    nb::list all;
    for (const std::string& s : strings->elements) all.append(nb::bytes(s.data(), s.size()));
    return nb::make_tuple(
        nb::cast(std::vector<int64_t>(strings->dims.begin(), strings->dims.end())), all);
  }
  return nb::none();
}

nb::dict RunModel(const OnnxModelHandle& model, const nb::dict& inputs) {
  LockedData data, results;
  for (const auto& [name, value] : inputs) TakeData(value, data.map[nb::cast<std::string>(name)]);
  model.Run(data.map, results.map);
  nb::dict out;
  for (auto& [name, value] : results.map)
    out[nb::str(name.c_str(), name.size())] = ObjectOf(std::move(value));
  return out;
}

// (kind, name of the element type or None, core's number of its dtype or None, shape or None, inner
// type or None). Sizes are numbers, names, or None.
nb::object TypeObject(const OnnxType& type) {
  static constexpr const char* kKinds[] = {"unknown",  "tensor",   "sparse_tensor",
                                           "sequence", "optional", "map"};
  nb::object element = nb::none(), dtype = nb::none(), shape = nb::none(), inner = nb::none();
  if (type.element != nullptr) {
    element = nb::str(type.element->name.data(), type.element->name.size());
    if (const auto d = client::OnnxStorageDtype(*type.element))
      dtype = nb::int_(static_cast<int>(*d));
  }
  if (type.has_shape) {
    nb::list sizes;
    for (const client::OnnxDim& d : type.shape) {
      if (d.value)
        sizes.append(*d.value);
      else if (!d.param.empty())
        sizes.append(std::string(d.param));
      else
        sizes.append(nb::none());
    }
    shape = nb::tuple(sizes);
  }
  if (type.inner != nullptr) inner = TypeObject(*type.inner);
  return nb::make_tuple(kKinds[static_cast<int>(type.kind)], element, dtype, shape, inner);
}

nb::dict TypesOf(const std::vector<client::OnnxValue>& values,
                 const std::vector<std::string_view>& names) {
  nb::dict out;
  for (const std::string_view name : names)
    for (const client::OnnxValue& v : values)
      if (v.name == name) out[nb::str(name.data(), name.size())] = TypeObject(v.type);
  return out;
}

}  // namespace

void BindOnnx(nb::module_& m) {
  nb::class_<OnnxModelHandle>(m, "OnnxModel")
      .def(nb::init<ClientHandle&, const std::string&>())
      .def("inputs",
           [](const OnnxModelHandle& h) {
             return TypesOf(h.model().graph.inputs, h.model().graph.InputNames());
           })
      .def("outputs",
           [](const OnnxModelHandle& h) {
             return TypesOf(h.model().graph.outputs, h.model().graph.OutputNames());
           })
      .def("opsets",
           [](const OnnxModelHandle& h) {
             nb::dict out;
             for (const client::OnnxOpset& o : h.model().opsets)
               out[nb::str(o.domain.data(), o.domain.size())] = o.version;
             return out;
           })
      .def("run", &RunModel);
  // (domain, name, first operator set) of each op.
  m.def("onnx_ops", [] {
    nb::list out;
    for (const client::OnnxSupportedOp& op : client::OnnxSupportedOps())
      out.append(nb::make_tuple(std::string(op.domain), std::string(op.name), op.since));
    return out;
  });
}

}  // namespace uopd::python
