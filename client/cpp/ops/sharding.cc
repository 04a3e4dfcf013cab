// SPDX-License-Identifier: MIT
// Tensors on other devices, and on several.
#include "absl/strings/ascii.h"
#include "client/cpp/graph/build.h"
#include "core/ir/analysis/layout.h"
#include "uopd/devices.h"

namespace uopd::client {
namespace {

using ir::Op;
using ir::UOp;

UOp Copied(const Tensor& t, UOp x, std::string_view device) {
  return Ctx(t).Make(Op::COPY, t.dtype(), {x}, Ctx(t).Data({}, device));
}

// The tensor in pieces of these sizes along the axis, or, if it is -1, whole on each device.
Tensor Divided(const Tensor& t, const std::vector<std::string>& devices, int64_t axis, Dims sizes,
               std::string_view what, Site site) {
  std::vector<std::string> names;
  for (const std::string& d : devices) names.push_back(DeviceName(d));
  const ir::Layout to = {
      .devices = {names.begin(), names.end()}, .axis = axis, .sizes = std::move(sizes)};
  return Made(t, ir::Divided(Ctx(t), Value(t), to), what, site);
}

// The reason why these cannot be the devices of pieces; empty if they can.
std::string Refused(const std::vector<std::string>& devices) {
  if (devices.empty()) return "there are no devices";
  for (const std::string& d : devices) {
    if (d.empty()) return "the name of a device is empty";
  }
  return {};
}

bool InPieces(const Tensor& t) { return t.state()->graph->InPieces(Value(t)); }

}  // namespace

std::string DeviceName(std::string_view name) {
  const size_t colon = name.find(':');
  std::string out(name.substr(0, colon));
  absl::AsciiStrToUpper(&out);
  if (!out.empty()) out += colon == std::string_view::npos ? ":0" : name.substr(colon);
  return out;
}

absl::Status CheckDevices(const Tensor& t, Site site) {
  UOPD_TRY(t.status());
  const absl::Status status = t.state()->graph->CheckPlaces(Value(t));
  return status.ok() ? status : Located("Devices", site, status);
}

Tensor Tensor::Shard(const std::vector<std::string>& devices, int64_t axis, const Dims& sizes,
                     Site site) const {
  if (!status().ok()) return *this;
  auto wrong = [&](std::string message) { return Wrong(*this, "Shard", site, std::move(message)); };
  if (std::string refused = Refused(devices); !refused.empty()) return wrong(std::move(refused));
  const auto a = Axis(axis, rank());
  if (!a) return wrong(Cat("axis ", axis, " of shape ", Text(dims())));
  const auto at_axis = static_cast<size_t>(*a);
  const ir::Shape shape = ShapeOf(*this);
  if (!shape[at_axis].Is(Op::CONST)) return wrong(Cat("axis ", axis, " has a symbolic size"));
  const int64_t n = dims()[at_axis];
  const auto count = static_cast<int64_t>(devices.size());
  if (sizes.empty() && n < count)
    return wrong(Cat("axis ", axis, " of shape ", Text(dims()), " has no piece for each of ", count,
                     " devices"));
  const Dims lengths = sizes.empty() ? ir::EvenSizes(n, count) : sizes;
  int64_t sum = 0;
  bool fits = lengths.size() == devices.size();
  for (int64_t length : lengths) {
    fits &= length > 0 && length <= n;
    if (fits) sum += length;
  }
  if (!fits || sum != n)
    return wrong(Cat("sizes ", Text(lengths), " on ", count, " devices for axis ", axis,
                     " of shape ", Text(dims())));
  return Divided(*this, devices, *a, lengths, "Shard", site);
}

Tensor Tensor::Replicate(const std::vector<std::string>& devices, Site site) const {
  if (!status().ok()) return *this;
  if (std::string refused = Refused(devices); !refused.empty())
    return Wrong(*this, "Replicate", site, std::move(refused));
  return Divided(*this, devices, -1, {}, "Replicate", site);
}

Tensor Tensor::To(const std::string& name, Site site) const {
  if (!status().ok()) return *this;
  const std::string device = DeviceName(name);
  const bool here =
      device == state_->device ||
      (state_->device.empty() && device == state_->graph->executor().default_device());
  if (here && !InPieces(*this)) return Another(*this);
  if (device.empty()) return Wrong(*this, "To", site, "the name of the device is empty");
  Tensor out = Made(*this, Copied(*this, Value(*this), device), "To", site);
  if (out.status().ok()) out.state()->device = device;
  return out;
}

Tensor Tensor::ToLayoutOf(const Tensor& other, Site site) const {
  if (!status().ok() || !other.status().ok()) return status().ok() ? other : *this;
  if (!InPieces(other)) return other.device().empty() ? Another(*this) : To(other.device(), site);
  if (other.shard_axis() < 0) return Replicate(other.devices(), site);
  if (dims() != other.dims())
    return Wrong(*this, "ToLayoutOf", site,
                 Cat("shape ", Text(dims()), " differs from shape ", Text(other.dims())));
  return Shard(other.devices(), other.shard_axis(), other.shard_sizes(), site);
}

std::vector<std::string> Tensor::devices() const {
  if (!status().ok()) return {};
  if (!InPieces(*this)) return {device()};
  const auto& names = state_->graph->LayoutOf(state_->uop).devices;
  return {names.begin(), names.end()};
}

int64_t Tensor::shard_axis() const {
  return status().ok() ? state_->graph->LayoutOf(state_->uop).axis : -1;
}

Dims Tensor::shard_sizes() const {
  return status().ok() ? state_->graph->LayoutOf(state_->uop).sizes : Dims{};
}

}  // namespace uopd::client
