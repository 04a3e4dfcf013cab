// SPDX-License-Identifier: MIT
#include "core/render/formats.h"

#include <cmath>

#include "core/render/c_like/block_writer.h"

namespace uopd::render {
namespace {

using ir::Dtype;
using ir::UOp;

constexpr BlockWriter::Part kMetalPrelude[] = {{"",
                                                "#include <metal_stdlib>\nusing namespace metal;\n"
                                                "#pragma clang fp contract(off)\n"
                                                "typedef half _Float16;\n"},
                                               BlockWriter::kSaturate};

class MetalWriter final : public BlockWriter {
 public:
  using BlockWriter::BlockWriter;

 protected:
  std::string_view language() const override { return "Metal"; }
  std::string_view long_suffix() const override { return "l"; }
  std::string Math(std::string_view function, Dtype) const override {
    return Cat(function == "sqrt" ? "precise::" : "metal::", function);
  }
  std::string Bitcast(Dtype to, Dtype, const std::string& x) const override {
    return Cat("as_type<", Type(to), ">(", x, ")");
  }
  std::string NotFinite(double value, Dtype) const override {
    return std::isnan(value) ? "NAN" : value < 0 ? "(-INFINITY)" : "INFINITY";
  }
  std::string FunctionHead() const override {
    return Cat(threads() > 0 ? Cat("[[max_total_threads_per_threadgroup(", threads(), ")]]\n")
                             : std::string(),
               "kernel void ");
  }
  std::string_view global_space() const override { return "device "; }
  std::string_view shared_space() const override { return "threadgroup "; }
  std::string_view restrict_word() const override { return "__restrict"; }
  std::string BlockNumber(int64_t d) const override { return Cat("group_number.", "xyz"[d]); }
  std::string ThreadNumber(int64_t d) const override { return Cat("thread_number.", "xyz"[d]); }
  std::string_view barrier() const override {
    return "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);";
  }
  std::string SharedArrays(int64_t bytes) const override {
    return Cat("threadgroup alignas(16) uint8_t shared[", bytes, "];");
  }
  std::string_view shared_word() const override { return "threadgroup int32_t stop_seen;"; }
  std::string Prelude(const std::string& body) override { return UsedParts(kMetalPrelude, body); }
  std::string WideType(Dtype d, int64_t lanes) override {
    if (ir::ByteSize(d) != 4 || (lanes != 2 && lanes != 4)) return "";
    return Cat(d == Dtype::F32 ? "float" : d == Dtype::I32 ? "int" : "uint", lanes);
  }
  std::string WideLane(const std::string& wide, int64_t lane) const override {
    return Cat(wide, "[", lane, "]");
  }
  absl::StatusOr<std::string> Shuffled(UOp u, const std::string& x, int64_t mask) override {
    if (ir::ByteSize(u.dtype()) > 4) return NoRendering(u);
    return Cat("simd_shuffle_xor(", x, ", ", mask, ")");
  }
  absl::Status Mma(UOp u, const MatrixInstruction&) override { return NoRendering(u); }
  std::string ParameterSuffix(size_t number) const override {
    return Cat(" [[buffer(", number, ")]]");
  }
  std::string VariableParameter(size_t number) const override {
    return Cat("constant int64_t &var", number);
  }
  std::string_view extra_parameters() const override {
    return ",\n    uint3 group_number [[threadgroup_position_in_grid]],\n"
           "    uint3 thread_number [[thread_position_in_threadgroup]]";
  }
};

}  // namespace

absl::StatusOr<std::string> RenderMetal(const Request& request) {
  return MetalWriter(request).Run();
}

}  // namespace uopd::render
