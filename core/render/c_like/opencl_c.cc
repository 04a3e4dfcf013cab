// SPDX-License-Identifier: MIT
#include "core/render/formats.h"

#include <cmath>

#include "core/render/c_like/block_writer.h"

namespace uopd::render {
namespace {

using ir::Dtype;
using ir::UOp;

// Contraction would make results depend on the compiler.
constexpr BlockWriter::Part kOpenClPrelude[] = {
    {"double", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"},
    {"",
     "#pragma OPENCL FP_CONTRACT OFF\n"
     "typedef char int8_t;\ntypedef uchar uint8_t;\ntypedef short int16_t;\ntypedef ushort "
     "uint16_t;\n"
     "typedef int int32_t;\ntypedef uint uint32_t;\ntypedef long int64_t;\ntypedef ulong "
     "uint64_t;\n"},
    BlockWriter::kSaturate,
    {"half_to_float(",
     "float half_to_float(ushort x) { return vload_half(0, (const half *)&x); }\n"},
    {"float_to_half(",
     "ushort float_to_half(float x) {\n"
     "  ushort out;\n"
     "  vstore_half_rte(x, 0, (half *)&out);\n"
     "  return out;\n"
     "}\n"},
    {"double_to_half(",
     "ushort double_to_half(double x) {\n"
     "  ushort out;\n"
     "  vstore_half_rte(x, 0, (half *)&out);\n"
     "  return out;\n"
     "}\n"}};

class OpenClWriter final : public BlockWriter {
 public:
  using BlockWriter::BlockWriter;

 protected:
  std::string_view language() const override { return "OpenCL C"; }
  bool half_is_bits() const override { return true; }
  std::string_view long_suffix() const override { return "l"; }
  std::string Math(std::string_view function, Dtype) const override {
    return std::string(function);
  }
  std::string Bitcast(Dtype to, Dtype, const std::string& x) const override {
    return Cat("as_", Builtin(to == Dtype::F16 ? Dtype::U16 : to), "(", x, ")");
  }
  std::string NotFinite(double value, Dtype) const override {
    return std::isnan(value) ? "NAN" : value < 0 ? "(-INFINITY)" : "INFINITY";
  }
  std::string FunctionHead() const override {
    return Cat("kernel ",
               threads() > 0 ? Cat("__attribute__((reqd_work_group_size(", threads(), ", 1, 1))) ")
                             : std::string(),
               "void ");
  }
  std::string_view global_space() const override { return "global "; }
  std::string_view shared_space() const override { return "local "; }
  std::string_view restrict_word() const override { return "restrict"; }
  // PoCL takes minutes to compile a hundred branches in a row, and vectorises across work items
  // only without any.
  bool loads_without_branches() const override { return true; }
  std::string BlockNumber(int64_t d) const override { return Cat("get_group_id(", d, ")"); }
  std::string ThreadNumber(int64_t d) const override { return Cat("get_local_id(", d, ")"); }
  std::string_view barrier() const override {
    return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);";
  }
  std::string SharedArrays(int64_t bytes) const override {
    return Cat("local uint8_t shared[", bytes, "] __attribute__((aligned(128)));");
  }
  std::string_view shared_word() const override { return "local int32_t stop_seen;"; }
  std::string Prelude(const std::string& body) override { return UsedParts(kOpenClPrelude, body); }
  std::string WideType(Dtype d, int64_t lanes) override {
    if (lanes != 2 && lanes != 4 && lanes != 8 && lanes != 16) return "";
    return Cat(d == Dtype::Bool ? "uchar" : Builtin(d), lanes);
  }
  std::string WideLane(const std::string& wide, int64_t lane) const override {
    return Cat(wide, ".s", std::string_view("0123456789abcdef").substr(lane, 1));
  }
  absl::StatusOr<std::string> Shuffled(UOp u, const std::string&, int64_t) override {
    return NoRendering(u);
  }
  absl::Status Mma(UOp u, const MatrixInstruction&) override { return NoRendering(u); }

 private:
  static std::string_view Builtin(Dtype d) {
    switch (d) {
      case Dtype::I8:
        return "char";
      case Dtype::U8:
        return "uchar";
      case Dtype::I16:
        return "short";
      case Dtype::U16:
      case Dtype::F16:
        return "ushort";
      case Dtype::I32:
        return "int";
      case Dtype::U32:
        return "uint";
      case Dtype::I64:
        return "long";
      case Dtype::U64:
        return "ulong";
      case Dtype::F64:
        return "double";
      default:
        return "float";
    }
  }
};

}  // namespace

absl::StatusOr<std::string> RenderOpenClC(const Request& request) {
  return OpenClWriter(request).Run();
}

}  // namespace uopd::render
