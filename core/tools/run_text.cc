// SPDX-License-Identifier: MIT
#include "core/tools/run_text.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "core/base/target/gpu_targets.h"
#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/codegen/opts/opt.h"
#include "core/codegen/pass_table.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/render_expr.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/render/renderer.h"
#include "core/schedule/schedule.h"
#include "core/tools/passes.h"

namespace uopd::tools {
namespace {

// The parts between separators; none for an empty text.
inline std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

class Runner {
 public:
  absl::StatusOr<std::string> Run(std::string_view steps, std::string_view text) {
    UOPD_ASSIGN(const ir::UOp parsed, ir::Parse(ctx_, text, lines_));
    root_ = parsed;
    for (std::string_view step : Split(steps, ',')) {
      if (step.empty()) continue;
      if (output_) return Invalid(Cat("step ", step, " comes after one that gives no IR"));
      const size_t equals = std::min(step.find('='), step.size());
      const std::string_view name = step.substr(0, equals);
      const std::string_view value = step.substr(std::min(equals + 1, step.size()));
      if (name == "kernel") {
        const absl::StatusOr<std::string> kernel = KernelText(value);
        absl::Status status = kernel.status();
        if (!status.ok() && root_ == parsed)
          status = ir::NumberedAs(status, ir::Toposort(ctx_, root_), lines_);
        UOPD_TRY(WithFrame(status, Cat("running ", step)));
        const auto done = static_cast<size_t>(step.data() + step.size() - steps.data());
        // The kernel gets a context of its own, as in a daemon: numbers of nodes decide between
        // equal choices.
        Runner of_kernel;
        of_kernel.target_ = target_;
        of_kernel.sets_threads_ = sets_threads_;
        of_kernel.opts_ = opts_;
        of_kernel.options_ = options_;
        if (options_.opts != nullptr) of_kernel.options_.opts = &of_kernel.opts_;
        return of_kernel.Run(steps.substr(done), *kernel);
      }
      absl::Status status = Step(name, value);
      // Nodes that passes made are numbered as --run would print them.
      if (!status.ok() && root_ == parsed)
        status = ir::NumberedAs(status, ir::Toposort(ctx_, root_), lines_);
      UOPD_TRY(WithFrame(status, Cat("running ", step)));
    }
    return output_ ? *output_ : notes_ + ir::Print(ctx_, root_);
  }

 private:
  absl::Status Step(std::string_view name, std::string_view value) {
    if (name == "schedule") return PrintSchedule(value);
    if (name == "lower") return Lower(value);
    if (name == "render") return Render(value);
    if (name == "target") return SetTarget(value);
    if (name == "threads") return SetThreads(value);
    if (name == "expr") {
      UOPD_TRY(TakesNoValue(name, value));
      output_ = ir::RenderExpr(root_, 10000) + "\n";
      return absl::OkStatus();
    }
    for (const Pass& pass : Passes()) {
      if (pass.name != name) continue;
      if (pass.value.empty()) UOPD_TRY(TakesNoValue(name, value));
      UOPD_ASSIGN(root_, pass.run(ctx_, root_, value));
      return absl::OkStatus();
    }
    if (name == "opts") {
      UOPD_TRY(ComesBeforePasses(name));
      UOPD_ASSIGN(opts_, codegen::ParseOpts(value));
      options_.opts = &opts_;
      return absl::OkStatus();
    }
    if (name == "until") return RunUntil(value);
    for (const codegen::Pass& pass : codegen::Passes()) {
      if (pass.name == name) return RunAlone(pass, value);
    }
    return Invalid(Cat("step (", name, ") is unknown"));
  }

  static absl::Status TakesNoValue(std::string_view step, std::string_view value) {
    if (value.empty()) return absl::OkStatus();
    return Invalid(Cat("step ", step, " takes no value, and got ", value));
  }
  // All passes take a kernel as the scheduler makes it.
  absl::Status VerifyScheduled() {
    UOPD_TRY(ir::Verify(ctx_, root_, ir::Level::kKernel));
    const std::vector<ir::UOp> order = ir::Toposort(ctx_, root_);
    const auto made = std::ranges::find_if(order, [](ir::UOp u) { return u.Is(ir::Op::BUFFER); });
    if (made != order.end()) {
      return WithNode(Invalid("a pass of codegen has made this array, and the first pass takes a "
                              "kernel as the scheduler makes it"),
                      {made - order.begin(), ir::PrintLine(*made, order)});
    }
    return absl::OkStatus();
  }
  // What a pass of codegen has used cannot change behind it.
  absl::Status ComesBeforePasses(std::string_view step) const {
    if (passes_ == 0 && !lowered_) return absl::OkStatus();
    return Invalid(
        Cat("step ", step, " comes after passes of codegen, which have used another one"));
  }

