// SPDX-License-Identifier: MIT
// Functions that move elements, and those that place tensors on devices: one line each.
#include "uopd/movement.h"
#include "native/binding.h"
#include "uopd/indexing.h"

namespace uopd::python {
namespace {

namespace fn = client::fn;
using H = const Handle&;
using All = const std::vector<const Handle*>&;

std::vector<client::Size> SizesOf(const std::vector<Arg>& all) {
  std::vector<client::Size> out;
  for (const Arg& a : all) out.push_back(SizeOf(a));
  return out;
}

}  // namespace

void BindMovement(Ops op) {
  op("reshape", [](Site s, H x, Dims d) { return x.tensor().Reshape(d, s); });
  // Sizes are numbers or scalar tensors of variables.
  op("reshape_to", [](Site s, H x, const std::vector<Arg>& d) {
    const auto to = SizesOf(d);
    return fn::Reshape(x.tensor(), to, s);
  });
  op("expand_to", [](Site s, H x, const std::vector<Arg>& d) {
    const auto to = SizesOf(d);
    return fn::Expand(x.tensor(), to, s);
  });
  op("expand", [](Site s, H x, Dims d) { return x.tensor().Expand(d, s); });
  op("permute", [](Site s, H x, Dims d) { return x.tensor().Permute(d, s); });
  op("transpose", [](Site s, H x, int64_t a, int64_t b) { return x.tensor().Transpose(a, b, s); });
  op("flip", [](Site s, H x, Dims d) { return x.tensor().Flip(d, s); });
  op("shrink", [](Site s, H x, Dims begin, Dims end) { return x.tensor().Shrink(begin, end, s); });
  op("narrow", [](Site s, H x, int64_t axis, const Arg& begin, const Arg& length) {
    return x.tensor().Narrow(axis, SizeOf(begin), SizeOf(length), s);
  });
  op("pad", [](Site s, H x, Dims before, Dims after, int mode, double value) {
    return fn::Pad(x.tensor(), before, after, static_cast<fn::PadMode>(mode), value, s);
  });
  op("pad_to",
     [](Site s, H x, const std::vector<Arg>& before, const std::vector<Arg>& after, double value) {
       const auto low = SizesOf(before), high = SizesOf(after);
       return fn::Pad(x.tensor(), low, high, value, s);
     });
  op("slice",
     [](Site s, H x, int64_t axis, const std::vector<Arg>& begin, const std::vector<Arg>& end) {
       const auto of = [](const std::vector<Arg>& a) {
         return a.empty() ? std::nullopt : std::optional(SizeOf(a[0]));
       };
       return fn::Slice(x.tensor(), axis, of(begin), of(end), s);
     });
  op("slice_by", [](Site s, H x, int64_t axis, std::optional<int64_t> begin,
                    std::optional<int64_t> end, int64_t step) {
    std::vector<client::Range> ranges(static_cast<size_t>(axis) + 1);
    ranges.back() = {begin, end, step};
    return x.tensor().Slice(std::move(ranges), s);
  });
  op("select",
     [](Site s, H x, int64_t axis, int64_t at) { return x.tensor().Select(axis, at, s); });
  op("squeeze", [](Site s, H x, int64_t axis) { return x.tensor().Squeeze(axis, s); });
  op("unsqueeze", [](Site s, H x, int64_t axis) { return x.tensor().Unsqueeze(axis, s); });
  op("flatten",
     [](Site s, H x, int64_t a, int64_t b) { return fn::FlattenAxes(x.tensor(), a, b, s); });
  op("unflatten",
     [](Site s, H x, int64_t axis, Dims d) { return fn::Unflatten(x.tensor(), axis, d, s); });
  op("split", [](Site s, H x, int64_t axis, Dims d) { return x.tensor().Split(axis, d, s); });
  op("chunk", [](Site s, H x, int64_t axis, int64_t n) { return x.tensor().Chunk(axis, n, s); });
  op("tile", [](Site s, H x, Dims d) { return fn::Tile(x.tensor(), d, s); });
  op("repeat_interleave", [](Site s, H x, int64_t n, std::optional<int64_t> axis) {
    return fn::RepeatInterleave(x.tensor(), n, axis, s);
  });
  op("tril", [](Site s, H x, const Arg& d) { return x.tensor().Tril(SizeOf(d), s); });
  op("triu", [](Site s, H x, const Arg& d) { return x.tensor().Triu(SizeOf(d), s); });
  op("roll", [](Site s, H x, const std::vector<Arg>& shifts, Dims axes) {
    return fn::Roll(x.tensor(), SizesOf(shifts), axes, s);
  });
  op("diagonal", [](Site s, H x, int64_t offset, int64_t a, int64_t b) {
    return fn::Diagonal(x.tensor(), offset, a, b, s);
  });
  op("diag", [](Site s, H x) { return fn::Diag(x.tensor(), 0, s); });
  op("diag_embed",
     [](Site s, H x, int64_t offset) { return fn::DiagEmbed(x.tensor(), offset, s); });
  op("moveaxis",
     [](Site s, H x, Dims from, Dims to) { return fn::MoveAxis(x.tensor(), from, to, s); });
  op("rearrange", [](Site s, H x, std::string formula,
                     const std::vector<std::pair<std::string, int64_t>>& sizes) {
    return fn::Rearrange(x.tensor(), formula, sizes, s);
  });
  op("unfold", [](Site s, H x, int64_t axis, int64_t size, int64_t step) {
    return fn::Unfold(x.tensor(), axis, size, step, s);
  });
  op("meshgrid", [](Site s, All all, bool xy) { return fn::MeshGrid(Tensors(all), xy, s); });
  op("cat", [](Site s, All all, int64_t axis) { return client::Concat(Tensors(all), axis, s); });
  op("stack", [](Site s, All all, int64_t axis) { return client::Stack(Tensors(all), axis, s); });

  op("shard", [](Site s, H x, std::vector<std::string> d, int64_t axis) {
    return x.tensor().Shard(d, axis, {}, s);
  });
  op("replicate",
     [](Site s, H x, std::vector<std::string> d) { return x.tensor().Replicate(d, s); });
  op("to", [](Site s, H x, std::string device) { return x.tensor().To(device, s); });
  op("to_layout_of", [](Site s, H x, H y) { return x.tensor().ToLayoutOf(y.tensor(), s); });
}

}  // namespace uopd::python
