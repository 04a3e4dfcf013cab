// SPDX-License-Identifier: MIT
// uopd-ptxc: a program that compiles PTX to cubins, with NVIDIA's compiler as a static library. It
// alone links that library, so that a build without it lacks this program and nothing else.
//
//   uopd-ptxc --version   prints the compiler's version, "13.5"
//   uopd-ptxc --messages sm_90
//                         compiles the text of standard input, and prints what the compiler says:
//                         registers, spills, advice
//   uopd-ptxc sm_90       serves texts from standard input until its end
//                         (devices/cuda/ptxc_compiler.h)
//
// NVIDIA's compiler takes longer to set itself up than to compile a small kernel. So it is set up
// once, and compiles one text after the other in this process. A child process for each text would
// read the compiler's pages again, which takes a fifth of the time. A crash ends this process;
// PtxcServer then tells which signal it was, and starts another one.
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>

#include "devices/cuda/ptxc/pipe_io.h"

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
int nvPTXCompilerGetInfoLogSize(nvPTXCompiler* compiler, size_t* bytes);
int nvPTXCompilerGetInfoLog(nvPTXCompiler* compiler, char* log);
}

namespace {

// Freed memory that malloc keeps, and the size from which it maps every piece by itself. A text of
// ten kilobytes takes up to 30 MiB, and without these limits the pages come from the system anew
// for each text.
constexpr int kKeptBytes = 64 << 20, kMappedBytes = 8 << 20;

struct Result {
  uint32_t status = 0;
  std::string bytes;  // a cubin, or what is wrong
};

Result Fails(const char* call, int result, const std::string& log = "") {
  return {1, log + call + " fails with " + std::to_string(result) + "\n"};
}

int PrintVersion() {
  unsigned major = 0, minor = 0;
  if (const int r = nvPTXCompilerGetVersion(&major, &minor); r != 0) {
    std::cerr << Fails("nvPTXCompilerGetVersion", r).bytes;
    return 1;
  }
  std::cout << major << "." << minor;
  return 0;
}

// `maybe_messages`: gets what the compiler says of a text that it takes.
Result Compile(const std::string& text, const std::string& arch,
               std::string* maybe_messages = nullptr) {
  nvPTXCompiler* compiler = nullptr;
  if (const int r = nvPTXCompilerCreate(&compiler, text.size() + 1, text.c_str()); r != 0) {
    return Fails("nvPTXCompilerCreate", r);
  }
  const std::string option = "--gpu-name=" + arch;
  const char* const options[] = {option.c_str(), "--opt-level=3", "--verbose"};
  Result out;
  size_t bytes = 0;
  if (const int r = nvPTXCompilerCompile(compiler, maybe_messages == nullptr ? 2 : 3, options);
      r != 0) {
    std::string log;
    if (nvPTXCompilerGetErrorLogSize(compiler, &bytes) == 0 && bytes > 0) {
      log.resize(bytes + 1);
      if (nvPTXCompilerGetErrorLog(compiler, log.data()) != 0) log.clear();
      log.resize(std::strlen(log.c_str()));
    }
    out = Fails("nvPTXCompilerCompile", r, log);
  } else if (const int s = nvPTXCompilerGetCompiledProgramSize(compiler, &bytes); s != 0) {
    out = Fails("nvPTXCompilerGetCompiledProgramSize", s);
  } else {
    out.bytes.resize(bytes);
    if (const int g = nvPTXCompilerGetCompiledProgram(compiler, out.bytes.data()); g != 0) {
      out = Fails("nvPTXCompilerGetCompiledProgram", g);
    }
    if (maybe_messages != nullptr && nvPTXCompilerGetInfoLogSize(compiler, &bytes) == 0) {
      maybe_messages->resize(bytes + 1);
      if (nvPTXCompilerGetInfoLog(compiler, maybe_messages->data()) != 0) maybe_messages->clear();
      maybe_messages->resize(std::strlen(maybe_messages->c_str()));
    }
  }
  nvPTXCompilerDestroy(&compiler);
  return out;
}

using uopd::devices::cuda::ReadFully;

bool Write(int fd, const void* data, size_t bytes) {
  return uopd::devices::cuda::WriteFully(
      data, bytes, [fd](const char* at, size_t n) { return write(fd, at, n); });
}

// Ends this process when nobody holds the other end of standard input any more, also in the middle
// of a text.
void EndWithTheReader() {
  std::thread([] {
    for (;;) {
      pollfd input = {STDIN_FILENO, 0, 0};
      if (poll(&input, 1, -1) < 0 && errno != EINTR) return;
      if ((input.revents & (POLLHUP | POLLERR)) != 0) _exit(0);
    }
  }).detach();
}

int Serve(const std::string& arch) {
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  EndWithTheReader();
  // Any text sets the compiler up, also a wrong one.
  static_cast<void>(
      Compile(".version 8.0\n.target " + arch + "\n.address_size 64\n.entry k() { ret; }\n", arch));
  for (uint64_t bytes = 0; ReadFully(STDIN_FILENO, &bytes, sizeof bytes);) {
    std::string text(bytes, '\0');
    if (!ReadFully(STDIN_FILENO, text.data(), bytes)) return 1;
    const Result result = Compile(text, arch);
    const uint64_t size = result.bytes.size();
    if (!Write(STDOUT_FILENO, &result.status, sizeof result.status) ||
        !Write(STDOUT_FILENO, &size, sizeof size) ||
        !Write(STDOUT_FILENO, result.bytes.data(), size)) {
      return 1;
    }
  }
  return 0;
}

int PrintMessages(const std::string& arch) {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  std::string messages;
  const Result result = Compile(text, arch, &messages);
  std::cout << (result.status == 0 ? messages : result.bytes);
  return result.status == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--messages") == 0) return PrintMessages(argv[2]);
  if (argc != 2) {
    std::cerr << "usage: uopd-ptxc sm_NN | --messages sm_NN | --version\n";
    return 2;
  }
  if (std::strcmp(argv[1], "--version") == 0) return PrintVersion();
  return Serve(argv[1]);
}
