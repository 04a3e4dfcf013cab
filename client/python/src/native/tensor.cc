// SPDX-License-Identifier: MIT
// The handle of a tensor: properties, contents in and out, realising, gradients.
#include <deque>

#include "client/cpp/graph/build.h"
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

// Tensors of constants (Client::Constants). Each constant is given as its dtype, its shape, and an
// object with its bytes.
std::vector<Handle> Constants(const ClientHandle& client, const std::string& device,
                              const std::vector<std::tuple<int, Dims, nb::object>>& constants) {
  std::deque<Buffer> buffers;  // which cannot be moved
  std::vector<client::Client::HostBytes> contents;
  for (const auto& [dtype, dims, object] : constants) {
    const auto bytes = buffers.emplace_back(object, false).bytes();
    contents.push_back({static_cast<Dtype>(dtype), dims, {bytes.data(), bytes.size()}});
  }
  auto& c = client.get();
  const Site site = CallerSite();
  std::vector<Tensor> made;
  WaitFor([&]() -> absl::Status {
    const client::SiteScope scope(site);
    UOPD_ASSIGN(made, c.Constants(contents, device, site));
    return absl::OkStatus();
  });
  std::vector<Handle> out;
  for (Tensor& t : made) out.push_back(Handle(std::move(t)));
  return out;
}

void ReadInto(const Handle& x, nb::handle out) {
  x.CheckEpoch();
  const Buffer buffer(out, true);
  WaitForRoom();
  Wait(LockedWithoutGil([&] { return x.tensor().ReadInto(buffer.bytes()); }));
}

// The contents of a tensor on their way from the daemon. What the daemon is asked for later does
// not change them.
class Reading {
 public:
  explicit Reading(const Handle& x) : epoch_(Epoch()) {
    x.CheckEpoch();
    WaitForRoom();
    future_ = LockedWithoutGil([&] {
      const Tensor& t = x.tensor();
      bytes_->resize(static_cast<size_t>(t.size() * ir::ByteSize(t.dtype())));
      return t.ReadInto({bytes_->data(), bytes_->size()});
    });
    // The memory must last until the contents are there, also if nobody waits for them.
    future_.Then([bytes = bytes_](const absl::Status&) {});
  }
  nb::bytes Contents() const {
    if (epoch_ != Epoch())
      throw StatusError{absl::FailedPreconditionError("the parent process reads the tensor")};
    Wait(future_);
    return nb::bytes(bytes_->data(), bytes_->size());
  }

 private:
  uint64_t epoch_;
  std::shared_ptr<std::string> bytes_ = std::make_shared<std::string>();
  client::Future future_;
};

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

// What makes a size of Python out of a tree: a number, ("var", name, min, max, value), or
// (operation, a, b).
nb::object& SizeMaker() {
  static auto* const maker = new nb::object;
  return *maker;
}

nb::object TreeOf(ir::UOp u) {
  using ir::Op;
  if (u.Is(Op::CONST)) return nb::int_(u.const_int());
  if (u.Is(Op::BIND) || u.Is(Op::DEFINE_VAR)) {
    const ir::UOp v = u.Is(Op::BIND) ? u.src(0) : u;
    nb::object value = nb::none();
    if (u.n_src() == 2) value = nb::int_(u.src(1).const_int());
    return nb::make_tuple("var", std::string(v.text()), v.ints()[0], v.ints()[1], value);
  }
  const char* const name = u.Is(Op::ADD)        ? "+"
                           : u.Is(Op::SUB)      ? "-"
                           : u.Is(Op::MUL)      ? "*"
                           : u.Is(Op::FLOORDIV) ? "//"
                           : u.Is(Op::FLOORMOD) ? "%"
                                                : "max";
  return nb::make_tuple(name, TreeOf(u.src(0)), TreeOf(u.src(1)));
}

nb::tuple ShapeOf(const Handle& x) {
  const Dims& dims = x.tensor().dims();
  nb::list out;
  if (!x.tensor().is_symbolic()) {
    for (int64_t d : dims) out.append(d);
    return nb::tuple(out);
  }
  for (const nb::object& tree : Locked([&] {
         std::vector<nb::object> trees;
         for (ir::UOp d : client::ShapeOf(x.tensor())) trees.push_back(TreeOf(d));
         return trees;
       }))
    out.append(SizeMaker()(tree));
  return nb::tuple(out);
}

}  // namespace

void BindTensor(nb::module_& m) {
  m.def("set_size_maker", [](nb::object maker) { SizeMaker() = std::move(maker); });
  nb::class_<Handle>(m, "Handle")
      .def_prop_ro("shape", [](const Handle& x) { return ShapeOf(x); })
      // The sizes with the values that variables have now.
      .def_prop_ro("sizes",
                   [](const Handle& x) {
                     nb::list out;
                     for (int64_t d : Locked([&] { return x.tensor().sizes(); })) out.append(d);
                     return nb::tuple(out);
                   })
      .def_prop_ro("max_shape",
                   [](const Handle& x) {
                     nb::list out;
                     for (int64_t d : x.tensor().dims()) out.append(d);
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
      // Equal for handles of one tensor, while it lives.
      .def_prop_ro(
          "key",
          [](const Handle& x) { return reinterpret_cast<uintptr_t>(x.tensor().state().get()); })
      .def("same_as", [](const Handle& x, const Handle& y) {
        return x.tensor().state() == y.tensor().state();
      });

  m.def("from_buffer", &FromBuffer);
  m.def("constants", &Constants);
  m.def("read_into", &ReadInto);
  nb::class_<Reading>(m, "Reading").def("contents", &Reading::Contents);
  m.def("begin_read", [](const Handle& x) { return Reading(x); });
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
