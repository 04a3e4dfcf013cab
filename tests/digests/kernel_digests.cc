// SPDX-License-Identifier: MIT
// kernel_digests: whether codegen makes the kernels that it made before, byte for byte.
//
//   kernel_digests FILE            the short form: compares with the digests of the file
//   kernel_digests --whole FILE    everything that the file has
//   kernel_digests --update FILE   writes the file
//   --target NAME                  only this target
//   --dump FOLDER                  every text goes to a file of its own, to see what differs
//
// A line of the file is TARGET GROUP KERNELS DIGEST. The digest is over the name of a kernel, its
// buffers, variables, estimates and launch, and over the text of each renderer that drivers use:
// with the opts of the heuristic, without opts, as a draft, and with random opts.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/codegen/opts/kinds/pipeline.h"
#include "core/codegen/opts/opt.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/prepare_stages.h"
#include "core/ir/io/wire.h"
#include "core/render/renderer.h"
#include "tests/digests/digest_graphs.h"
#include "tests/digests/digest_targets.h"
#include "tests/support/chip_kernels.h"
#include "tests/support/opts/dependent_cases.h"
#include "tests/support/opts/opts_cases.h"
#include "tests/support/opts/ring_cases.h"

namespace uopd::digests {
namespace {

struct Flags {
  bool whole = false, update = false;
  std::string target, dump, file;
};

// Writes down what codegen and the renderers make of a kernel for one target, as one text that can
// be compared.
class KernelTexts {
 public:
  explicit KernelTexts(const DigestTarget& target) : target_(target) {}

  // The heuristic's kernel, one without opts, and a draft.
  std::string Usual(std::string_view wire) const {
    std::string out = Lowered(wire, {});
    out += Lowered(wire, {.noopt = true});
    out += Lowered(wire, {.draft = true});
    return out;
  }
  // The kernels of random lists of opts. Which opts were refused on the way decides what the lists
  // are.
  std::string Random(std::string_view wire, uint64_t seed, int lists) const {
    std::string out;
    std::mt19937_64 random(seed);
    for (int i = 0; i < lists; ++i) {
      const std::vector<codegen::Opt> opts = RandomOpts(wire, random);
      out += Lowered(wire, {.opts = &opts});
    }
    return out;
  }
  // The kernels of a ring of parts, one for each matrix instruction that fits.
  std::string Ring(std::string_view wire, const std::vector<codegen::Opt>& threads, int64_t steps,
                   int64_t parts, int64_t warps) const {
    using enum codegen::OptKind;
    std::string out;
    for (int64_t number = 1; number <= std::ssize(target_.target.matrix_instructions); ++number) {
      ir::UOpContext ctx;
      const auto sink = ir::Decode(ctx, wire, ir::Level::kKernel);
      UOPD_CHECK(sink.ok());
      codegen::OptPlan plan(ctx, codegen::PrepareStages(ctx, *sink), target_.target);
      int sum = 0;
      const int axes = static_cast<int>(plan.axes());
      while (sum < axes && !plan.Add({kTensorCore, sum, number}).ok()) ++sum;
      if (sum == axes) continue;
      for (const codegen::Opt& opt : threads) (void)plan.Add(opt);
      (void)plan.Add({kUnroll, sum, steps});
      (void)plan.Add({kBlock, sum, 1});
      (void)plan.Add({kPipeline, sum, parts, warps});
      const std::vector<codegen::Opt> opts = plan.opts();
      out += Lowered(wire, {.opts = &opts});
    }
    return out;
  }