  // What earlier passes found out is kept for later ones. `value`: fast_math, noopt, the number of
  // threads of a block, or opts.
  absl::Status RunAlone(const codegen::Pass& pass, std::string_view value) {
    if (!work_) {
      work_.emplace(ctx_, target_, options_);
      work_->given = root_;
      for (const ir::UOp v : ir::Variables(ctx_, root_)) {
        work_->kernel.variables.emplace_back(v.text());
        work_->largest.push_back(static_cast<int64_t>(ctx_.BoundsOf(v).max));
      }
      work_->kernel.launch.block[0] = int64_t{1};
    }
    int64_t threads = 0;
    if (value == "fast_math") {
      options_.fast_math = true;
    } else if (value == "noopt") {
      options_.noopt = true;
    } else if (absl::SimpleAtoi(absl::string_view(value.data(), value.size()), &threads)) {
      work_->kernel.launch.block[0] = threads;
    } else if (!value.empty()) {
      UOPD_ASSIGN(work_->kernel.opts, codegen::ParseOpts(value));
    }
    if (!pass.IsFor(target_)) return Invalid(Cat("pass ", pass.name, " is not for this target"));
    // These two build a new kernel and take nothing but one. Others pass over what they do not
    // know.
    if (pass.name == "apply_opts" || pass.name == "linearise")
      UOPD_TRY(ir::Verify(ctx_, root_, ir::Level::kKernel));
    return Run(std::span(&pass, 1));
  }

  // All passes that come after the last one that was run, up to this one.
  absl::Status RunUntil(std::string_view name) {
    UOPD_ASSIGN(const std::span<const codegen::Pass> passes, codegen::PassesUpTo(name));
    if (passes_ == 0) UOPD_TRY(VerifyScheduled());
    if (!work_) work_.emplace(ctx_, target_, options_);
    if (passes.size() < passes_) return Invalid(Cat("a pass behind ", name, " was run already"));
    return Run(passes.subspan(std::min(passes_, passes.size())));
  }

  absl::Status Run(std::span<const codegen::Pass> passes) {
    work_->root = root_;
    UOPD_TRY(codegen::RunPasses(*work_, passes));
    root_ = work_->root;
    // Of a pass that is run by its name.
    if (passes.size() == 1) {
      for (const std::string& note : work_->notes)
        Append(notes_, "; ", passes[0].name, ": ", note, "\n");
      if (passes[0].name == "choose_opts")
        Append(notes_, "; choose_opts: ", codegen::Text(work_->kernel.opts), "\n");
    }
    if (!passes.empty())
      passes_ = static_cast<size_t>(&passes.back() - codegen::Passes().data()) + 1;
    return absl::OkStatus();
  }

  absl::StatusOr<schedule::Schedule> Scheduled(std::string_view products) {
    UOPD_TRY(ir::Verify(ctx_, root_, ir::Level::kTensor));
    schedule::Options options;
    if (!products.empty()) {
      UOPD_ASSIGN(options, RoundingOptions(products));
    } else if (target_.blocks) {
      options.limits = schedule::KernelLimits::Of(target_);
    }
    return schedule::MakeSchedule(ctx_, root_, options);
  }

  // One kernel of a tensor graph.
  absl::StatusOr<std::string> KernelText(std::string_view number) {
    size_t wanted = 0;
    if (!absl::SimpleAtoi(absl::string_view(number.data(), number.size()), &wanted))
      return Invalid(Cat("kernel (", number, ") is no number"));
    UOPD_ASSIGN(const schedule::Schedule s, Scheduled(""));
    if (wanted >= s.items.size() || s.items[wanted].kind != schedule::Item::kKernel) {
      const std::string numbers = KernelNumbers(s);
      return Invalid(Cat("kernel (", number, ") is none of the kernels of this graph, ",
                         numbers.empty() ? "which has none" : Cat("which are: ", numbers)));
    }
    ir::UOpContext kernel;
    UOPD_ASSIGN(const ir::UOp sink, ir::Decode(kernel, s.items[wanted].graph, ir::Level::kKernel));
    return ir::Print(kernel, sink);
  }

  static std::string KernelNumbers(const schedule::Schedule& s) {
    std::string out;
    for (size_t i = 0; i < s.items.size(); ++i) {
      if (s.items[i].kind == schedule::Item::kKernel) Append(out, out.empty() ? "" : ", ", i);
    }
    return out;
  }

