// SPDX-License-Identifier: MIT
#include "core/interp/interpreter.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/target/machine_facts.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/interp/bulk_copies.h"
#include "core/interp/memory.h"
#include "core/interp/squads.h"
#include "core/ir/dtype.h"

namespace uopd::interp {
namespace {

using ir::Dtype;

constexpr int64_t kMostThreads = 1 << 16;  // of a block
// A look at the stop word each so many instructions: a thousand take well below a tenth of a
// second.
constexpr uint64_t kStepsBetweenChecks = 1 << 10;

class Runner {
 public:
  Runner(const Program& program, const LaunchArguments& arguments, int64_t threads)
      : program_(program),
        arguments_(arguments),
        threads_(static_cast<size_t>(threads)),
        memory_(program, arguments, threads),
        bulk_(program, memory_),
        values_(program.registers() * threads_) {
    for (const Program::Constant& c : program.constants())
      std::fill_n(&values_[c.reg * threads_], threads_, c.value);
  }

  absl::Status Run() {
    UOPD_TRY(memory_.Check());
    int64_t number = 0;
    for (at_[2] = 0; at_[2] < arguments_.grid[2]; ++at_[2]) {
      for (at_[1] = 0; at_[1] < arguments_.grid[1]; ++at_[1]) {
        for (at_[0] = 0; at_[0] < arguments_.grid[0]; ++at_[0], ++number) {
          if (Stopped()) return absl::OkStatus();
          // Copies that nobody waited for are over.
          for (const auto& group : groups_) memory_.Land(group);
          memory_.Land(copies_);
          groups_.clear();
          copies_.clear();
          bulk_.BeginBlock();
          memory_.BeginBlock(number);
          UOPD_TRY(RunBlock(static_cast<uint64_t>(number)));
          if (!Stopped() && std::ranges::any_of(squads_, &Squad::HasBatches))
            return absl::InternalError("a block ends before its GROUP_MMAs do");
          if (!Stopped() && bulk_.Runs())
            return absl::InternalError("a block ends before its BULK_COPYs do");
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  bool Stopped() const {
    return arguments_.maybe_stop != nullptr &&
           arguments_.maybe_stop->load(std::memory_order_relaxed) != 0;
  }

  Value* Register(Operand o, size_t lane = 0) {
    return &values_[(o.reg + (o.lanes > 1 ? lane : 0)) * threads_ + first_];
  }

  // `thread`: of the block.
  absl::Status Report(const Instruction& in, size_t thread, const std::string& what) const {
    return absl::InternalError(Cat("block (", at_[0], ", ", at_[1], ", ", at_[2], "), thread ",
                                   thread, ", line ", in.line, ", ", program_.LineText(in.line),
                                   ": ", what));
  }

  void Enter(size_t squad) {
    squad_ = &squads_[squad];
    first_ = squad_->first;
    n_ = squad_->n;
    memory_.Enter(squad);
  }

  absl::Status RunBlock(uint64_t block) {
    squads_.assign(1, {});
    squads_[0].n = threads_;
    squads_[0].end = static_cast<uint32_t>(program_.instructions().size());
    Enter(0);
    bool moved = false;
    UOPD_TRY(Advance(std::numeric_limits<uint64_t>::max(), moved));
    if (squad_->state == Squad::State::kWaits) return Deadlock();
    if (squad_->state != Squad::State::kForks) return absl::OkStatus();
    squads_ = SquadsOf(program_, arguments_.warp_lanes, threads_);
    if (squads_.empty())
      return absl::InternalError("the roles are not those of the block's threads");
    std::vector<size_t> first;
    for (const Squad& s : squads_) first.push_back(s.first);
    memory_.Fork(first);
    Interleaving order(arguments_.seed + block, squads_.size());
    for (;;) {
      if (std::ranges::all_of(squads_, &Squad::IsDone) || Stopped()) return absl::OkStatus();
      const auto next = order.MaybeNext(squads_);
      if (!next) return Deadlock();
      Enter(next->squad);
      moved = false;
      UOPD_TRY(Advance(next->steps, moved));
      order.Ran(next->squad, moved);
    }
  }

  // All squads wait: says for what, once for each line.
  absl::Status Deadlock() {
    std::string others;
    std::vector<const Squad*> waiting;
    for (const Squad& s : squads_) {
      if (s.state != Squad::State::kWaits) continue;
      const bool known =
          std::ranges::any_of(waiting, [&](const Squad* w) { return w->pc == s.pc; });
      if (known) continue;
      if (!waiting.empty())
        Append(others, "; so does thread ", s.first, ", line ", program_.instructions()[s.pc].line,
               ": ", s.why);
      waiting.push_back(&s);
    }
    if (waiting.empty()) return UOPD_BUG("nobody waits");
    return Report(program_.instructions()[waiting[0]->pc], waiting[0]->first,
                  Cat("waits forever: ", waiting[0]->why, others));
  }

  // Goes on with the squad for at most so many instructions. `moved`: it executed one.
  absl::Status Advance(uint64_t steps, bool& moved) {
    Squad& squad = *squad_;
    std::vector<Squad::Loop>& loops = squad.loops;
    const auto instructions = program_.instructions();
    squad.state = Squad::State::kRuns;
    for (uint32_t& pc = squad.pc; pc < squad.end; ++pc) {
      if (steps-- == 0) return absl::OkStatus();
      const Instruction& in = instructions[pc];
      if (++steps_ % kStepsBetweenChecks == 0 && Stopped()) return absl::OkStatus();
      spent_ += static_cast<double>(n_ * std::max<uint32_t>(1, in.out.lanes));
      if (spent_ > arguments_.budget)
        return absl::ResourceExhaustedError("the launch has too many operations to be interpreted");
      switch (in.kind) {
        case Kind::kRange: {
          UOPD_ASSIGN(const int64_t size, SizeOf(in));
          if (size <= 0) {
            pc = in.end;
            break;
          }
          if (in.number != 0 && Stopped()) return absl::OkStatus();
          loops.push_back({pc, 0, size});
          SetAll(in.out, 0);
          break;
        }
        case Kind::kEnd: {
          Squad::Loop& loop = loops.back();
          if (++loop.value == loop.size) {
            loops.pop_back();
            break;
          }
          const Instruction& range = instructions[loop.begin];
          if (range.number != 0 && Stopped()) return absl::OkStatus();
          SetAll(range.out, loop.value);
          pc = loop.begin;
          break;
        }
        case Kind::kBarrier:
          if (squads_.size() > 1) return Report(in, first_, "threads of a role wait for the block");
          memory_.Barrier();
          break;
        case Kind::kRole:
          squad.state = Squad::State::kForks;
          return absl::OkStatus();
        case Kind::kBulkWait: {
          const BulkCopies::Wait wait = bulk_.WaitAt(AccessOf(in, 0), Register(in.src[1]));
          if (wait.fault) return Report(in, wait.fault->thread, wait.fault->what);
          if (wait.over) break;
          squad.state = Squad::State::kWaits;
          squad.why = wait.why;
          return absl::OkStatus();
        }
        default:
          UOPD_TRY(Execute(in));
      }
      moved = true;
    }
    squad.state = Squad::State::kDone;
    return absl::OkStatus();
  }

  void SetAll(Operand to, int64_t value) {
    Value* out = Register(to);
    for (size_t t = 0; t < n_; ++t) out[t].i = value;
  }

  // The size of a loop, the same for all threads.
  absl::StatusOr<int64_t> SizeOf(const Instruction& in) {
    const Value* sizes = Register(in.src[0]);
    for (size_t t = 1; t < n_; ++t) {
      if (sizes[t].i != sizes[0].i)
        return Report(
            in, first_ + t,
            Cat("the loop has ", sizes[t].i, " iterations, and ", sizes[0].i, " in thread 0"));
    }
    return sizes[0].i;
  }

  absl::Status Execute(const Instruction& in) {
    const size_t lanes = std::max<uint32_t>(1, in.out.lanes);
    switch (in.kind) {
      case Kind::kAlu: {
        const Value* src[3] = {};
        for (size_t lane = 0; lane < lanes; ++lane) {
          for (size_t s = 0; s < in.src.size(); ++s) src[s] = Register(in.src[s], lane);
          in.alu(in, Register(in.out, lane), src, n_);
        }
        return absl::OkStatus();
      }
      case Kind::kVariable:
        SetAll(in.out, arguments_.variables[static_cast<size_t>(in.number)]);
        return absl::OkStatus();
      case Kind::kSpecial:
        Special(in);
        return absl::OkStatus();
      case Kind::kStack:
        for (size_t lane = 0; lane < in.src.size(); ++lane)
          std::copy_n(Register(in.src[lane]), n_, Register(in.out, lane));
        return absl::OkStatus();
      case Kind::kLane:
        std::copy_n(Register(in.src[0], static_cast<size_t>(in.number)), n_, Register(in.out));
        return absl::OkStatus();
      case Kind::kShuffle:
        return Shuffle(in, lanes);
      case Kind::kMma:
        return WarpMma(in);
      case Kind::kGroupMma:
        return GroupMma(in);
      case Kind::kMmaBegin:
        for (const uint32_t array : in.arrays) memory_.BeginSums(array);
        return absl::OkStatus();
      case Kind::kMmaCommit:
        squad_->batches.push_back(std::exchange(squad_->batch, {}));
        return absl::OkStatus();
      case Kind::kMmaWait:
        while (squad_->batches.size() > static_cast<size_t>(in.number)) {
          const Squad::Batch& batch = squad_->batches.front();
          for (const uint32_t array : batch.sums) memory_.EndSums(array);
          for (const Memory::Copied& at : batch.read) memory_.EndRead(at);
          squad_->batches.erase(squad_->batches.begin());
        }
        return absl::OkStatus();
      case Kind::kSharedFence:
        memory_.SharedFence();
        return absl::OkStatus();
      case Kind::kAsyncCopy:
        return AsyncCopy(in);
      case Kind::kAsyncCommit:
        groups_.emplace_back();
        groups_.back().swap(copies_);
        return absl::OkStatus();
      case Kind::kAsyncWait:
        while (groups_.size() > static_cast<size_t>(in.number)) {
          memory_.Land(groups_.front());
          groups_.erase(groups_.begin());
        }
        return absl::OkStatus();
      case Kind::kBulkInit:
      case Kind::kBulkExpect:
      case Kind::kBulkCopy:
      case Kind::kBulkArrive:
        return Bulk(in);
      case Kind::kMatrixLoad:
        return MatrixLoad(in);
      case Kind::kLoad:
        return Load(in, lanes);
      case Kind::kStore:
        return Store(in);
      default:
        return WmmaBlock(in);
    }
  }

  void Special(const Instruction& in) {
    const auto dimension = static_cast<size_t>(in.numbers[1]);
    if (static_cast<ir::AxisType>(in.numbers[0]) != ir::AxisType::LOCAL)
      return SetAll(in.out, at_[dimension]);
    int64_t inside = 1;
    for (size_t d = 0; d < dimension; ++d) inside *= arguments_.block[d];
    Value* out = Register(in.out);
    for (size_t t = 0; t < n_; ++t)
      out[t].i = static_cast<int64_t>(first_ + t) / inside % arguments_.block[dimension];
  }

  absl::Status Shuffle(const Instruction& in, size_t lanes) {
    if (in.number <= 0 || in.number >= arguments_.warp_lanes)
      return Report(in, 0,
                    Cat("the mask ", in.number, " leaves a warp of ", arguments_.warp_lanes));
    const auto mask = static_cast<size_t>(in.number);
    for (size_t t = 0; t < n_; ++t) {
      if ((t ^ mask) >= n_)
        return Report(in, first_ + t,
                      Cat("reads lane ", t ^ mask, ", which the block does not have"));
    }
    for (size_t lane = 0; lane < lanes; ++lane) {
      const Value* from = Register(in.src[0], lane);
      Value* out = Register(in.out, lane);
      for (size_t t = 0; t < n_; ++t) out[t] = from[t ^ mask];
    }
    return absl::OkStatus();
  }

  // The access of all threads in one lane.
  Access AccessOf(const Instruction& in, size_t lane) {
    Access out;
    out.array = in.array;
    out.first = first_;
    out.n = n_;
    out.index = Register(in.src[0], lane);
    out.offset = in.number > 0 ? static_cast<int64_t>(lane) : 0;
    if (in.gated) out.maybe_gates = Register(in.src.back(), lane);
    return out;
  }

  absl::Status Load(const Instruction& in, size_t lanes) {
    for (size_t lane = 0; lane < lanes; ++lane) {
      if (const auto fault = memory_.MaybeLoad(AccessOf(in, lane), Register(in.out, lane)))
        return Report(in, fault->thread, fault->what);
    }
    return absl::OkStatus();
  }

  absl::Status Store(const Instruction& in) {
    const size_t lanes = static_cast<size_t>(std::max<int64_t>(1, in.number));
    for (size_t lane = 0; lane < lanes; ++lane) {
      if (const auto fault = memory_.MaybeStore(AccessOf(in, lane), Register(in.src[1], lane)))
        return Report(in, fault->thread, fault->what);
    }
    return absl::OkStatus();
  }

  static Value Zero(Dtype d) {
    Value out;
    if (ir::IsFloat(d)) {
      out.f = 0;
    } else {
      out.i = 0;
    }
    return out;
  }

  // A matrix instruction of each warp: collects the matrices from the lanes, multiplies them
  // exactly, and rounds each result once.
  absl::Status WarpMma(const Instruction& in) {
    const MatrixInstruction& i = program_.matrix(in);
    const auto lanes = static_cast<size_t>(i.sum_place.lanes());
    if (n_ % lanes != 0)
      return Report(in, first_, Cat("the block has ", n_, " threads, which are no whole warps"));
    const auto m = static_cast<size_t>(i.m), n = static_cast<size_t>(i.n),
               k = static_cast<size_t>(i.k);
    std::vector<double> a(m * k), b(k * n);
    for (size_t first = 0; first < n_; first += lanes) {
      Collect(in, 0, i.a_place, i.a, first, [&](const auto& at, double v) {
        a[static_cast<size_t>(at('r')) * k + static_cast<size_t>(at('k'))] = v;
      });
      Collect(in, 1, i.b_place, i.b, first, [&](const auto& at, double v) {
        b[static_cast<size_t>(at('k')) * n + static_cast<size_t>(at('c'))] = v;
      });
      for (size_t lane = 0; lane < lanes; ++lane) {
        for (int64_t e = 0; e < i.sum_place.elements(); ++e) {
          const auto at = static_cast<size_t>(e);
          const auto place = [&](char axis) {
            return static_cast<size_t>(i.sum_place.Place(axis, static_cast<int64_t>(lane), e));
          };
          Value start = Zero(in.dtype);
          if (in.src.size() == 3) start = Register(in.src[2], at)[first + lane];
          double sum = ir::IsFloat(in.dtype) ? start.f : static_cast<double>(start.i);
          for (size_t x = 0; x < k; ++x) sum += a[place('r') * k + x] * b[x * n + place('c')];
          Value& out = Register(in.out, at)[first + lane];
          if (ir::IsFloat(in.dtype)) {
            out.f = ir::RoundTo(in.dtype, sum);
          } else {
            out.i = ir::WrapTo(in.dtype, static_cast<ir::Int128>(sum));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // A matrix instruction of each group of warps, which reads its operands from shared memory. The
  // accumulators get their values now, but until the wait nobody may access them.
  absl::Status GroupMma(const Instruction& in) {
    const MatrixInstruction& i = program_.matrix(in);
    const ir::GroupMma& mma = in.group;
    const auto lanes = static_cast<size_t>(mma.lanes);
    if (n_ % lanes != 0)
      return Report(in, first_, Cat("the block has ", n_, " threads, which are no whole groups"));
    const uint32_t array = in.arrays[0];
    if (const auto wrong = memory_.MaybeChangeSums(array, first_, n_))
      return Report(in, first_, *wrong);
    squad_->batch.sums.push_back(array);
    std::vector<double> a, b;
    Value* const sums = memory_.Sums(array);
    const auto k = static_cast<size_t>(mma.k);
    for (size_t first = 0; first < n_; first += lanes) {
      UOPD_TRY(SharedOperand(in, 1, mma.a_matrix, i.a, mma.m, first, a));
      UOPD_TRY(SharedOperand(in, 2, mma.b_matrix, i.b, mma.n, first, b));
      for (size_t lane = 0; lane < lanes; ++lane) {
        for (int64_t e = 0; e < i.sum_place.elements(); ++e) {
          const auto place = [&](char axis) {
            return static_cast<size_t>(i.sum_place.Place(axis, static_cast<int64_t>(lane), e));
          };
          Value& out = sums[static_cast<size_t>(e) * threads_ + first_ + first + lane];
          double sum = ir::IsFloat(in.dtype) ? out.f : static_cast<double>(out.i);
          const double *row = &a[place('r') * k], *column = &b[place('c') * k];
          for (size_t x = 0; x < k; ++x) sum += row[x] * column[x];
          if (ir::IsFloat(in.dtype)) {
            out.f = ir::RoundTo(in.dtype, sum);
          } else {
            out.i = ir::WrapTo(in.dtype, static_cast<ir::Int128>(sum));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // The elements of an operand of `rows` rows or columns, each with its steps, as the instruction
  // finds them: from the place on where the threads say that it begins.
  absl::Status SharedOperand(const Instruction& in, size_t operand, const ir::SharedMatrix& matrix,
                             DtypeNumber number, int64_t rows, size_t first,
                             std::vector<double>& out) {
    const Dtype d = *ir::DtypeByWire(static_cast<uint64_t>(number));
    const int64_t bytes = ir::ByteSize(d), offset = program_.arrays()[in.arrays[operand]].offset;
    const Value* const index = Register(in.src[operand]);
    for (int64_t lane = 1; lane < in.group.lanes; ++lane) {
      if (index[first + static_cast<size_t>(lane)].i != index[first].i)
        return Report(in, first_ + first,
                      "the threads of a group begin to read at different places");
    }
    constexpr int64_t kPieceBytes = 16;
    const int64_t start = offset + index[first].i * kSharedWordBytes;
    if (start % kPieceBytes != 0)
      return Report(in, first_ + first, "a matrix is not aligned to 16 bytes");
    out.clear();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t k = 0; k < in.group.k; ++k) {
        const int64_t at = matrix.Swizzled(start + matrix.ByteOf(row, k, bytes)) - offset;
        const Memory::Copied word{in.arrays[operand], static_cast<size_t>(at / kSharedWordBytes)};
        Value value;
        if (const auto wrong = memory_.MaybeRead(word, &value))
          return Report(in, first_ + first, *wrong);
        squad_->batch.read.push_back(word);
        const uint64_t raw = static_cast<uint64_t>(value.i) >> (at % kSharedWordBytes * 8) &
                             ((uint64_t{1} << ir::Bits(d)) - 1);
        out.push_back(ir::IsFloat(d)
                          ? ir::DecodeFloat(d, raw)
                          : static_cast<double>(ir::WrapTo(d, static_cast<ir::Int128>(raw))));
      }
    }
    return absl::OkStatus();
  }

  // Calls set(place along an axis, value) for each element of an operand that the lanes of a warp
  // hold.
  template <class Set>
  void Collect(const Instruction& in, size_t operand, const Fragment& place, DtypeNumber number,
               size_t first, const Set& set) {
    const Dtype d = *ir::DtypeByWire(static_cast<uint64_t>(number));
    const int64_t bits = ir::Bits(d), in_word = 32 / bits;
    for (int64_t lane = 0; lane < place.lanes(); ++lane) {
      for (int64_t e = 0; e < place.elements(); ++e) {
        const Value word = Register(
            in.src[operand], static_cast<size_t>(e / in_word))[first + static_cast<size_t>(lane)];
        const uint64_t raw =
            static_cast<uint64_t>(word.i) >> (bits * (e % in_word)) & ((uint64_t{1} << bits) - 1);
        const double value = ir::IsFloat(d)
                                 ? ir::DecodeFloat(d, raw)
                                 : static_cast<double>(ir::WrapTo(d, static_cast<ir::Int128>(raw)));
        set([&](char axis) { return place.Place(axis, lane, e); }, value);
      }
    }
  }

  // The elements get their values now, but until the wait nobody may access them.
  absl::Status AsyncCopy(const Instruction& in) {
    std::vector<Value> values(n_), passes(n_);
    for (int64_t lane = 0; lane < in.number; ++lane) {
      Access to = AccessOf(in, static_cast<size_t>(lane)), from = to;
      from.array = in.from_array;
      from.index = Register(in.from[0]);
      from.maybe_gates = passes.data();
      for (size_t t = 0; t < n_; ++t)
        passes[t].i = to.Passes(t) && (!in.from_gated || Register(in.from[1])[t].i != 0) ? 1 : 0;
      if (const auto fault = memory_.MaybeLoad(from, values.data()))
        return Report(in, fault->thread, fault->what);
      if (const auto fault = memory_.MaybeStore(to, values.data()))
        return Report(in, fault->thread, fault->what);
      memory_.Send(to, copies_);
    }
    return absl::OkStatus();
  }

  absl::Status Bulk(const Instruction& in) {
    std::optional<Fault> fault;
    if (in.kind == Kind::kBulkInit) {
      for (int64_t i = 0; i < std::max<int64_t>(1, in.number) && !fault; ++i)
        fault = bulk_.MaybeInit(AccessOf(in, static_cast<size_t>(i)), in.numbers[0]);
    } else if (in.kind == Kind::kBulkExpect) {
      fault = bulk_.MaybeExpect(AccessOf(in, 0), in.numbers[0]);
    } else if (in.kind == Kind::kBulkArrive) {
      fault = bulk_.MaybeArrive(AccessOf(in, 0));
    } else {
      std::vector<const Value*> coordinates;
      for (size_t i = 1; i < in.from.size(); ++i) coordinates.push_back(Register(in.from[i]));
      fault = bulk_.MaybeCopy(in, AccessOf(in, 0), Register(in.from[0]), coordinates);
    }
    return fault ? Report(in, fault->thread, fault->what) : absl::OkStatus();
  }

  // Lane i of a warp gives the address of four words, which are row i % 8 of matrix i / 8. Lane i
  // gets word i % 4 of row i / 4 of each matrix; transposed, it gets elements 2 (i % 4) and 2 (i %
  // 4) + 1 of column i / 4.
  absl::Status MatrixLoad(const Instruction& in) {
    constexpr size_t kLanes = 32, kRows = 8, kWords = 4;
    const auto matrices = static_cast<size_t>(in.numbers[0]);
    if (n_ % kLanes != 0)
      return Report(in, first_, Cat("the block has ", n_, " threads, which are no whole warps"));
    std::vector<uint32_t> words(matrices * kRows * kWords);
    for (size_t first = 0; first < n_; first += kLanes) {
      for (size_t row = 0; row < matrices * kRows; ++row) {
        const size_t thread = first + row;
        if (Register(in.src[0])[thread].i % int64_t{kWords} != 0)
          return Report(in, first_ + thread, "the row of a matrix is not aligned to four words");
        for (size_t w = 0; w < kWords; ++w) {
          Value word;
          const Access access{in.array, first_ + thread, 1, &Register(in.src[0])[thread],
                              static_cast<int64_t>(w)};
          if (const auto fault = memory_.MaybeLoad(access, &word))
            return Report(in, fault->thread, fault->what);
          words[row * kWords + w] = static_cast<uint32_t>(word.i);
        }
      }
      const auto element = [&](size_t matrix, size_t row, size_t column) {
        const uint32_t word = words[(matrix * kRows + row) * kWords + column / 2];
        return static_cast<int64_t>(word >> (16 * (column % 2)) & 0xffff);
      };
      for (size_t m = 0; m < matrices; ++m) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
          const size_t a = lane / kWords, b = lane % kWords * 2;
          Value& out = Register(in.out, m)[first + lane];
          out.i = in.numbers[1] != 0 ? element(m, b, a) | element(m, b + 1, a) << 16
                                     : element(m, a, b) | element(m, a, b + 1) << 16;
        }
      }
    }
    return absl::OkStatus();
  }

  // The product of two matrices of words (docs/ir_linear.md), element by element.
  absl::Status WmmaBlock(const Instruction& in) {
    const auto& n = in.numbers;
    const Dtype a = *ir::DtypeByWire(static_cast<uint64_t>(n[0])),
                b = *ir::DtypeByWire(static_cast<uint64_t>(n[1]));
    const int64_t rows = n[2], columns = n[3], words = n[4];
    const Dtype sum = program_.arrays()[in.arrays[0]].dtype,
                row = program_.arrays()[in.arrays[1]].dtype;
    const int64_t elements = 32 / ir::Bits(a), row_elements = 32 / ir::Bits(row);
    const auto number = [](Dtype d, uint64_t bits) {
      bits &= (uint64_t{1} << ir::Bits(d)) - 1;
      return ir::IsFloat(d) ? ir::DecodeFloat(d, bits)
                            : static_cast<double>(ir::WrapTo(d, static_cast<ir::Int128>(bits)));
    };
    for (size_t t = 0; t < n_; ++t) {
      // One element of an operand, by the thread.
      const auto access = [&](size_t operand, int64_t offset) {
        return Access{in.arrays[operand], first_ + t, 1, &Register(in.src[operand])[t], offset};
      };
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          double total = 0;
          for (int64_t k = 0; k < words; ++k) {
            Value column;
            auto fault = memory_.MaybeLoad(access(2, k * n[6] + j), &column);
            for (int64_t e = 0; e < elements && !fault; ++e) {
              // The row's elements lie in words, or one by one.
              Value word;
              const int64_t at = i * n[5] + k * row_elements + (row_elements > 1 ? e : 0);
              fault = memory_.MaybeLoad(access(1, at), &word);
              if (fault) break;
              const uint64_t bits =
                  ir::IsFloat(row) ? ir::EncodeFloat(row, word.f) : static_cast<uint64_t>(word.i);
              const uint64_t x = row_elements > 1 ? bits : bits >> (e * ir::Bits(a));
              total +=
                  number(a, x) * number(b, static_cast<uint64_t>(column.i) >> (e * ir::Bits(b)));
            }
            if (fault) return Report(in, first_ + t, fault->what);
          }
          Value out;
          if (ir::IsFloat(sum)) {
            out.f = ir::RoundTo(sum, total);
          } else {
            out.i = ir::WrapTo(sum, static_cast<ir::Int128>(total));
          }
          if (const auto fault = memory_.MaybeStore(access(0, i * columns + j), &out))
            return Report(in, first_ + t, fault->what);
        }
      }
    }
    return absl::OkStatus();
  }

  // Copies that are on their way: those of the groups, the oldest first, and those of no group yet.
  std::vector<std::vector<Memory::Copied>> groups_;
  std::vector<Memory::Copied> copies_;
  const Program& program_;
  const LaunchArguments& arguments_;
  const size_t threads_;
  std::vector<Squad> squads_;  // one, until roles begin
  Squad* squad_ = nullptr;     // the one that executes, and
  size_t first_ = 0, n_ = 0;   // its threads
  Memory memory_;
  BulkCopies bulk_;
  std::vector<Value> values_;  // [register][thread]
  int64_t at_[3] = {0, 0, 0};  // the block
  double spent_ = 0;
  uint64_t steps_ = 0;  // instructions of blocks
};

}  // namespace

absl::Status Run(const Program& program, const LaunchArguments& arguments) {
  if (arguments.variables.size() != program.variables())
    return absl::InvalidArgumentError(Cat("the kernel has ", program.variables(),
                                          " variables, not ", arguments.variables.size()));
  int64_t threads = 1;
  for (const int64_t n : arguments.block) {
    if (n < 1 || n > kMostThreads) return absl::InvalidArgumentError("a block has no such size");
    threads *= n;
  }
  if (threads > kMostThreads) return absl::InvalidArgumentError("a block has too many threads");
  for (size_t d = 0; d < 3; ++d) {
    const int64_t want = program.block_size(d);
    if (want != 0 && want != arguments.block[d])
      return absl::InvalidArgumentError(Cat("the launch has blocks of ", arguments.block[d],
                                            " threads along dimension ", d,
                                            ", and the kernel is for ", want));
  }
  if (!program.has_blocks() && threads != 1)
    return absl::InvalidArgumentError("the kernel is not for blocks of threads");
  return Runner(program, arguments, threads).Run();
}

}  // namespace uopd::interp