 private:
  std::vector<codegen::Opt> RandomOpts(std::string_view wire, std::mt19937_64& random) const {
    constexpr int64_t kAmounts[] = {2, 3, 4, 5, 8, 16, 32, 0};
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, wire, ir::Level::kKernel);
    UOPD_CHECK(sink.ok());
    const ir::UOp kernel = codegen::PrepareStages(ctx, *sink);
    codegen::OptPlan plan(ctx, kernel, target_.target);
    for (int tries = 0; tries < 14 && plan.axes() > 0; ++tries) {
      using enum codegen::OptKind;
      codegen::Opt opt{static_cast<codegen::OptKind>(random() % codegen::kOptKinds),
                       static_cast<int>(random() % plan.axes()),
                       kAmounts[random() % std::size(kAmounts)]};
      // Opts that only begin lists are tried at their beginnings.
      if (tries < 2) opt.kind = tries == 0 ? kOnline : kMerge;
      if (tries == 2 || opt.kind == kTensorCore) {
        opt.kind = kTensorCore;
        opt.amount = static_cast<int64_t>(random() % 6);
      }
      if (opt.kind == kMerge || opt.kind == kSwap || opt.kind == kPrefetch)
        opt.amount = static_cast<int64_t>(random() % plan.axes());
      if (opt.kind == kPipeline) {
        opt.amount = 2 + static_cast<int64_t>(random() % 3);
        opt.warps = codegen::kCopyingWarps[random() % codegen::kCopyingWarps.size()];
      }
      if (random() % 4 != 0 || tries > 2) (void)plan.Add(opt);
    }
    return plan.opts();
  }

  std::string Lowered(std::string_view wire, const codegen::Options& options) const {
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, wire, ir::Level::kKernel);
    UOPD_CHECK(sink.ok());
    const auto kernel = codegen::Lower(ctx, *sink, target_.target, options);
    if (!kernel.ok())
      return Cat("no kernel: ", absl::StatusCodeToString(kernel.status().code()), "\n");
    std::string out = kernel->name;  // has a hash of the opts
    for (const codegen::BufferUse& b : kernel->buffers)
      Append(out, "\n", ir::Name(b.dtype), " ", b.elements, " ", b.read, b.written);
    for (const std::string& v : kernel->variables) Append(out, "\n", v);
    Append(out, "\n", kernel->flops, " ", kernel->bytes, " ", kernel->estimate_ns, " ",
           kernel->polls, " ", static_cast<int>(kernel->dtype), "\n");
    kernel->launch.Encode(out);
    for (const CodeFormat format : target_.formats) {
      const auto renderer = render::RendererFor(format);
      UOPD_CHECK(renderer.ok());
      Target target = target_.target;
      target.format = format;
      const auto text = (*renderer)->render(
          {ctx, kernel->linear, kernel->name, kernel->variables, target, kernel->buffers.size()});
      out += text.ok() ? *text
                       : Cat("no text: ", absl::StatusCodeToString(text.status().code()), "\n");
    }
    return out;
  }

  const DigestTarget& target_;
};

struct Row {
  int kernels = 0;
  std::string digest;
  bool operator==(const Row&) const = default;
};
using Rows = std::map<std::string, Row>;  // by "TARGET GROUP"

class Digester {
 public:
  Digester(const Flags& flags, const DigestTarget& target)
      : flags_(flags), target_(target), texts_(target) {}

  absl::Status Add(Rows& out) {
    for (const GraphGroup& group : GraphGroups()) {
      if (!flags_.whole && !group.quick) continue;
      UOPD_ASSIGN(const std::vector<std::string> graphs, group.graphs());
      Begin(group.name);
      for (const std::string& graph : graphs) UOPD_TRY(AddGraph(graph));
      End(out);
    }
    Begin("cases");
    for (const tests::KernelCase& one : tests::OptsCases()) AddCase(one);
    for (const tests::KernelCase& one : tests::DependentCases(0, 20)) AddCase(one);
    End(out);
    if (target_.target.async_copies) AddRings(out);
    return absl::OkStatus();
  }

 private:
  void Begin(std::string name) {
    name_ = std::move(name);
    all_.clear();
    seen_.clear();
  }
  void End(Rows& out) {
    out[Cat(target_.name, " ", name_)] = {static_cast<int>(seen_.size()),
                                          HashBytes(all_).Hex().substr(0, 16)};
  }

  absl::Status AddGraph(const std::string& graph) {
    const auto schedule = test::ScheduleOf(graph, test::ScheduleOptionsFor(target_.target));
    if (!schedule.ok()) {
      Append(all_, absl::StatusCodeToString(schedule.status().code()), "\n");
      return absl::OkStatus();
    }
    for (const schedule::Item& item : schedule->items) {
      if (item.kind != schedule::Item::kKernel || !seen_.insert(item.graph).second) continue;
      std::string text = texts_.Usual(item.graph);
      // Random opts for some: most kernels of random graphs are alike.
      if (seen_.size() % 8 == 0) text += texts_.Random(item.graph, seen_.size(), 2);
      Keep(text);
    }
    return absl::OkStatus();
  }

