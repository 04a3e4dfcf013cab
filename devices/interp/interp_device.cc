// SPDX-License-Identifier: MIT
#include "devices/interp/interp_device.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/base/target/matrix_instructions.h"
#include "core/interp/interpreter.h"
#include "core/ir/io/linear_text.h"
#include "core/ir/verify/spec.h"
#include "devices/api/host/host_stream.h"

namespace uopd::devices::interp {

InterpShape NvidiaShape() { return {32, NvidiaMatrixInstructions(80), 48 << 10, true, true}; }

InterpShape HopperShape() {
  std::vector<MatrixInstruction> instructions = WarpgroupMatrixInstructions();
  std::ranges::reverse(
      instructions);  // those with few results in a lane: more blocks of small kernels
  for (MatrixInstruction& i : NvidiaMatrixInstructions(90)) instructions.push_back(std::move(i));
  return {32, std::move(instructions), 227 << 10, true, true, true};
}

InterpShape AmdShape() { return {64, AmdMatrixInstructions("gfx90a"), 64 << 10}; }

Target InterpTarget(const InterpShape& shape) {
  Target out;
  out.kind = "interp";
  out.arch = absl::StrCat("warp", shape.warp_lanes);
  out.toolchain = "interp-1";
  out.format = CodeFormat::kLinear;
  out.matrix_instructions = shape.matrix_instructions;
  for (const MatrixInstruction& i : shape.matrix_instructions) {
    if (i.a == DtypeNumber::TF32) out.dtypes.Add(DtypeNumber::TF32);
  }
  out.matrix_loads = shape.matrix_loads;
  out.async_copies = shape.async_copies;
  out.bulk_copies = shape.bulk_copies;
  out.blocks = true;
  out.shuffles = true;
  out.narrow_index = true;
  out.warp_lanes = shape.warp_lanes;
  out.units = 4;
  out.vector_bytes = 16;
  out.vector_lanes = 16;
  out.vector_registers = 255;
  std::fill_n(out.max_grid, 3, int64_t{std::numeric_limits<int32_t>::max()});
  std::fill_n(out.max_block, 3, int64_t{1024});
  out.max_block_threads = 1024;
  out.speeds = Speeds::OfGpu();
  out.shared_bytes = shape.shared_bytes;
  return out;
}

namespace {

absl::StatusOr<InterpCode> ParseCode(std::string_view source,
                                     std::span<const MatrixInstruction> matrix_instructions) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::LinearText text, ir::ParseLinear(ctx, source));
  UOPD_TRY(ir::Verify(ctx, text.linear, ir::Level::kLinear));
  UOPD_ASSIGN(uopd::interp::Program program,
              uopd::interp::Program::Make(ctx, text.linear, text.variables, matrix_instructions));
  return InterpCode{text.name, std::move(program)};
}

}  // namespace

absl::StatusOr<InterpCode> InterpCompiler::Parse(std::string_view source) const {
  auto code = ParseCode(source, matrix_instructions_);
  if (code.ok()) return code;
  constexpr size_t kShown = 400;
  return absl::InternalError(
      absl::StrCat("The interpreter does not take the kernel: ", StatusText(code.status()),
                   ". Its text begins: ", std::string(source.substr(0, kShown))));
}

absl::StatusOr<std::string> InterpCompiler::Compile(std::string_view source) const {
  UOPD_TRY(Parse(source).status());
  return std::string(source);
}

namespace {

class InterpExecutable final : public HostExecutable {
 public:
  InterpExecutable(std::shared_ptr<Device> device, const KernelCode& kernel_code, InterpCode code)
      : HostExecutable(std::move(device), kernel_code.entry, kernel_code.args),
        code_(std::move(code)),
        text_(kernel_code.bytes) {}

  absl::Status Run(const LaunchShape& shape, const Arguments& given,
                   const StopFlag& stop) override {
    uopd::interp::LaunchArguments launch;
    std::copy_n(shape.grid, 3, launch.grid);
    std::copy_n(shape.block, 3, launch.block);
    launch.warp_lanes = device().target().warp_lanes;
    absl::InlinedVector<std::span<std::byte>, 16> buffers;
    for (size_t i = 0; i < static_cast<size_t>(args().buffers); ++i)
      buffers.emplace_back(static_cast<std::byte*>(given.buffers[i]), given.bytes[i]);
    launch.buffers = buffers;
    // The kernel names the first ones of the variables.
    launch.variables = {given.vars, code_.program.variables()};
    launch.maybe_stop = stop.word();
    absl::Status status = uopd::interp::Run(code_.program, launch);
    if (status.ok()) return status;
    return WithFrame(std::move(status),
                     absl::StrCat("kernel ", entry(), " on ", device().info().name));
  }

  absl::StatusOr<std::string> Disassemble(size_t max_bytes) const override {
    if (text_.size() <= max_bytes) return text_;
    return text_.substr(0, max_bytes) + "\n; cut here\n";
  }

 private:
  const InterpCode code_;
  const std::string text_;
};

DeviceInfo MakeInterpInfo(const InterpOptions& options) {
  DeviceInfo info;
  info.name = absl::StrCat("INTERP:", options.index);
  info.max_buffer_bytes = info.total_bytes =
      static_cast<int64_t>(HostHeap::Completed(options.memory).limit_bytes);
  info.runs_inline = !options.background;
  return info;
}

}  // namespace

std::shared_ptr<InterpDevice> InterpDevice::Open(const InterpOptions& options) {
  return std::shared_ptr<InterpDevice>(new InterpDevice(options));
}

InterpDevice::InterpDevice(const InterpOptions& options)
    : Device(MakeInterpInfo(options), InterpTarget(options.shape)),
      heap_(options.memory),
      background_(options.background),
      compiler_(options.shape.matrix_instructions) {}

absl::StatusOr<std::shared_ptr<Buffer>> InterpDevice::Allocate(size_t bytes, MemoryKind kind) {
  return heap_.Allocate(shared_from_this(), bytes, kind);
}

absl::StatusOr<std::shared_ptr<Executable>> InterpDevice::Load(const KernelCode& kernel_code) {
  if (kernel_code.format != CodeFormat::kObject && kernel_code.format != CodeFormat::kLinear)
    return absl::UnimplementedError(absl::StrCat(info().name, " does not take code of format ",
                                                 static_cast<int>(kernel_code.format)));
  UOPD_ASSIGN(InterpCode code, compiler_.Parse(kernel_code.bytes));
  if (code.name != kernel_code.entry)
    return absl::InternalError(absl::StrCat("The code has the kernel \"", code.name,
                                            "\" and no entry \"", kernel_code.entry, "\""));
  if (code.program.variables() > static_cast<size_t>(kernel_code.args.vars))
    return absl::InternalError(absl::StrCat("Kernel ", code.name, " has ", code.program.variables(),
                                            " variables, and its launches pass ",
                                            kernel_code.args.vars));
  return std::make_shared<InterpExecutable>(shared_from_this(), kernel_code, std::move(code));
}

absl::StatusOr<std::unique_ptr<Stream>> InterpDevice::NewStream() {
  return std::make_unique<HostStream>(shared_from_this(), background_);
}

}  // namespace uopd::devices::interp
