// SPDX-License-Identifier: MIT
// uopd-ptxc: a program that compiles PTX to a cubin, with NVIDIA's compiler as a static library. It
// alone links that library, so that a build without it lacks this program and nothing else.
//
//   uopd-ptxc sm_90 < TEXT > CUBIN    exit status 1: standard error says what is wrong
//   uopd-ptxc --version               prints the compiler's version, "13.5"
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>

// The calls of libnvptxcompiler_static that are used. Results: 0 is success.
extern "C" {
struct nvPTXCompiler;
int nvPTXCompilerGetVersion(unsigned* major, unsigned* minor);
int nvPTXCompilerCreate(nvPTXCompiler** compiler, size_t bytes, const char* text);
int nvPTXCompilerDestroy(nvPTXCompiler** compiler);
int nvPTXCompilerCompile(nvPTXCompiler* compiler, int n, const char* const* options);
int nvPTXCompilerGetCompiledProgramSize(nvPTXCompiler* compiler, size_t* bytes);
int nvPTXCompilerGetCompiledProgram(nvPTXCompiler* compiler, void* image);
int nvPTXCompilerGetErrorLogSize(nvPTXCompiler* compiler, size_t* bytes);
int nvPTXCompilerGetErrorLog(nvPTXCompiler* compiler, char* log);
}

namespace {

int Fails(const char* call, int result) {
  std::cerr << call << " fails with " << result << ".\n";
  return 1;
}

int PrintVersion() {
  unsigned major = 0, minor = 0;
  if (const int r = nvPTXCompilerGetVersion(&major, &minor); r != 0) {
    return Fails("nvPTXCompilerGetVersion", r);
  }
  std::cout << major << "." << minor;
  return 0;
}

int Compile(nvPTXCompiler* compiler, const std::string& arch) {
  const std::string option = "--gpu-name=" + arch;
  const char* const options[] = {option.c_str(), "--opt-level=3"};
  if (const int r = nvPTXCompilerCompile(compiler, 2, options); r != 0) {
    size_t bytes = 0;
    std::string log;
    if (nvPTXCompilerGetErrorLogSize(compiler, &bytes) == 0 && bytes > 0) {
      log.resize(bytes + 1);
      if (nvPTXCompilerGetErrorLog(compiler, log.data()) != 0) log.clear();
    }
    std::cerr << log.c_str();
    return Fails("nvPTXCompilerCompile", r);
  }
  size_t bytes = 0;
  if (const int r = nvPTXCompilerGetCompiledProgramSize(compiler, &bytes); r != 0) {
    return Fails("nvPTXCompilerGetCompiledProgramSize", r);
  }
  std::string cubin(bytes, '\0');
  if (const int r = nvPTXCompilerGetCompiledProgram(compiler, cubin.data()); r != 0) {
    return Fails("nvPTXCompilerGetCompiledProgram", r);
  }
  return std::fwrite(cubin.data(), 1, bytes, stdout) == bytes && std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: uopd-ptxc sm_NN | --version\n";
    return 2;
  }
  if (std::strcmp(argv[1], "--version") == 0) return PrintVersion();
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  nvPTXCompiler* compiler = nullptr;
  if (const int r = nvPTXCompilerCreate(&compiler, text.size() + 1, text.c_str()); r != 0) {
    return Fails("nvPTXCompilerCreate", r);
  }
  const int status = Compile(compiler, argv[1]);
  nvPTXCompilerDestroy(&compiler);
  return status;
}
