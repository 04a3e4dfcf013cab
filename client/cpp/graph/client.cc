// SPDX-License-Identifier: MIT
#include "uopd/client.h"

#include <cmath>

#include "client/cpp/graph/build.h"
#include "client/cpp/graph/random.h"
#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/analysis/sizes.h"
#include "core/ir/build.h"
#include "uopd/indexing.h"

namespace uopd::client {
namespace {

// The number of bytes of a tensor, or the reason why there cannot be such a tensor.
absl::StatusOr<uint64_t> SizeOf(Dtype dtype, const Dims& dims) {
  ir::Int128 n = 1;
  for (int64_t d : dims) {
    if (d < 0)
      return absl::InvalidArgumentError(Cat("a dimension of ", Text(dims), " is negative"));
    n *= d;
    if (n > ir::kMaxElements)
      return absl::InvalidArgumentError(Cat("shape ", Text(dims), " has more than 2^48 elements"));
  }
  if (dims.size() > ir::kMaxRank)
    return absl::InvalidArgumentError(Cat("rank (", dims.size(), ") is over ", ir::kMaxRank));
  if (ir::ByteSize(dtype) == 0 || dtype == Dtype::Index)
    return absl::InvalidArgumentError(Cat("tensors cannot hold ", ir::Name(dtype)));
  return static_cast<uint64_t>(n) * static_cast<uint64_t>(ir::ByteSize(dtype));
}

// INVALID_ARGUMENT if there is no such tensor, or the bytes are not those of one.
absl::Status CheckBytes(Dtype dtype, const Dims& dims, std::string_view bytes) {
  UOPD_ASSIGN(const uint64_t size, SizeOf(dtype, dims));
  if (size == bytes.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("shape ", Text(dims), " of ", ir::Name(dtype), " takes ",
                                        size, " bytes, not ", bytes.size()));
}

Tensor NewTensor(const std::shared_ptr<GraphState>& graph, ir::UOp u, std::string_view what,
                 Site site) {
  auto state = graph->NewTensor(u, graph->options().device);
  if (!state->error.ok()) state->error = Located(what, site, state->error);
  return Tensor(std::move(state));
}

}  // namespace

Client::Client(std::shared_ptr<Executor> executor, ClientOptions options)
    : graph_([&] {
        options.device = DeviceName(options.device);
        return std::make_shared<GraphState>(std::move(executor), std::move(options));
      }()) {}

Tensor Client::FromBytes(Dtype dtype, Dims dims, std::string_view bytes, Site site) {
  const absl::Status fits = CheckBytes(dtype, dims, bytes);
  if (!fits.ok()) return Poisoned(graph_, Located("FromBytes", site, fits));
  if (graph_->SendsAtOnce(bytes.size()))
    return Tensor(graph_->NewUpload(dtype, std::move(dims), graph_->options().device, bytes));
  return Tensor(
      graph_->NewInput(dtype, std::move(dims), graph_->options().device, std::string(bytes)));
}

absl::StatusOr<std::vector<Tensor>> Client::Constants(std::span<const HostBytes> contents,
                                                      std::string_view device, Site site) {
  std::string place = device.empty() ? graph_->options().device : DeviceName(device);
  if (place == graph_->executor().default_device()) place.clear();  // as of all other tensors
  for (const HostBytes& c : contents) {
    const absl::Status fits = CheckBytes(c.dtype, c.dims, c.bytes);
    if (!fits.ok()) return Located("Constants", site, fits);
  }
  // The daemon has no empty buffers. What is recorded keeps its contents here.
  std::vector<GraphState::Constant> sent;
  const bool sends = graph_->SendsConstants();
  for (const HostBytes& c : contents) {
    if (sends && !c.bytes.empty()) sent.push_back({c.dtype, c.dims, c.bytes});
  }
  UOPD_ASSIGN(const auto made, graph_->NewConstants(sent, place));
  std::vector<Tensor> out;
  size_t next = 0;
  for (const HostBytes& c : contents) {
    if (sends && !c.bytes.empty()) {
      out.push_back(Tensor(made[next++]));
    } else {
      out.push_back(Tensor(graph_->NewInput(c.dtype, c.dims, place, std::string(c.bytes))));
    }
  }
  return out;
}

Tensor Client::Empty(Dims dims, Dtype dtype, Site site) {
  const auto size = SizeOf(dtype, dims);
  if (!size.ok()) return Poisoned(graph_, Located("Empty", site, size.status()));
  if (*size == 0) return Full(std::move(dims), 0, dtype, site);
  return Tensor(graph_->NewZeros(dtype, dims, graph_->options().device, *size));
}

Tensor Client::Full(Dims dims, Operand value, Dtype dtype, Site site) {
  if (const auto size = SizeOf(dtype, dims); !size.ok())
    return Poisoned(graph_, Located("Full", site, size.status()));
  if (value.tensor() != nullptr) {
    return Poisoned(graph_,
                    Located("Full", site, absl::InvalidArgumentError("the value is a tensor")));
  }
  if (const absl::Status fits = CheckNumber(dtype, value); !fits.ok())
    return Poisoned(graph_, Located("Full", site, fits));
  ir::UOpContext& ctx = graph_->ctx();
  return NewTensor(graph_, ir::Expand(ctx, NumberOf(ctx, dtype, value), dims), "Full", site);
}

Tensor Client::Arange(int64_t begin, int64_t end, int64_t step, Dtype dtype, Site site) {
  if (step == 0)
    return Poisoned(graph_, Located("Arange", site, absl::InvalidArgumentError("the step is 0")));
  const ir::Int128 span = step > 0 ? ir::Int128{end} - begin : ir::Int128{begin} - end;
  const ir::Int128 stride = step > 0 ? ir::Int128{step} : -ir::Int128{step};
  const ir::Int128 n = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (n > ir::kMaxElements)
    return Poisoned(graph_, Located("Arange", site,
                                    absl::InvalidArgumentError("it has more than 2^48 elements")));
  // Positions are counted in i64. A narrow dtype only rounds the result.
  ir::UOpContext& ctx = graph_->ctx();
  const ir::UOp iota =
      ir::Iota(ctx, Dtype::I64, ir::ShapeArg(ctx, Dims{static_cast<int64_t>(n)}), 0);
  const ir::UOp scaled = step == 1 ? iota : ir::Mul(ctx, iota, ctx.Int(Dtype::I64, step));
  const ir::UOp moved = begin == 0 ? scaled : ir::Add(ctx, scaled, ctx.Int(Dtype::I64, begin));
  return NewTensor(graph_, ir::Cast(ctx, moved, dtype), "Arange", site);
}

Tensor Client::EmptyOf(std::span<const Size> sizes, Dtype dtype, Site site) {
  Tensor shape = FullOf(sizes, 0, dtype, site);
  if (!shape.status().ok()) return shape;
  if (!shape.is_symbolic()) return Empty(shape.dims(), dtype, site);
  const auto size = SizeOf(dtype, shape.dims());
  if (!size.ok()) return Poisoned(graph_, Located("Empty", site, size.status()));
  if (*size == 0) return shape;
  const Tensor box = Empty(shape.dims(), dtype, site);
  ir::UOpContext& ctx = graph_->ctx();
  const ir::UOp buffer =
      ctx.WithSources(Value(box), ir::SymbolicDims{ir::ShapeArg(ctx, ShapeOf(shape))});
  return NewTensor(graph_, buffer, "Empty", site);
}

Tensor Client::FullOf(std::span<const Size> sizes, Operand value, Dtype dtype, Site site) {
  if (value.tensor() == nullptr) {
    if (const absl::Status fits = CheckNumber(dtype, value); !fits.ok())
      return Poisoned(graph_, Located("Full", site, fits));
  }
  Tensor number = value.tensor() != nullptr ? value.tensor()->Cast(dtype, site)
                                            : Full(Dims(), value, dtype, site);
  if (!number.status().ok()) return number;
  if (number.rank() != 0)
    return Wrong(number, "Full", site, Cat("the value has shape ", Text(number.dims())));
  return fn::Expand(number, sizes, site);
}

Tensor Client::ArangeOf(Size begin, Size end, Size step, Dtype dtype, Site site) {
  const Tensor origin = Full(Dims(), 0, Dtype::I64, site);
  ir::UOpContext& ctx = graph_->ctx();
  ir::UOp v[3];
  for (const auto& [size, to] : {std::pair(begin, &v[0]), {end, &v[1]}, {step, &v[2]}}) {
    const auto index = IndexOf(origin, size);
    if (!index.ok()) return Poisoned(graph_, Located("Arange", site, index.status()));
    *to = *index;
  }
  if (v[0].Is(ir::Op::CONST) && v[1].Is(ir::Op::CONST) && v[2].Is(ir::Op::CONST))
    return Arange(v[0].const_int(), v[1].const_int(), v[2].const_int(), dtype, site);
  const bool up = IsNatural(ctx, DifferenceOf(ctx, v[2], ctx.Idx(1))),
             down = IsNatural(ctx, DifferenceOf(ctx, ctx.Idx(-1), v[2]));
  if (!up && !down)
    return Wrong(origin, "Arange", site,
                 Cat("the sign of the step ", ir::SizeText(v[2]), " is not known"));
  const ir::UOp stride = up ? v[2] : DifferenceOf(ctx, ctx.Idx(0), v[2]);
  ir::UOp n = up ? DifferenceOf(ctx, v[1], v[0]) : DifferenceOf(ctx, v[0], v[1]);
  if (!stride.IsConstInt(1)) {
    const ir::UOp more = SumOf(ctx, n, DifferenceOf(ctx, stride, ctx.Idx(1)));
    n = stride.Is(ir::Op::CONST) ? QuotientOf(ctx, more, stride.const_int())
                                 : ir::Alu(ctx, ir::Op::FLOORDIV, {more, stride});
  }
  n = LargerOf(ctx, n, ctx.Idx(0));
  const Tensor i = IotaOf(origin, n, Dtype::I64);
  return (i * SizeTensor(origin, v[2]) + SizeTensor(origin, v[0])).Cast(dtype, site);
}

Tensor Client::Eye(int64_t n, Dtype dtype, Site site) {
  const Tensor rows = Arange(0, n, 1, Dtype::I32, site);
  return (rows.Unsqueeze(-1, site) == rows).Cast(dtype, site);
}

Tensor Client::Variable(const std::string& name, int64_t min, int64_t max, int64_t value,
                        Site site) {
  ir::UOpContext& ctx = graph_->ctx();
  const ir::UOp bound =
      ctx.Make(ir::Op::BIND, Dtype::Index, {ir::Variable(ctx, name, min, max), ctx.Idx(value)}, {},
               ir::kBound);
  return NewTensor(graph_, ir::Cast(ctx, bound, Dtype::I64), "Variable", site);
}

Tensor Client::UnboundVariable(const std::string& name, int64_t min, int64_t max, Site site) {
  ir::UOpContext& ctx = graph_->ctx();
  return NewTensor(graph_, ir::Cast(ctx, ir::Variable(ctx, name, min, max), Dtype::I64),
                   "UnboundVariable", site);
}

Tensor Client::FloatVariable(const std::string& name, double value, Dtype dtype, Site site) {
  if (!ir::IsFloat(dtype)) {
    return Poisoned(graph_, Located("FloatVariable", site,
                                    absl::InvalidArgumentError(
                                        Cat("a variable of ", ir::Name(dtype), " is no float"))));
  }
  ir::UOpContext& ctx = graph_->ctx();
  const ir::UOp bound =
      ctx.Make(ir::Op::BIND, dtype, {ir::FloatVariable(ctx, name, dtype), ctx.Float(dtype, value)});
  return NewTensor(graph_, bound, "FloatVariable", site);
}

Tensor Client::Rand(Dims dims, Site site) {
  if (const auto size = SizeOf(Dtype::F32, dims); !size.ok())
    return Poisoned(graph_, Located("Rand", site, size.status()));
  return RandomUniform(graph_, dims, site);
}

Tensor Client::Uniform(Dims dims, double low, double high, Site site) {
  return Rand(std::move(dims), site) * (high - low) + low;
}

Tensor Client::Randn(Dims dims, Site site) {
  if (const auto size = SizeOf(Dtype::F32, dims); !size.ok())
    return Poisoned(graph_, Located("Randn", site, size.status()));
  return RandomNormal(graph_, dims, site);
}

Tensor Client::GlorotUniform(Dims dims, Site site) {
  if (dims.size() < 2)
    return Poisoned(graph_, Located("GlorotUniform", site,
                                    absl::InvalidArgumentError("weights have at least two axes")));
  const int64_t field = ir::Product(std::span(dims).subspan(2));
  const auto fans = static_cast<double>((dims[0] + dims[1]) * field);
  const double bound = std::sqrt(6.0 / std::max(1.0, fans));
  return Uniform(std::move(dims), -bound, bound, site);
}

Tensor Client::KaimingUniform(Dims dims, double a, Site site) {
  if (dims.size() < 2)
    return Poisoned(graph_, Located("KaimingUniform", site,
                                    absl::InvalidArgumentError("weights have at least two axes")));
  const auto fan = static_cast<double>(ir::Product(std::span(dims).subspan(1)));
  const double bound = std::sqrt(6.0 / ((1 + a * a) * std::max(1.0, fan)));
  return Uniform(std::move(dims), -bound, bound, site);
}

void Client::SetSeed(uint64_t seed) { graph_->SetSeed(seed); }

absl::Status Client::Sync() { return graph_->Sync(); }
void Client::Cancel() { graph_->Cancel(); }

Progress Client::progress(bool ask_daemon) const { return graph_->progress(ask_daemon); }
bool Client::WaitForRoom(absl::Duration time) const { return graph_->WaitForRoom(time); }

ExecutionOptions Client::execution() const { return graph_->execution(); }

const ClientStats& Client::stats() const {
  graph_->Poll();
  return graph_->stats();
}
Traffic Client::traffic() const { return graph_->executor().traffic(); }
size_t Client::graph_nodes() const { return graph_->ctx().size(); }
size_t Client::graph_bytes() const { return graph_->ctx().bytes_reserved(); }
std::map<std::string, uint64_t> Client::BufferBytes() { return graph_->BufferBytes(); }

}  // namespace uopd::client
