// SPDX-License-Identifier: MIT
#include "tests/support/gpu/compilers.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "core/base/text.h"
#include "devices/cuda/ptxc_compiler.h"

namespace uopd::tests {
namespace {

std::string Contents(const std::string& path) {
  std::stringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(out).str();
}

// Runs a program on a text in a file, by the command that `command` makes of the names of the file
// and of one for the result.
absl::StatusOr<std::string> RunCommand(
    const std::string& program, const std::string& text,
    const std::function<std::string(const std::string& in, const std::string& out)>& command) {
  if (std::system(Cat("command -v ", program, " > /dev/null").c_str()) != 0)
    return absl::UnavailableError(Cat(program, " is not installed"));
  char folder[] = "/tmp/uopd_gpu_XXXXXX";
  if (mkdtemp(folder) == nullptr) return absl::InternalError("mkdtemp failed");
  const std::string base = folder, in = base + "/k.txt", out = base + "/k.s", log = base + "/log";
  std::ofstream(in) << text;
  const int rc =
      std::system(Cat("( ", program, " ", command(in, out), " ) > ", log, " 2>&1").c_str());
  const std::string result = Contents(out), messages = Contents(log);
  for (const std::string& f : {in, out, log}) std::remove(f.c_str());
  rmdir(folder);
  if (rc != 0) return absl::InternalError(Cat(program, " failed: ", messages, "\n", text));
  return result;
}

// The result is what the program writes to the file after -o.
absl::StatusOr<std::string> RunProgram(const std::string& program, const std::string& text,
                                       const std::string& flags) {
  return RunCommand(program, text, [&](const std::string& in, const std::string& out) {
    return Cat(flags, " -o ", out, " ", in);
  });
}

std::string PtxcProgram() {
  const char* const named = std::getenv("UOPD_PTXC");
  return named != nullptr && *named != 0 ? named : UOPD_BUILT_PTXC;
}

absl::StatusOr<std::string> RunClang(const std::string& text, const std::string& flags) {
  return RunProgram("clang-19", text, Cat(flags, " -S"));
}

// The few functions of NVRTC that compile a text. Results other than 0 are errors.
struct Nvrtc {
  using Program = void*;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  int (*destroy)(Program*);
  int (*count)(int*);
  int (*architectures)(int*);
  bool found = false;

  static const Nvrtc& Get() {
    static const Nvrtc nvrtc = Open();
    return nvrtc;
  }

 private:
  static Nvrtc Open() {
    Nvrtc out{};
    void* library = nullptr;
    const char* named = std::getenv("UOPD_NVRTC");
    for (const char* name : {named, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                             "/usr/local/cuda/lib64/libnvrtc.so"}) {
      if (name != nullptr && *name != 0 && library == nullptr) library = dlopen(name, RTLD_NOW);
    }
    if (library == nullptr) return out;
    out.found = true;
    const auto find = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      out.found &= function != nullptr;
    };
    find(out.create, "nvrtcCreateProgram");
    find(out.compile, "nvrtcCompileProgram");
    find(out.log_size, "nvrtcGetProgramLogSize");
    find(out.log, "nvrtcGetProgramLog");
    find(out.cubin_size, "nvrtcGetCUBINSize");
    find(out.cubin, "nvrtcGetCUBIN");
    find(out.destroy, "nvrtcDestroyProgram");
    find(out.count, "nvrtcGetNumSupportedArchs");
    find(out.architectures, "nvrtcGetSupportedArchs");
    return out;
  }
};

}  // namespace