  void AddCase(const tests::KernelCase& one) {
    ir::UOpContext ctx;
    const std::string wire = ir::Encode(ctx, one.make(ctx));
    seen_.insert(one.name);
    Keep(texts_.Usual(wire));
    Keep(texts_.Random(wire, seen_.size(), 6));
  }

  // Products with the operands of their tiles in rings of parts: pairs of a matrix instruction and
  // a form of the ring.
  void AddRings(Rows& out) {
    Begin("rings");
    for (const tests::KernelCase& one : tests::RingCases()) {
      ir::UOpContext ctx;
      const std::string wire = ir::Encode(ctx, one.make(ctx));
      seen_.insert(one.name);
      for (const char* threads :
           {"", "LOCAL(0, 2)", "LOCAL(1, 4)", "UPCAST(0, 2) LOCAL(1, 2)", "GROUP(2, 2)"}) {
        for (const int64_t steps : {1, 4, 16}) {
          for (const int64_t parts : {2, 3, 8}) {
            for (const int64_t producers : codegen::kCopyingWarps) {
              Keep(texts_.Ring(wire, *codegen::ParseOpts(threads), steps, parts, producers));
            }
          }
        }
      }
    }
    End(out);
  }

  void Keep(const std::string& text) {
    Append(all_, HashBytes(text).Hex(), "\n");
    if (flags_.dump.empty()) return;
    const std::string folder = Cat(flags_.dump, "/", target_.name, "/", name_);
    std::filesystem::create_directories(folder);
    std::ofstream(Cat(folder, "/", std::count(all_.begin(), all_.end(), '\n'))) << text;
  }

  const Flags& flags_;
  const DigestTarget& target_;
  const KernelTexts texts_;
  std::string name_, all_;
  std::set<std::string> seen_;
};

Rows Read(const std::string& path) {
  Rows out;
  std::ifstream in(path);
  std::string target, group;
  for (Row row; in >> target >> group >> row.kernels >> row.digest;)
    out[Cat(target, " ", group)] = row;
  return out;
}

int Run(const Flags& flags) {
  Rows known = Read(flags.file), found;
  for (const DigestTarget& target : DigestTargets()) {
    if (!flags.target.empty() && flags.target != target.name) continue;
    if (const absl::Status status = Digester(flags, target).Add(found); !status.ok()) {
      std::fprintf(stderr, "kernel_digests: %s\n", StatusText(status).c_str());
      return 1;
    }
  }
  if (flags.update) {
    for (const auto& [name, row] : found) known[name] = row;
    std::ofstream out(flags.file);
    for (const auto& [name, row] : known) out << Cat(name, " ", row.kernels, " ", row.digest, "\n");
    return out.flush().good() ? 0 : 1;
  }
  int different = 0;
  for (const auto& [name, row] : found) {
    if (known[name] == row) continue;
    ++different;
    std::fprintf(stderr, "kernel_digests: the kernels of %s differ\n", name.c_str());
  }
  for (const auto& [name, row] : known) {
    if (!flags.whole || !flags.target.empty() || found.contains(name)) continue;
    ++different;
    std::fprintf(stderr, "kernel_digests: no kernels are made for %s\n", name.c_str());
  }
  std::printf("%zu groups, %d different\n", found.size(), different);
  return different == 0 && !found.empty() ? 0 : 1;
}

}  // namespace
}  // namespace uopd::digests

int main(int argc, char** argv) {
  uopd::digests::Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--whole") {
      flags.whole = true;
    } else if (arg == "--update") {
      flags.update = true;
    } else if (arg == "--target" && i + 1 < argc) {
      flags.target = argv[++i];
    } else if (arg == "--dump" && i + 1 < argc) {
      flags.dump = argv[++i];
    } else {
      flags.file = arg;
    }
  }
  return uopd::digests::Run(flags);
}
