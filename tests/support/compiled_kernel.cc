// SPDX-License-Identifier: MIT
#include "tests/support/compiled_kernel.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/base/text.h"

namespace uopd::tests {
namespace {

std::string ToolOf(CompiledText::Language language) {
  return language == CompiledText::kC ? "gcc" : "clang-19";
}
bool IsInstalled(const std::string& tool) {
  return std::system(("command -v " + tool + " > /dev/null").c_str()) == 0;
}
// The first line that the command prints.
std::string OutputOf(const char* command) {
  std::string out;
  if (FILE* pipe = popen(command, "r"); pipe != nullptr) {
    for (int c = fgetc(pipe); c != EOF && c != '\n'; c = fgetc(pipe)) out += static_cast<char>(c);
    pclose(pipe);
  }
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompiledText>> CompiledText::Compile(Language language,
                                                                    const std::string& text) {
  static const bool found[] = {IsInstalled(ToolOf(kC)), IsInstalled(ToolOf(kLlvmIr))};
  const std::string tool = ToolOf(language);
  if (!found[language]) return absl::UnavailableError(Cat(tool, " is not installed"));
  char folder[] = "/tmp/uopd_kernel_XXXXXX";
  if (mkdtemp(folder) == nullptr) return absl::InternalError("mkdtemp failed");
  const std::string base = folder, in = base + (language == kC ? "/k.c" : "/k.ll"),
                    object = base + "/k.o", out = base + "/k.so", log = base + "/log";
  std::ofstream(in) << text;
  const std::string flags = language == kC
                                ? "-O1 -std=gnu11"
                                : "-O1 -march=native -ffp-contract=off -Wno-override-module";
  // The linker itself: the compiler takes six times as long to call it. Kernels need nothing that
  // begins or ends a program, but perhaps functions of the compiler's own library, for small
  // floats.
  static const std::string own_library = OutputOf("gcc -print-libgcc-file-name");
  const std::string compile = Cat(tool, " ", flags, " -fPIC -c -o ", object, " ", in),
                    link = Cat("ld -shared -o ", out, " ", object, " -lm ", own_library);
  const int rc = std::system(Cat("(", compile, " && ", link, ") > ", log, " 2>&1").c_str());
  std::stringstream messages;
  messages << std::ifstream(log).rdbuf();
  void* handle = rc == 0 ? dlopen(out.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  for (const std::string& f : {in, object, out, log}) std::remove(f.c_str());
  rmdir(folder);
  if (handle == nullptr)
    return absl::InternalError(Cat(tool, " failed: ", messages.str(), "\n", text));
  return std::unique_ptr<CompiledText>(new CompiledText(handle));
}

CompiledText::~CompiledText() { dlclose(handle_); }

KernelFunction CompiledText::Find(const std::string& name) const {
  return reinterpret_cast<KernelFunction>(dlsym(handle_, name.c_str()));
}

}  // namespace uopd::tests
