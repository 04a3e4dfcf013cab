// SPDX-License-Identifier: MIT
#include "core/tools/run_text.h"

#include <charconv>
#include <optional>
#include <vector>

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/ir/print.h"
#include "core/ir/spec.h"
#include "core/ir/wire.h"
#include "core/render/c_style.h"
#include "core/render/llvm_ir.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"
#include "core/schedule/schedule.h"

namespace uopd::tools {
namespace {

absl::Status Bad(std::string message) { return absl::InvalidArgumentError(message); }

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

absl::StatusOr<ir::Stage> StageByName(std::string_view name) {
  if (name == "tensor") return ir::Stage::kTensor;
  if (name == "kernel") return ir::Stage::kKernel;
  if (name == "program") return ir::Stage::kProgram;
  return Bad(Cat("stage (", name, ") is none of tensor, kernel, program"));
}

// "UPCAST(0;4)"
absl::StatusOr<codegen::Opt> ParseOpt(std::string_view text) {
  using codegen::OptKind;
  codegen::Opt opt;
  const size_t open = text.find('('), middle = text.find(';');
  if (open == std::string_view::npos || middle == std::string_view::npos || text.back() != ')') {
    return Bad(Cat("opt (", text, ") is not NAME(axis;amount)"));
  }
  const std::string_view name = text.substr(0, open);
  if (name == "UPCAST")
    opt.kind = OptKind::kUpcast;
  else if (name == "UNROLL")
    opt.kind = OptKind::kUnroll;
  else if (name == "THREAD")
    opt.kind = OptKind::kThread;
  else if (name == "VECTOR")
    opt.kind = OptKind::kVector;
  else
    return Bad(Cat("opt (", name, ") is unknown"));
  std::from_chars(text.data() + open + 1, text.data() + middle, opt.axis);
  std::from_chars(text.data() + middle + 1, text.data() + text.size() - 1, opt.amount);
  return opt;
}

class Runner {
 public:
  absl::StatusOr<std::string> Run(std::string_view steps, std::string_view text) {
    UOPD_ASSIGN(root_, ir::Parse(ctx_, text));
    for (std::string_view step : Split(steps, ',')) {
      if (output_) return Bad(Cat("step ", step, " comes after one that gives no IR"));
      const size_t equals = std::min(step.find('='), step.size());
      const std::string_view name = step.substr(0, equals);
      const std::string_view value = step.substr(std::min(equals + 1, step.size()));
      UOPD_TRY(WithFrame(Step(name, value), Cat("running ", step)));
    }
    return output_ ? *output_ : ir::Print(ctx_, root_);
  }

 private:
  absl::Status Step(std::string_view name, std::string_view value) {
    if (name == "rules") {
      for (const rewrite::RuleSet* set : rules::AllRuleSets()) {
        if (set->name() != value) continue;
        UOPD_ASSIGN(root_, rewrite::Rewrite(ctx_, root_, *set));
        return absl::OkStatus();
      }
      return Bad(Cat("rule set (", value, ") is unknown"));
    }
    if (name == "verify") {
      UOPD_ASSIGN(const ir::Stage stage, StageByName(value));
      return ir::Verify(ctx_, root_, stage);
    }
    if (name == "schedule") return Schedule();
    if (name == "lower") return Lower(value);
    if (name == "render") return Render(value);
    return Bad(Cat("step (", name, ") is unknown"));
  }

  absl::Status Schedule() {
    UOPD_TRY(ir::Verify(ctx_, root_, ir::Stage::kTensor));
    UOPD_ASSIGN(const schedule::Schedule s, schedule::MakeSchedule(ctx_, root_, {}));
    std::string out;
    auto name = [](const schedule::BufferRef& b) {
      return Cat(b.kind == schedule::BufferRef::kArgument ? "slot" : "temp", b.index);
    };
    for (size_t i = 0; i < s.items.size(); ++i) {
      const schedule::Item& item = s.items[i];
      Append(out, "; ", item.kind == schedule::Item::kKernel ? "kernel " : "copy ", i, " on ",
             item.device, ":");
      for (const schedule::BufferRef& b : item.buffers) Append(out, " ", name(b));
      out += '\n';
      if (item.kind != schedule::Item::kKernel) continue;
      ir::UOpContext kernel;
      UOPD_ASSIGN(const ir::UOp sink, ir::Decode(kernel, item.graph, ir::Stage::kKernel));
      out += ir::Print(kernel, sink);
    }
    for (size_t i = 0; i < s.temporaries.size(); ++i) {
      const schedule::Temporary& t = s.temporaries[i];
      Append(out, "; temp", i, " on ", t.device, ": ", t.bytes, " bytes at ", t.offset, "\n");
    }
    output_ = out;
    return absl::OkStatus();
  }

  absl::Status Lower(std::string_view opts_text) {
    UOPD_TRY(ir::Verify(ctx_, root_, ir::Stage::kKernel));
    codegen::Options options;
    std::vector<codegen::Opt> opts;
    options.noopt = opts_text == "noopt";
    if (!options.noopt && !opts_text.empty()) {
      for (std::string_view text : Split(opts_text, '+')) {
        UOPD_ASSIGN(opts.emplace_back(), ParseOpt(text));
      }
      options.opts = &opts;
    }
    UOPD_ASSIGN(lowered_.emplace(), codegen::Lower(ctx_, root_, codegen::Target(), options));
    root_ = lowered_->program;
    return absl::OkStatus();
  }

  absl::Status Render(std::string_view language) {
    if (!lowered_) UOPD_TRY(Lower(""));
    if (language == "c") {
      UOPD_ASSIGN(output_.emplace(),
                  render::RenderC(ctx_, root_, lowered_->name, lowered_->variables));
      return absl::OkStatus();
    }
    if (language != "llvm") return Bad(Cat("language (", language, ") is none of c, llvm"));
    UOPD_ASSIGN(output_.emplace(),
                render::RenderLlvmIr(ctx_, root_, lowered_->name, lowered_->variables));
    return absl::OkStatus();
  }

  ir::UOpContext ctx_;
  ir::UOp root_;
  std::optional<codegen::LoweredKernel> lowered_;
  std::optional<std::string> output_;
};

}  // namespace

absl::StatusOr<std::string> RunText(std::string_view steps, std::string_view text) {
  return Runner().Run(steps, text);
}

}  // namespace uopd::tools
