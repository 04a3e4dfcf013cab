// SPDX-License-Identifier: MIT
#include "server/engine/report/kernel_texts.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "core/base/text.h"
#include "server/engine/tune/tuning_record.h"

namespace uopd::engine {
namespace {

std::string Head(const Kernel& kernel) {
  std::string out = Cat("kernel ", kernel.name, " on ", kernel.device->name(), "\n  opts ",
                        Text(kernel.opts), kernel.tuned ? " (tuned)" : "", "\n");
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const codegen::BufferUse& use = kernel.buffers[i];
    Append(out, "  buffer ", i, ": ", use.elements, " x ", ir::Name(use.dtype),
           use.read ? ", read" : "", use.written ? ", written" : "", "\n");
  }
  for (const std::string& variable : kernel.variables) Append(out, "  variable ", variable, "\n");
  return out;
}

void AddSection(std::string& out, std::string_view title, std::string_view text, size_t max_bytes) {
  Append(out, "  ", title, ":\n", text.substr(0, max_bytes));
  if (text.size() > max_bytes) Append(out, "\n... ", text.size() - max_bytes, " more bytes");
  if (!out.ends_with('\n')) out += '\n';
}

std::string TextOf(const GraphCompiler& graph_compiler, const Kernel& kernel, int debug,
                   size_t max_bytes, Interrupt& interrupt) {
  std::string out = Head(kernel);
  if (debug < 4) return out;
  const auto text = graph_compiler.ExplainKernel(kernel.graph, kernel.device->device(),
                                                 kernel.options, &kernel.opts, &interrupt);
  if (!text.ok()) {
    AddSection(out, "no text", StatusText(text.status()), max_bytes);
    return out;
  }
  if (debug >= 7) AddSection(out, "graph", text->graph, max_bytes);
  if (debug >= 5) AddSection(out, "lines", text->lines, max_bytes);
  AddSection(out, "source", text->source, max_bytes);
  if (debug < 6) return out;
  const auto assembly = kernel.executable->Disassemble(max_bytes);
  AddSection(out, assembly.ok() ? "assembly" : "no assembly",
             assembly.ok() ? *assembly : StatusText(assembly.status()), max_bytes + 128);
  return out;
}

}  // namespace

void ExplainKernels(const GraphCompiler& graph_compiler, const Program& program, int debug,
                    size_t max_bytes, Interrupt& interrupt,
                    const std::function<bool(std::string_view, std::string)>& use) {
  absl::flat_hash_set<const Kernel*> seen;
  for (const Step& step : program.steps) {
    if (step.kernel == nullptr || !seen.insert(step.kernel.get()).second) continue;
    if (!interrupt.Check().ok()) return;
    if (!use(step.kernel->name, TextOf(graph_compiler, *step.kernel, debug, max_bytes, interrupt)))
      return;
  }
}

}  // namespace uopd::engine
