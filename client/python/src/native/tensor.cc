// SPDX-License-Identifier: MIT
// The handle of a tensor: properties, contents in and out, realising, gradients.
#include "native/client.h"

namespace uopd::python {
namespace {

Handle FromBuffer(const ClientHandle& client, int dtype, const Dims& dims, nb::handle object) {
  const Buffer buffer(object, false);
  auto& c = client.get();
  const Site site = CallerSite();
  // Long contents are sent at once, which may wait for others to be taken.
  constexpr size_t kLong = 4 << 20;
  Handle result{Tensor()};
  const auto make = [&] {
    const client::SiteScope scope(site);
    result.tensor() = c.FromBytes(static_cast<Dtype>(dtype), dims,
                                  {buffer.bytes().data(), buffer.bytes().size()}, site);
    return result.tensor().status();
  };
  if (buffer.bytes().size() < kLong)
    Check(LockedWithoutGil(make));
  else
    WaitFor(make);
  return result;
}

void ReadInto(const Handle& x, nb::handle out) {
  x.CheckEpoch();
  const Buffer buffer(out, true);
  WaitForRoom();
  Wait(LockedWithoutGil([&] { return x.tensor().ReadInto(buffer.bytes()); }));
}

void Submit(const std::vector<const Handle*>& all) {
  internal::CheckOwn(all);
  WaitForRoom();
  Check(LockedWithoutGil([&] {
    const std::vector<Tensor> tensors = Tensors(all);
    return client::Submit(tensors);
  }));
}

std::vector<Handle> Gradient(const Handle& loss, const std::vector<const Handle*>& targets) {
  internal::CheckOwn(targets);
  loss.CheckEpoch();
  const Site site = CallerSite();
  const client::SiteScope scope(site);
  auto result = Locked([&] {
    const std::vector<Tensor> tensors = Tensors(targets);
    return client::Gradient(loss.tensor(), tensors, site);
  });
  Check(result.status());
  return internal::ToPython(*std::move(result));
}

}  // namespace

void BindTensor(nb::module_& m) {
  nb::class_<Handle>(m, "Handle")
      .def_prop_ro("shape",
                   [](const Handle& x) {
                     const Dims& dims = x.tensor().dims();
                     nb::list out;
                     for (int64_t d : dims) out.append(d);
                     return nb::tuple(out);
                   })
      .def_prop_ro("dtype", [](const Handle& x) { return static_cast<int>(x.tensor().dtype()); })
      .def_prop_ro("devices",
                   [](const Handle& x) { return Locked([&] { return x.tensor().devices(); }); })
      .def_prop_ro("shard_axis", [](const Handle& x) { return x.tensor().shard_axis(); })
      .def_prop_ro("is_symbolic", [](const Handle& x) { return x.tensor().is_symbolic(); })
      .def_prop_ro("is_view",
                   [](const Handle& x) { return Locked([&] { return x.tensor().is_view(); }); })
      .def_prop_ro("is_realized",
                   [](const Handle& x) { return Locked([&] { return x.tensor().is_realized(); }); })
      .def_prop_ro("at_hand",
                   [](const Handle& x) {
                     x.CheckEpoch();
                     return Locked([&] { return x.tensor().at_hand(); });
                   })
      .def_prop_rw(
          "requires_grad", [](const Handle& x) { return x.tensor().grad_wish(); },
          [](Handle& x, bool on) {
            x.CheckEpoch();
            Check(Locked([&] { return x.tensor().RequireGrad(on).status(); }));
          })
      .def_prop_ro("grad",
                   [](const Handle& x) -> std::optional<Handle> {
                     x.CheckEpoch();
                     Tensor grad = Locked([&] { return x.tensor().grad(); });
                     if (grad.state() == nullptr) return std::nullopt;
                     return Handle(std::move(grad));
                   })
      .def("set_grad",
           [](Handle& x, const Handle& grad) {
             x.CheckEpoch();
             grad.CheckEpoch();
             const Site site = CallerSite();
             const client::SiteScope scope(site);
             Check(Locked([&] { return x.tensor().SetGrad(grad.tensor(), site); }));
           })
      .def("clear_grad",
           [](Handle& x) {
             x.CheckEpoch();
             Locked([&] { x.tensor().ClearGrad(); });
           })
      .def("same_as", [](const Handle& x, const Handle& y) {
        return x.tensor().state() == y.tensor().state();
      });

  m.def("from_buffer", &FromBuffer);
  m.def("read_into", &ReadInto);
  m.def("submit", &Submit);
  m.def("gradient", &Gradient);
  m.def("backward", [](const Handle& x) {
    x.CheckEpoch();
    const Site site = CallerSite();
    const client::SiteScope scope(site);
    Check(Locked([&] { return x.tensor().Backward(site); }));
  });
  m.def("assign", [](Handle& x, const Arg& value) {
    x.CheckEpoch();
    internal::CheckOwn(value);
    const Site site = CallerSite();
    const client::SiteScope scope(site);
    Check(Locked([&] { return x.tensor().TryAssign(value.At(site)); }));
  });
  m.def("snapshot", [](const Handle& x) {
    x.CheckEpoch();
    return Locked([&] { return Handle(x.tensor().Snapshot()); });
  });
  nb::dict dtypes;
  for (int d = 0; d < ir::kDtypeCount; ++d) {
    dtypes[nb::str(std::string(ir::Name(static_cast<Dtype>(d))).c_str())] = d;
  }
  m.attr("DTYPES") = dtypes;
}

}  // namespace uopd::python
