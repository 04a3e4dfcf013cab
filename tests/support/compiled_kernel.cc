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

absl::StatusOr<std::unique_ptr<CompiledText>> CompiledText::Compile(Language language,
                                                                    const std::string& text) {
  const std::string tool = language == kC ? "gcc" : "clang-19";
  if (std::system(("command -v " + tool + " > /dev/null").c_str()) != 0)
    return absl::UnavailableError(Cat(tool, " is not installed"));
  char folder[] = "/tmp/uopd_kernel_XXXXXX";
  if (mkdtemp(folder) == nullptr) return absl::InternalError("mkdtemp failed");
  const std::string base = folder, in = base + (language == kC ? "/k.c" : "/k.ll"),
                    out = base + "/k.so", log = base + "/log";
  std::ofstream(in) << text;
  const std::string flags = language == kC
                                ? "-O1 -std=gnu11"
                                : "-O1 -march=native -ffp-contract=off -Wno-override-module";
  const int rc = std::system(
      Cat(tool, " ", flags, " -shared -fPIC -o ", out, " ", in, " -lm > ", log, " 2>&1").c_str());
  std::stringstream messages;
  messages << std::ifstream(log).rdbuf();
  void* handle = rc == 0 ? dlopen(out.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  for (const std::string& f : {in, out, log}) std::remove(f.c_str());
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
