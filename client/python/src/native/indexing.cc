// SPDX-License-Identifier: MIT
// x[...] and functions that select by tensors of positions. Items come from Python as integers,
// None, Ellipsis, handles, and tuples (begin, end, step) for slices.
#include "uopd/indexing.h"
#include "native/binding.h"

namespace uopd::python {
namespace {

namespace fn = client::fn;
using H = const Handle&;

// Owns nothing: the tensors are those of the Python tuple, which outlives the call.
std::vector<fn::IndexItem> Items(const nb::tuple& items) {
  std::vector<fn::IndexItem> out;
  for (nb::handle o : items) {
    if (o.is_none()) {
      out.push_back(fn::IndexItem::None());
    } else if (o.is(nb::handle(Py_Ellipsis))) {
      out.push_back(fn::IndexItem::Ellipsis());
    } else if (nb::isinstance<nb::tuple>(o)) {
      using Bound = std::optional<int64_t>;
      const auto [begin, end, step] = nb::cast<std::tuple<Bound, Bound, Bound>>(o);
      out.emplace_back(client::Range{begin, end, step.value_or(1)});
    } else if (PyLong_Check(o.ptr())) {
      out.emplace_back(nb::cast<int64_t>(o));
    } else {
      const auto& h = nb::cast<const Handle&>(o);
      h.CheckEpoch();
      out.emplace_back(h.tensor());
    }
  }
  return out;
}

}  // namespace

void BindIndexing(Ops op) {
  // Items are read with the GIL, before the lock is taken.
  nb::module_& m = op.module();
  m.def("index", [](H x, const nb::tuple& python_items) {
    x.CheckEpoch();
    const auto items = Items(python_items);
    const Site site = CallerSite();
    const client::SiteScope scope(site);
    Tensor t = Locked([&] { return fn::Index(x.tensor(), items, site); });
    Check(Locked([&] { return internal::StatusOf(t); }));
    return Handle(std::move(t));
  });
  m.def("assign_index", [](Handle& x, const nb::tuple& python_items, const Arg& value) {
    x.CheckEpoch();
    internal::CheckOwn(value);
    const auto items = Items(python_items);
    const Site site = CallerSite();
    const client::SiteScope scope(site);
    Check(Locked([&] { return fn::AssignIndex(x.tensor(), items, value.At(site)); }));
  });
  m.def("assign_selected", [](Handle& x, int64_t axis, H positions, const Arg& value) {
    x.CheckEpoch();
    positions.CheckEpoch();
    internal::CheckOwn(value);
    const Site site = CallerSite();
    const client::SiteScope scope(site);
    Check(Locked(
        [&] { return fn::AssignSelected(x.tensor(), axis, positions.tensor(), value.At(site)); }));
  });
  m.def("assign_changed", [](Handle& x, H value, H written) {
    x.CheckEpoch();
    value.CheckEpoch();
    written.CheckEpoch();
    const Site site = CallerSite();
    const client::SiteScope scope(site);
    Check(Locked(
        [&] { return fn::AssignChanged(x.tensor(), value.tensor(), written.tensor(), site); }));
  });
  m.def("index_put", [](H x, const nb::tuple& python_items, const Arg& value, bool accumulate) {
    x.CheckEpoch();
    internal::CheckOwn(value);
    const auto items = Items(python_items);
    const Site site = CallerSite();
    const client::SiteScope scope(site);
    Tensor t = Locked([&] { return fn::IndexPut(x.tensor(), items, value.At(site), accumulate); });
    Check(Locked([&] { return internal::StatusOf(t); }));
    return Handle(std::move(t));
  });
  op("index_select",
     [](Site s, H x, int64_t axis, H i) { return x.tensor().IndexSelect(axis, i.tensor(), s); });
  op("join_axes", [](Site s, H x, Dims axes, const std::vector<const Handle*>& positions) {
    return fn::JoinAxes(x.tensor(), axes, Tensors(positions), s);
  });
  op("take", [](Site s, H x, H i) { return fn::Take(x.tensor(), i.tensor(), s); });
  op("gather",
     [](Site s, H x, int64_t axis, H i) { return x.tensor().Gather(axis, i.tensor(), s); });
  op("scatter", [](Site s, H x, int64_t axis, H i, const Arg& v) {
    return fn::Scatter(x.tensor(), axis, i.tensor(), v.At(s));
  });
  op("scatter_reduce", [](Site s, H x, int64_t axis, H i, H v, int mode, bool self) {
    return fn::ScatterReduce(x.tensor(), axis, i.tensor(), v.tensor(),
                             static_cast<fn::ScatterMode>(mode), self, s);
  });
  op("masked_select", [](Site s, H x, H m, int64_t size, double fill) {
    return fn::MaskedSelect(x.tensor(), m.tensor(), size, fill, s);
  });
  op("masked_put",
     [](Site s, H x, H m, H v) { return fn::MaskedPut(x.tensor(), m.tensor(), v.tensor(), s); });
  op("nonzero", [](Site s, H x, int64_t size, int64_t fill) {
    return fn::Nonzero(x.tensor(), size, fill, s);
  });
}

}  // namespace uopd::python