  absl::Status PrintSchedule(std::string_view products) {
    UOPD_ASSIGN(const schedule::Schedule s, Scheduled(products));
    std::string out;
    auto name = [](const schedule::BufferRef& b) {
      return Cat(b.kind == schedule::BufferRef::kArgument ? "slot" : "temp", b.index);
    };
    constexpr const char* kKinds[] = {"kernel", "copy", "clear"};  // by Item::Kind
    for (size_t i = 0; i < s.items.size(); ++i) {
      const schedule::Item& item = s.items[i];
      Append(out, "; ", kKinds[item.kind], " ", i, " on ", item.device, ":");
      for (const schedule::BufferRef& b : item.buffers) Append(out, " ", name(b));
      out += '\n';
      if (item.kind != schedule::Item::kKernel) continue;
      ir::UOpContext kernel;
      UOPD_ASSIGN(const ir::UOp sink, ir::Decode(kernel, item.graph, ir::Level::kKernel));
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
    UOPD_TRY(VerifyScheduled());
    codegen::Options options = options_;
    std::vector<codegen::Opt> opts;
    if (options.opts != nullptr && !opts_text.empty())
      return Invalid(Cat("step opts has chosen opts already, and lower got ", opts_text));
    options.noopt = opts_text == "noopt";
    if (!options.noopt && !opts_text.empty()) {
      UOPD_ASSIGN(opts, codegen::ParseOpts(opts_text));
      options.opts = &opts;
    }
    UOPD_ASSIGN(lowered_.emplace(), codegen::Lower(ctx_, root_, target_, options));
    root_ = lowered_->linear;
    return absl::OkStatus();
  }

  // The renderer of a language; "" is that of the target.
  absl::Status Render(std::string_view language) {
    if (root_.Is(ir::Op::LINEAR)) {
      if (!lowered_) UOPD_TRY(TakeLines());
    } else {
      UOPD_TRY(Lower(""));
    }
    CodeFormat format = target_.format;
    if (language == "c") {
      format = CodeFormat::kC;
    } else if (language == "llvm") {
      format = CodeFormat::kLlvmIr;
    } else if (language == "ptx") {
      format = CodeFormat::kPtx;
    } else if (language == "amdgpu") {
      format = CodeFormat::kAmdgpuIr;
    } else if (!language.empty()) {
      return Invalid(Cat("language (", language, ") is none of c, llvm, ptx, amdgpu"));
    }
    if (target_.blocks && (format == CodeFormat::kLlvmIr || format == CodeFormat::kC))
      return Invalid(
          "kernels of blocks have no text in the language of a CPU; target=ARCH names a GPU");
    const std::string_view chips = format == CodeFormat::kPtx        ? "sm_"
                                   : format == CodeFormat::kAmdgpuIr ? "gfx"
                                                                     : "";
    if (!target_.arch.starts_with(chips)) {
      return Invalid(Cat("language (", language, ") is for chips whose names begin with ", chips,
                         "; target=ARCH names one"));
    }
    UOPD_ASSIGN(const render::Renderer* renderer, render::RendererFor(format));
    UOPD_ASSIGN(output_.emplace(),
                renderer->render({ctx_, root_, lowered_->name, lowered_->variables, target_,
                                  lowered_->buffers.size()}));
    return absl::OkStatus();
  }

  // The lines of a text, or of passes that were run: `lowered_` for the renderer.
  absl::Status TakeLines() {
    UOPD_TRY(ir::Verify(ctx_, root_, ir::Level::kLinear));
    lowered_.emplace();
    if (work_) *lowered_ = std::move(work_->kernel);
    lowered_->linear = root_;
    if (lowered_->name.empty()) lowered_->name = "kernel";
    if (work_) return absl::OkStatus();
    for (const ir::UOp v : ir::Variables(ctx_, root_)) lowered_->variables.emplace_back(v.text());
    for (const ir::UOp line : root_.srcs()) {
      if (line.Is(ir::Op::PARAM))
        lowered_->buffers.resize(
            std::max(lowered_->buffers.size(), static_cast<size_t>(line.slot()) + 1));
    }
    return absl::OkStatus();
  }

  absl::Status SetTarget(std::string_view arch) {
    UOPD_TRY(ComesBeforePasses("target"));
    if (arch == "gpu") {
      target_ = PlainGpuTarget();
    } else if (arch == "avx512" || arch == "amx") {
      const int threads = target_.threads;
      target_ = arch == "amx" ? AmxTarget() : Avx512Target();
      target_.threads = threads;
    } else if (const auto target = GpuTarget(arch)) {
      target_ = *target;
    } else {
      std::string known = "gpu, avx512, amx";
      for (const std::string_view name : GpuArchitectures()) Append(known, ", ", name);
      return Invalid(Cat("architecture (", arch, ") is none of ", known));
    }
    if (target_.blocks && sets_threads_) return OnlyForCpus();
    return absl::OkStatus();
  }

  static absl::Status OnlyForCpus() { return Invalid("step threads is for CPUs"); }

  absl::Status SetThreads(std::string_view number) {
    UOPD_TRY(ComesBeforePasses("threads"));
    if (target_.blocks) return OnlyForCpus();
    int threads = 0;
    if (!absl::SimpleAtoi(absl::string_view(number.data(), number.size()), &threads) || threads < 1)
      return Invalid(Cat("threads (", number, ") is no positive number"));
    target_.threads = threads;
    sets_threads_ = true;
    return absl::OkStatus();
  }

  ir::UOpContext ctx_;
  Target target_ = DefaultTarget();
  bool sets_threads_ = false;
  codegen::Options options_;
  std::vector<codegen::Opt> opts_;
  std::optional<codegen::KernelWork> work_;  // of the passes that were run alone
  size_t passes_ = 0;                        // the number of the pass after the last one of them
  ir::UOp root_;
  std::vector<ir::UOp> lines_;  // by id in the text
  std::optional<codegen::LoweredKernel> lowered_;
  std::optional<std::string> output_;
  std::string notes_;  // why passes did what they did
};

}  // namespace

absl::StatusOr<std::string> RunText(std::string_view steps, std::string_view text) {
  return Runner().Run(steps, text);
}

}  // namespace uopd::tools