static absl::StatusOr<std::string> RunNvrtc(const std::string& text, std::string_view arch,
                                            bool wants_messages) {
  const Nvrtc& nvrtc = Nvrtc::Get();
  if (!nvrtc.found) return absl::UnavailableError("NVRTC is not installed");
  int count = 0;
  if (nvrtc.count(&count) != 0) return absl::InternalError("nvrtcGetNumSupportedArchs failed");
  std::vector<int> known(static_cast<size_t>(count));
  if (nvrtc.architectures(known.data()) != 0)
    return absl::InternalError("nvrtcGetSupportedArchs failed");
  bool knows = false;
  for (const int k : known) knows |= std::atoi(std::string(arch.substr(3)).c_str()) == k;
  if (!knows) return absl::InvalidArgumentError(Cat("this NVRTC does not know ", arch));
  Nvrtc::Program program = nullptr;
  if (nvrtc.create(&program, text.c_str(), "kernel.cu", 0, nullptr, nullptr) != 0)
    return absl::InternalError("nvrtcCreateProgram failed");
  const std::string architecture = Cat("--gpu-architecture=", arch);
  const char* options[] = {architecture.c_str(), "--fmad=false", "--std=c++17",
                           "--ptxas-options=-v"};
  const int rc = nvrtc.compile(program, wants_messages ? 4 : 3, options);
  size_t size = 0;
  std::string out;
  if (rc == 0 && !wants_messages) {
    nvrtc.cubin_size(program, &size);
    out.resize(size);
    nvrtc.cubin(program, out.data());
  } else {
    nvrtc.log_size(program, &size);
    out.resize(size);
    nvrtc.log(program, out.data());
  }
  nvrtc.destroy(&program);
  if (rc != 0) return absl::InternalError(Cat("NVRTC failed: ", out, "\n", text));
  return out;
}

bool MaySkipCompiler(const absl::Status& failure) {
  return (absl::IsUnavailable(failure) || absl::IsInvalidArgument(failure)) &&
         std::getenv("UOPD_REQUIRE_GPU_COMPILERS") == nullptr;
}

absl::StatusOr<std::string> CompileCuda(const std::string& text, std::string_view arch) {
  return RunNvrtc(text, arch, false);
}

absl::StatusOr<std::string> CudaMessages(const std::string& text, std::string_view arch) {
  return RunNvrtc(text, arch, true);
}

absl::StatusOr<std::string> AssemblePtx(const std::string& text, std::string_view arch) {
  using devices::cuda::PtxcCompiler;
  UOPD_ASSIGN(const auto compiler, PtxcCompiler::Create(PtxcProgram(), std::string(arch)));
  auto out = compiler->Compile(text);
  // It says this of a version of PTX or an architecture that is younger than itself.
  if (!out.ok() && (out.status().message().find("Unsupported .version") != std::string::npos ||
                    out.status().message().find("is not defined for option") != std::string::npos))
    return absl::InvalidArgumentError(Cat("this compiler of PTX does not know ", arch));
  return out;
}

absl::StatusOr<std::string> PtxMessages(const std::string& text, std::string_view arch) {
  UOPD_TRY(AssemblePtx(text, arch).status());
  return RunCommand(PtxcProgram(), text, [&](const std::string& in, const std::string& out) {
    return Cat("--messages ", arch, " < ", in, " > ", out);
  });
}

absl::StatusOr<std::string> CompileHip(const std::string& text, std::string_view arch) {
  return RunClang(text,
                  Cat("-x hip --cuda-device-only --offload-arch=", arch,
                      " -nogpuinc -nogpulib -O2 -ffp-contract=off -Werror -Wno-unused-function"));
}

absl::StatusOr<std::string> CompileAmdgpuIr(const std::string& text, std::string_view arch) {
  return RunClang(text, Cat("-x ir --target=amdgcn-amd-amdhsa -mcpu=", arch,
                            " -nogpulib -O2 -ffp-contract=off -Werror"));
}

absl::StatusOr<std::string> CompileOpenCl(const std::string& text) {
  return RunClang(
      text,
      "-x cl -cl-std=CL1.2 -target spir64 -O1 -emit-llvm -Xclang -finclude-default-header "
      "-Werror -Wno-unused-function");
}

}  // namespace uopd::tests
