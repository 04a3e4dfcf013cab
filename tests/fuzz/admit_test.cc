// SPDX-License-Identifier: MIT
// The allow-list of what clients may send (core/ir/verify/admit.def), from both sides: every op x
// dtype x position x arg that is not on it is refused with INVALID_ARGUMENT that names the node,
// and what is on it goes through scheduling and codegen without a crash and without INTERNAL.
#include "core/ir/verify/admit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/io/print.h"
#include "tests/fuzz/compile_check.h"

namespace uopd::ir {
namespace {

// What a signal would leave unsaid: the graph that caused it.
std::string& Current() {
  static std::string current;
  return current;
}
void OnSignal(int signal) {
  [[maybe_unused]] const auto n = write(STDERR_FILENO, Current().data(), Current().size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class AdmitTest : public ::testing::Test {
 protected:
  AdmitTest() {
    for (int s : {SIGABRT, SIGILL, SIGSEGV, SIGFPE}) std::signal(s, OnSignal);
    const UOp st = Store(ctx_, x2_, x_);
    const int64_t axis[] = {0};
    pool_ = {
        ctx_.Float(Dtype::F32, 1),
        ctx_.Int(Dtype::I32, 1),
        ctx_.Bool(true),
        ctx_.Idx(0),
        ctx_.Idx(1),
        ctx_.Idx(-1),
        n_,
        Bound(2),
        ctx_.Make(Op::BIND, Dtype::Index, {n_}),
        rate_,
        ctx_.Make(Op::BIND, Dtype::F32, {rate_, ctx_.Float(Dtype::F32, 0.5)}),
        ctx_.Make(Op::BIND, Dtype::F32, {rate_}),
        Add(ctx_, n_, ctx_.Idx(1)),
        Lt(ctx_, n_, ctx_.Idx(3)),
        Where(ctx_, Lt(ctx_, n_, ctx_.Idx(3)), n_, ctx_.Idx(2)),
        Cast(ctx_, Lt(ctx_, n_, ctx_.Idx(3)), Dtype::Index),
        // Shapes, one of them made of shapes.
        Dims({4}),
        Dims({2, 2}),
        Dims({}),
        Dims({1}),
        Dims({0}),
        ctx_.Make(Op::STACK, Dtype::Index, {n_}),
        ctx_.Make(Op::STACK, Dtype::Index, {Dims({4})}),
        ctx_.Make(Op::STACK, Dtype::Index, {Dims({})}),
        Add(ctx_, Dims({4}), Dims({4})),
        Cast(ctx_, Dims({2, 2}), Dtype::I32),
        // Tensors.
        x_,
        Param(ctx_, 2, Dtype::F32, Dims({2, 2})),
        Param(ctx_, 3, Dtype::I32, Dims({4})),
        Param(ctx_, 4, Dtype::Bool, Dims({4})),
        Param(ctx_, 5, Dtype::F32, Dims({})),
        byte_,
        Param(ctx_, 7, Dtype::F32, ctx_.Make(Op::STACK, Dtype::Index, {n_})),
        Param(ctx_, 8, Dtype::U64, Dims({4})),
        Param(ctx_, 9, Dtype::F32, Dims({0})),
        ctx_.Make(Op::STACK, Dtype::F32, {x_, x2_}),
        ctx_.Make(Op::STACK, Dtype::F32, std::span<const UOp>{}),
        Add(ctx_, x_, x2_),
        Lt(ctx_, x_, x2_),
        ReduceAxes(ctx_, Op::ADD, x_, axis),
        Cast(ctx_, n_, Dtype::I32),
        Iota(ctx_, Dtype::I32, Dims({4}), 0),
        Reshape(ctx_, x_, Dims({2, 2})),
        Expand(ctx_, Reshape(ctx_, Param(ctx_, 5, Dtype::F32, Dims({})), Dims({1})), Dims({4})),
        ctx_.Make(Op::CONTIGUOUS, Dtype::F32, {x_}),
        Flip(ctx_, x_, axis),
        Pad(ctx_, x_, Dims({1}), Dims({6})),
        ctx_.Make(Op::COPY, Dtype::F32, {x_}, Text("CPU:0")),
        ctx_.Make(Op::COPY, Dtype::F32, {x_}, Text("CPU:1")),
        ctx_.Make(Op::MULTI, Dtype::F32, {x_, x2_}, ctx_.Data({0})),
        ctx_.Make(Op::MULTI, Dtype::F32, {x_, x2_}, ctx_.Data({})),
        // Tensors of indices, which no client can have.
        Cast(ctx_, byte_, Dtype::Index),
        Expand(ctx_, Reshape(ctx_, n_, Dims({1})), Dims({4})),
        Cast(ctx_, Param(ctx_, 3, Dtype::I32, Dims({4})), Dtype::Index),
        Where(ctx_, Param(ctx_, 10, Dtype::Bool, Dims({})), ctx_.Idx(1), ctx_.Idx(2)),
        // Statements and what they make.
        st,
        After(ctx_, x2_, {st}),
        After(ctx_, x_, {st}),
        Sink(ctx_, std::span(&st, 1)),
        // What later stages make.
        Buffer(ctx_, 0, Dtype::F32, Dims({4}), AddrSpace::GLOBAL),
        Range(ctx_, ctx_.Idx(4), 0, AxisType::LOOP),
        Index(ctx_, x_, ctx_.Idx(0)),
        Load(ctx_, Index(ctx_, x_, ctx_.Idx(0))),
        ctx_.Make(Op::SPECIAL, Dtype::Index, {ctx_.Idx(4)}, ctx_.Data({2, 0})),
        ctx_.Make(Op::GEP, Dtype::F32, {x_}, Arg::Int(0)),
        ctx_.Make(Op::GROUP, Dtype::Void, {st}),
        ctx_.Make(Op::BARRIER, Dtype::Void, {st}),
        ctx_.Make(Op::END, Dtype::Void, {st, Range(ctx_, ctx_.Idx(4), 0, AxisType::LOOP)}),
    };
    for (UOp u : pool_) allowed_.push_back(AllowedAlone(u));
  }

  UOp Dims(std::initializer_list<int64_t> dims) { return ShapeArg(ctx_, dims); }
  UOp Bound(int64_t v) { return ctx_.Make(Op::BIND, Dtype::Index, {n_, ctx_.Idx(v)}); }
  Arg Text(std::string_view text) { return ctx_.Data({}, text); }

  // Ways to use u as far as its dtype allows: every graph is one that a client could send.
  std::vector<UOp> Uses(UOp u) {
    std::vector<UOp> out;
    auto sink = [&](UOp root) { out.push_back(Sink(ctx_, std::span(&root, 1))); };
    auto stored = [&](UOp value) {
      // Where its shape is not known there is none that would be right.
      const auto shape = WellFormed(value) ? ctx_.TryShapeOf(value) : nullptr;
      const bool known = shape.ok() && *shape != nullptr;
      const UOp dims = known ? ShapeArg(ctx_, **shape) : Dims({4});
      sink(Store(ctx_, Param(ctx_, 60, value.dtype(), dims), value));
    };
    if (u.Is(Op::SINK)) {
      out.push_back(u);
    } else if (u.Is(Op::STORE)) {
      sink(u);
      stored(After(ctx_, u.src(0), {u}));
    } else if (u.dtype() == Dtype::Void) {
      sink(u);
    } else if (u.dtype() == Dtype::Index) {
      stored(Cast(ctx_, u, Dtype::I32));
      for (UOp shape : {u, ctx_.Make(Op::STACK, Dtype::Index, {u})})
        stored(Param(ctx_, 61, Dtype::F32, shape));
    } else {
      stored(u);
      if (KindsOf(u) & kWrittenKind) sink(Store(ctx_, u, u));
    }
    return out;
  }

  // True if ShapeOf can be asked of u: all below it passes.
  bool WellFormed(UOp u) {
    const auto known = passed_.find(u.id());
    if (known != passed_.end()) return known->second;
    bool ok = std::all_of(u.srcs().begin(), u.srcs().end(), [&](UOp s) { return WellFormed(s); });
    ok = ok && VerifyNode(ctx_, u, Level::kTensor).ok();
    passed_[u.id()] = ok;
    return ok;
  }
  bool AllowedAlone(UOp u) { return WellFormed(u); }

  // What the daemon makes of the graph.
  absl::Status Check(UOp sink) {
    Current() = Print(ctx_, sink);
    return test::CheckCompile(Encode(ctx_, sink));
  }

  // u is not on the list: every graph with it is refused, and a node is named.
  void ExpectRefused(UOp u, const std::string& what) {
    for (UOp sink : Uses(u)) {
      const absl::Status s = Check(sink);
      ++refused_;
      EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument)
          << what << ": " << StatusText(s) << "\n"
          << Current();
      EXPECT_TRUE(s.ok() || GetNode(s)) << what << ": " << StatusText(s) << "\n" << Current();
    }
  }
  // u may be on the list: the answer is a clean one.
  void ExpectAnswered(UOp u, const std::string& what) {
    for (UOp sink : Uses(u)) {
      const absl::Status s = Check(sink);
      accepted_ += s.ok() ? 1 : 0;
      EXPECT_FALSE(absl::IsInternal(s)) << what << ": " << StatusText(s) << "\n" << Current();
    }
  }

  bool Listed(Op op, Dtype dtype) {
    for (const AdmitLine& line : AdmitLines()) {
      if (line.op == op && (line.dtypes & Bit(dtype)) != 0) return true;
    }
    return false;
  }
  bool TakesAt(Op op, size_t i, UOp source) {
    for (const AdmitLine& line : AdmitLines()) {
      if (line.op == op && (line.sources[std::min<size_t>(i, 2)] & KindsOf(source)) != 0)
        return true;
    }
    return false;
  }

  // A node that passes, for a line of the list and one of its dtypes.
  UOp Example(const AdmitLine& line, Dtype d) {
    const Op op = line.op;
    const OpInfo& info = Info(op);
    if (line.dtypes == Bit(Dtype::Index)) return IndexExample(line);
    const UOp p = Param(ctx_, 20, d == Dtype::Void ? Dtype::F32 : d, Dims({4}));
    const UOp st = Store(ctx_, p, p);
    std::vector<UOp> src;
    Arg arg;
    switch (op) {
      case Op::PARAM:
        src = {Dims({4})}, arg = ctx_.Data({20, 0});
        break;
      case Op::DEFINE_VAR:
        arg = Text("r");
        break;
      case Op::BIND:
        src = {FloatVariable(ctx_, "r", d), ctx_.Float(d, 1)};
        break;
      case Op::IOTA:
        src = {Dims({4})};
        break;
      case Op::CONST:
        arg = IsFloat(d) ? Arg::Float(1) : Arg::Int(1);
        break;
      case Op::SINK:
        src = {st};
        break;
      case Op::STORE:
        src = {p, p};
        break;
      case Op::AFTER:
        src = {p, st};
        break;
      case Op::STACK:
        src = {p, p};
        break;
      case Op::COPY:
        src = {p}, arg = Text("CPU:0");
        break;
      case Op::MULTI:
        src = {p, p}, arg = ctx_.Data({0});
        break;
      case Op::RESHAPE:
        src = {p, Dims({2, 2})};
        break;
      case Op::EXPAND:
        src = {p, Dims({2, 4})};
        break;
      case Op::PERMUTE:
      case Op::FLIP:
        src = {p}, arg = ctx_.Data({0});
        break;
      case Op::PAD:
        src = {p, Dims({1}), Dims({6})};
        break;
      case Op::SHRINK:
        src = {p, Dims({1}), Dims({2})};
        break;
      case Op::REDUCE:
      case Op::SCAN:
        src = {p}, arg = ctx_.Data({static_cast<int64_t>(Info(Op::ADD).wire), 0});
        break;
      case Op::WHERE:
        src = {Lt(ctx_, p, p), p, p};
        break;
      case Op::CMPLT:
      case Op::CMPNE:
      case Op::CMPEQ:
        src = line.sources[0] == kScalarKind ? std::vector<UOp>{n_, ctx_.Idx(2)}
                                             : std::vector<UOp>{x_, x2_};
        break;
      default:
        src.assign(static_cast<size_t>(info.min_src), p);
    }
    return ctx_.Make(op, d, src, arg);
  }
  UOp IndexExample(const AdmitLine& line) {
    const Op op = line.op;
    switch (op) {
      case Op::DEFINE_VAR:
        return n_;
      case Op::BIND:
        return Bound(2);
      case Op::CONST:
        return ctx_.Idx(3);
      case Op::WHERE:
        return Where(ctx_, Lt(ctx_, n_, ctx_.Idx(3)), n_, ctx_.Idx(2));
      default:
        break;
    }
    return ctx_.Make(op, Dtype::Index,
                     std::vector<UOp>(static_cast<size_t>(std::max(1, Info(op).min_src)), n_));
  }

  UOpContext ctx_;
  const UOp n_ = Variable(ctx_, "n", 1, 4);
  const UOp rate_ = FloatVariable(ctx_, "rate", Dtype::F32);
  const UOp x_ = Param(ctx_, 0, Dtype::F32, Dims({4}));
  const UOp x2_ = Param(ctx_, 1, Dtype::F32, Dims({4}));
  const UOp byte_ = Param(ctx_, 6, Dtype::U8, Dims({}));
  std::vector<UOp> pool_;
  std::vector<bool> allowed_;  // by place in pool_
  std::map<uint32_t, bool> passed_;
  int refused_ = 0, accepted_ = 0;
};

TEST_F(AdmitTest, EveryLineHasAReasonAndAGraphThatRuns) {
  for (const AdmitLine& line : AdmitLines()) {
    EXPECT_FALSE(line.reason.empty()) << Name(line.op);
    int good = 0;
    for (int d = 0; d < kDtypeCount; ++d) {
      if ((line.dtypes >> d & 1) == 0) continue;
      const UOp u = Example(line, static_cast<Dtype>(d));
      bool any = false;
      for (UOp sink : Uses(u)) any |= Check(sink).ok();
      good += any ? 1 : 0;
      ExpectAnswered(u, Cat(Name(line.op), "<", Name(static_cast<Dtype>(d)), ">"));
    }
    EXPECT_GT(good, 0) << "no dtype of " << Name(line.op) << " (" << line.reason << ")";
  }
}

TEST_F(AdmitTest, OpsOfLowerLevelsAreRefusedWhateverTheyLookLike) {
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    if (kAdmittedOps.Has(op)) continue;
    const Arg args[] = {Arg{}, Info(op).arg == ArgSchema::Int ? Arg::Int(1) : ctx_.Data({0, 0})};
    for (int d = 0; d < kDtypeCount; ++d) {
      for (Arg arg : std::span(args, Info(op).arg == ArgSchema::None ? 1 : 2)) {
        for (UOp a : {x_, n_, Dims({4})}) {
          const auto dtype = static_cast<Dtype>(d);
          ExpectRefused(ctx_.Make(op, dtype, {a}, arg), Cat(Name(op), " of one"));
          ExpectRefused(ctx_.Make(op, dtype, {a, ctx_.Idx(1)}, arg), Cat(Name(op), " of two"));
          ExpectRefused(ctx_.Make(op, dtype, {a, x_, x2_}, arg), Cat(Name(op), " of three"));
        }
      }
    }
  }
  EXPECT_GT(refused_, 3000);
}

TEST_F(AdmitTest, DtypesThatAreNotListedAreRefused) {
  for (const AdmitLine& line : AdmitLines()) {
    for (int first = 0; first < kDtypeCount; ++first) {
      if ((line.dtypes >> first & 1) == 0) continue;
      const UOp u = Example(line, static_cast<Dtype>(first));
      for (int d = 0; d < kDtypeCount; ++d) {
        const auto dtype = static_cast<Dtype>(d);
        const UOp other = ctx_.Make(u.op(), dtype, u.srcs(), u.arg());
        const std::string what = Cat(Name(u.op()), "<", Name(dtype), "> as ", Name(u.dtype()));
        if (Listed(u.op(), dtype))
          ExpectAnswered(other, what);
        else
          ExpectRefused(other, what);
      }
    }
  }
  EXPECT_GT(refused_, 1000);
}

TEST_F(AdmitTest, SourcesThatAreNotListedAreRefused) {
  for (const AdmitLine& line : AdmitLines()) {
    // Of the stored ones, the first that the op can have.
    bool stored = false;
    for (Dtype d : {Dtype::Void, Dtype::Index, Dtype::F32, Dtype::I32, Dtype::Bool, Dtype::U64}) {
      if ((line.dtypes & Bit(d)) == 0 || stored || !WellFormed(Example(line, d))) continue;
      stored = d != Dtype::Void && d != Dtype::Index;
      const UOp u = Example(line, d);
      for (size_t i = 0; i <= u.n_src(); ++i) {  // also one too many
        for (size_t k = 0; k < pool_.size(); ++k) {
          std::vector<UOp> src(u.srcs().begin(), u.srcs().end());
          if (i == u.n_src()) src.push_back(pool_[k]);
          src[i] = pool_[k];
          const UOp other = ctx_.Make(u.op(), d, src, u.arg());
          const std::string what = Cat(Name(u.op()), "<", Name(d), "> with source ", i);
          if (!allowed_[k] || !TakesAt(u.op(), i, pool_[k]))
            ExpectRefused(other, what);
          else
            ExpectAnswered(other, what);
        }
      }
    }
  }
  EXPECT_GT(refused_, 5000);
  EXPECT_GT(accepted_, 300);
}

TEST_F(AdmitTest, ArgsThatAreNotListedAreRefused) {
  const auto wire = [](Op op) { return static_cast<int64_t>(Info(op).wire); };
  const std::string long_name(kMaxName + 1, 'a');
  struct {
    Op op;
    Arg arg;
  } const cases[] = {
      {Op::PARAM, Arg{}},
      {Op::PARAM, ctx_.Data({0})},
      {Op::PARAM, ctx_.Data({-1, 0})},
      {Op::PARAM, ctx_.Data({65536, 0})},
      {Op::PARAM, ctx_.Data({0, 1})},  // LOCAL
      {Op::PARAM, ctx_.Data({0, 2})},  // REG
      {Op::PARAM, ctx_.Data({0, 3})},
      {Op::PARAM, ctx_.Data({0, 0, 0})},
      {Op::PARAM, ctx_.Data({0, 0}, "CPU\n")},
      {Op::PARAM, ctx_.Data({0, 0}, "\xff\xfe")},
      {Op::PARAM, ctx_.Data({0, 0}, "CPU 0")},
      {Op::PARAM, ctx_.Data({0, 0}, long_name)},
      {Op::COPY, Arg{}},
      {Op::COPY, Text("")},
      {Op::COPY, ctx_.Data({1}, "CPU:0")},
      {Op::COPY, Text("a\"b")},
      {Op::COPY, Text(std::string_view("a\0b", 3))},
      {Op::COPY, Text("\xc3(")},
      {Op::DEFINE_VAR, Arg{}},
      {Op::DEFINE_VAR, ctx_.Data({0, 3})},
      {Op::DEFINE_VAR, ctx_.Data({4, 3}, "m")},
      {Op::DEFINE_VAR, ctx_.Data({0}, "m")},
      {Op::DEFINE_VAR, ctx_.Data({0, int64_t{1} << 41}, "m")},
      {Op::DEFINE_VAR, ctx_.Data({0, 3}, "m\nint system(const char*);//")},
      {Op::DEFINE_VAR, ctx_.Data({0, 3}, "m\\")},
      {Op::DEFINE_VAR, ctx_.Data({0, 3}, "\xed\xa0\x80")},
      {Op::DEFINE_VAR, ctx_.Data({0, 3}, long_name)},
      {Op::DEFINE_VAR, Text("m\nint system(const char*);//")},  // as a float would have it
      {Op::DEFINE_VAR, Text(long_name)},
      {Op::IOTA, Arg::Int(-1)},
      {Op::IOTA, Arg::Int(1)},
      {Op::IOTA, Arg::Int(int64_t{1} << 40)},
      {Op::SINK, ctx_.Data({1})},
      {Op::SINK, ctx_.Data({1}, "kernel")},
      {Op::SINK, ctx_.Data({})},
      {Op::REDUCE, Arg{}},
      {Op::REDUCE, ctx_.Data({})},
      {Op::REDUCE, ctx_.Data({0, 0})},
      {Op::REDUCE, ctx_.Data({wire(Op::SUB), 0})},
      {Op::REDUCE, ctx_.Data({wire(Op::ADD), 1})},
      {Op::REDUCE, ctx_.Data({wire(Op::ADD), -1})},
      {Op::REDUCE, ctx_.Data({wire(Op::ADD), 0, 0})},
      {Op::REDUCE, ctx_.Data({wire(Op::ADD), 0}, "x")},
      {Op::SCAN, Arg{}},
      {Op::SCAN, ctx_.Data({wire(Op::ADD)})},
      {Op::SCAN, ctx_.Data({wire(Op::SUB), 0})},
      {Op::SCAN, ctx_.Data({wire(Op::ADD), 1})},
      {Op::SCAN, ctx_.Data({wire(Op::ADD), -1})},
      {Op::SCAN, ctx_.Data({wire(Op::ADD), 0, 0})},
      {Op::PERMUTE, ctx_.Data({1})},
      {Op::PERMUTE, ctx_.Data({-1})},
      {Op::PERMUTE, ctx_.Data({0, 0})},
      {Op::PERMUTE, ctx_.Data({64})},
      {Op::PERMUTE, ctx_.Data({0}, "x")},
      {Op::FLIP, ctx_.Data({1})},
      {Op::FLIP, ctx_.Data({-1})},
      {Op::FLIP, ctx_.Data({0, 0})},
      {Op::MULTI, ctx_.Data({1})},
      {Op::MULTI, ctx_.Data({-1})},
      {Op::MULTI, ctx_.Data({0, 0})},
      {Op::MULTI, ctx_.Data({INT64_MAX})},
  };
  for (const auto& c : cases) {
    for (const AdmitLine& line : AdmitLines()) {
      if (line.op != c.op) continue;
      const Dtype d = (line.dtypes & Bit(Dtype::I32)) != 0   ? Dtype::I32
                      : (line.dtypes & Bit(Dtype::F32)) != 0 ? Dtype::F32
                                                             : Example(line, Dtype::Void).dtype();
      const UOp u = Example(line, d);
      ExpectRefused(ctx_.Make(u.op(), u.dtype(), u.srcs(), c.arg),
                    Cat(Name(c.op), " with another arg"));
    }
  }
  EXPECT_GE(refused_, static_cast<int>(std::size(cases)));
}

// What it was that stopped daemons: 108 bytes.
TEST_F(AdmitTest, BuffersOfClientsAreRefusedWhereverTheyStand) {
  for (AddrSpace space : {AddrSpace::GLOBAL, AddrSpace::LOCAL, AddrSpace::REG}) {
    const UOp b = Buffer(ctx_, 0, Dtype::F32, Dims({4}), space);
    ExpectRefused(b, "read");
    ExpectRefused(Store(ctx_, b, x_), "written");
    ExpectRefused(After(ctx_, b, {Store(ctx_, b, x_)}), "after");
    ExpectRefused(Add(ctx_, b, x_), "beside the PARAM of the same slot");
  }
}

TEST(AdmitNames, AreOfLettersThatNeedNoQuotes) {
  for (const char* good : {"n", "CPU:0", "start_pos", "a.b-c/d", "0"}) EXPECT_TRUE(IsName(good));
  for (const char* bad : {"", " ", "a b", "\xc3\xa9", "a\n", "a\"", "a\\", "a;", "a\x7f"})
    EXPECT_FALSE(IsName(bad)) << bad;
  EXPECT_TRUE(IsName(std::string(kMaxName, 'a')));
  EXPECT_FALSE(IsName(std::string(kMaxName + 1, 'a')));
}

}  // namespace
}  // namespace uopd::ir
