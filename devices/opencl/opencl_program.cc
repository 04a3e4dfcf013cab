// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "devices/opencl/opencl_error.h"
#include "devices/opencl/opencl_target.h"

namespace uopd::devices::opencl {
namespace {

// OpenCL C allows a compiler to join a multiplication and an addition. No build option forbids it.
constexpr std::string_view kPrefix = "#pragma OPENCL FP_CONTRACT OFF\n#line 1\n";
constexpr size_t kMostLog = 4000, kShownLines = 20;

std::string FirstLines(std::string_view text) {
  size_t end = 0;
  for (size_t line = 0; line < kShownLines && end < text.size(); ++line) {
    end = std::min(text.find('\n', end), text.size() - 1) + 1;
  }
  return std::string(text.substr(0, std::min(end, kMostLog)));
}

}  // namespace

OpenClProgram::OpenClProgram(OpenClProgram&& other) noexcept
    : context_(std::move(other.context_)), program_(std::exchange(other.program_, nullptr)) {}

OpenClProgram::~OpenClProgram() {
  if (program_ != nullptr) context_->api().clReleaseProgram(program_);
}

absl::StatusOr<OpenClProgram> OpenClProgram::FromSource(std::shared_ptr<OpenClContext> context,
                                                        std::string_view source) {
  if (source.empty()) return absl::InternalError("The kernel's source is empty");
  const char* texts[] = {kPrefix.data(), source.data()};
  const size_t sizes[] = {kPrefix.size(), source.size()};
  ClInt code = kClSuccess;
  ClProgram* made =
      context->api().clCreateProgramWithSource(context->context(), 2, texts, sizes, &code);
  UOPD_TRY(context->Check("clCreateProgramWithSource", code));
  OpenClProgram program(context, made);
  if (absl::Status built = program.Build(BuildOptions(*context)); !built.ok()) {
    return absl::Status(
        built.code(), absl::StrCat(StatusText(built), "\nThe text begins:\n", FirstLines(source)));
  }
  return program;
}

absl::StatusOr<OpenClProgram> OpenClProgram::FromBinary(std::shared_ptr<OpenClContext> context,
                                                        std::string_view binary) {
  if (binary.empty()) return absl::InternalError("The kernel's object is empty");
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t size = binary.size();
  ClDevice* const device = context->device();
  ClInt of_binary = kClSuccess, code = kClSuccess;
  ClProgram* made = context->api().clCreateProgramWithBinary(context->context(), 1, &device, &size,
                                                             &bytes, &of_binary, &code);
  if (code == kClSuccess && of_binary != kClSuccess) {
    context->api().clReleaseProgram(made);
    code = of_binary;
  }
  UOPD_TRY(context->Check("clCreateProgramWithBinary", code));
  OpenClProgram program(context, made);
  UOPD_TRY(program.Build(BuildOptions(*context)));
  return program;
}

absl::Status OpenClProgram::Build(const std::string& options) const {
  ClDevice* const device = context_->device();
  const ClInt code =
      context_->api().clBuildProgram(program_, 1, &device, options.c_str(), nullptr, nullptr);
  absl::Status status = context_->Check("clBuildProgram", code);
  if (code != kClBuildProgramFailure) return status;
  return absl::InternalError(absl::StrCat("The OpenCL compiler of ", context_->Text(kClDeviceName),
                                          " refuses a kernel (", CodeName(code),
                                          "): ", BuildLog()));
}

std::string OpenClProgram::BuildLog() const {
  const OpenClApi& api = context_->api();
  size_t bytes = 0;
  if (api.clGetProgramBuildInfo(program_, context_->device(), kClProgramBuildLog, 0, nullptr,
                                &bytes) != kClSuccess) {
    return "it gives no reason";
  }
  std::string log(bytes, '\0');
  if (api.clGetProgramBuildInfo(program_, context_->device(), kClProgramBuildLog, bytes, log.data(),
                                nullptr) != kClSuccess) {
    return "it gives no reason";
  }
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  if (log.size() > kMostLog) log = log.substr(0, kMostLog) + "...";
  return log;
}

absl::StatusOr<std::string> OpenClProgram::Binary() const {
  const OpenClApi& api = context_->api();
  size_t bytes = 0;
  UOPD_TRY(context_->Check(
      "clGetProgramInfo",
      api.clGetProgramInfo(program_, kClProgramBinarySizes, sizeof bytes, &bytes, nullptr)));
  if (bytes == 0) return absl::InternalError("The OpenCL driver gives no binary of a program");
  std::string out(bytes, '\0');
  char* data = out.data();
  UOPD_TRY(context_->Check("clGetProgramInfo", api.clGetProgramInfo(program_, kClProgramBinaries,
                                                                    sizeof data, &data, nullptr)));
  return out;
}

}  // namespace uopd::devices::opencl
