// SPDX-License-Identifier: MIT
#include "core/ir/verify/op_rules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/text.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/group_mma.h"
#include "core/ir/role.h"
#include "core/ir/shared_array.h"
#include "core/ir/tensor_map.h"
#include "core/ir/verify/spec.h"

namespace uopd::ir {
namespace {

absl::Status BadRole(const std::string& message) { return absl::InvalidArgumentError(message); }

bool IsThreadNumber(UOp u) {
  return u.Is(Op::SPECIAL) && static_cast<AxisType>(u.ints()[0]) == AxisType::LOCAL;
}

uint32_t SharedArrayOf(UOp index) {
  const UOp base = index.Is(Op::INDEX) ? MaybeBaseOf(index.src(0)) : UOp();
  return base && IsShared(base) ? base.id() : 0;
}

// What a value is made of.
struct GateLeaves {
  bool thread = false, others = false;
};

class RoleCheck {
 public:
  RoleCheck(std::span<const UOp> lines, UOp* maybe_culprit)
      : lines_(lines), maybe_culprit_(maybe_culprit) {
    for (UOp u : lines) {
      has_roles_ |= u.Is(Op::ROLE);
      if (IsThreadNumber(u)) thread_ = u;
    }
  }

  absl::Status Run() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      absl::Status s = Line(i);
      if (s.ok() && role_) s = InRole(lines_[i]);
      if (s.ok()) s = Arrivals(lines_[i]);
      if (s.ok()) continue;
      if (maybe_culprit_ != nullptr) *maybe_culprit_ = lines_[i];
      return s;
    }
    if (!has_roles_) return absl::OkStatus();
    if (role_) return BadRole("a ROLE has no ROLE_END");
    UOPD_TRY(Threads());
    return Partners();
  }

 private:
  // Roles and loops.
  absl::Status Line(size_t i) {
    const UOp u = lines_[i];
    if (!has_roles_) return absl::OkStatus();
    if (u.Is(Op::RANGE)) {
      ++loops_;
      waits_.clear();
    }
    if (u.Is(Op::END)) {
      loops_ -= static_cast<int64_t>(u.n_src()) - 1;
      waits_.clear();
    }
    if (u.Is(Op::ROLE)) {
      if (role_) return BadRole("a ROLE inside of another one");
      if (loops_ != 0) return BadRole("a ROLE in a loop");
      role_ = u;
      roles_.push_back(WarpRole::Of(u));
      mma_runs_ = false;
      expected_ = UOp();
      return absl::OkStatus();
    }
    if (u.Is(Op::ROLE_END)) {
      if (u.src(0) != role_) return BadRole("a ROLE_END of another ROLE");
      if (loops_ != 0) return BadRole("a ROLE_END in a loop");
      UOPD_TRY(EndOfCopies());
      role_ = UOp();
      return absl::OkStatus();
    }
    if (!roles_.empty() && !role_) return BadRole(Cat(Name(u.op()), " behind a role"));
    for (UOp s : u.srcs()) {
      const auto it = owner_.find(s.id());
      if (it != owner_.end() && it->second != role_.id())
        return BadRole(Cat(Name(u.op()), " of a value of another role"));
    }
    if (role_) owner_[u.id()] = role_.id();
    return absl::OkStatus();
  }

  absl::Status InRole(UOp u) {
    const WarpRole role = roles_.back();
    const auto whole = [&](int64_t n) {
      return role.active == role.count && role.first % n == 0 && role.count % n == 0;
    };
    switch (u.op()) {
      case Op::BARRIER:
      case Op::BULK_INIT:
      case Op::ASYNC_COPY:
      case Op::ASYNC_COMMIT:
      case Op::ASYNC_WAIT:
      case Op::SHARED_FENCE:
        return BadRole(Cat(Name(u.op()), " in a role"));
      case Op::STORE:
        return SharedArrayOf(u.src(0)) == 0 ? absl::OkStatus()
                                            : BadRole("STORE to a shared array in a role");
      case Op::RANGE:
        return u.tag() == 0 ? absl::OkStatus() : BadRole("a loop of a role polls");
      case Op::SHUFFLE:
      case Op::MMA:
      case Op::MATRIX_LOAD:
        return whole(32) ? absl::OkStatus()
                         : BadRole(Cat(Name(u.op()), " in a role without whole warps"));
      case Op::GROUP_MMA:
        mma_runs_ = true;
        return whole(GroupMma::Of(u).lanes) ? absl::OkStatus()
                                            : BadRole("GROUP_MMA in a role without whole groups");
      case Op::MMA_WAIT:
        mma_runs_ = false;
        return absl::OkStatus();
      case Op::END:
        return EndOfCopies();
      case Op::BULK_WAIT:
        waits_.emplace_back(SharedArrayOf(u.src(0)), u.src(0).src(1));
        waited_by_[SharedArrayOf(u.src(0))].insert(role_.id());
        return absl::OkStatus();
      case Op::BULK_ARRIVE:
        if (mma_runs_) return BadRole("BULK_ARRIVE before the MMA_WAIT of what GROUP_MMAs read");
        arrived_by_[SharedArrayOf(u.src(0))].insert(role_.id());
        return absl::OkStatus();
      case Op::BULK_EXPECT:
        UOPD_TRY(EndOfCopies());
        expected_ = u;
        bytes_ = 0;
        return absl::OkStatus();
      case Op::BULK_COPY:
        return Copy(u);
      default:
        return absl::OkStatus();
    }
  }

  absl::Status Copy(UOp u) {
    const UOp barrier = u.src(2);
    if (!expected_ || SharedArrayOf(expected_.src(0)) != SharedArrayOf(barrier) ||
        expected_.src(0).src(1) != barrier.src(1))
      return BadRole("BULK_COPY in a role without a BULK_EXPECT of its barrier");
    bytes_ += MaybeTensorMap(u)->box_bytes();
    if (loops_ == 0) return absl::OkStatus();
    bool waits = false;
    for (const auto& [array, place] : waits_) {
      if (place != barrier.src(1) || array == SharedArrayOf(barrier)) continue;
      waits = true;
      copy_waits_.emplace_back(array, u);
    }
    return waits ? absl::OkStatus()
                 : BadRole("BULK_COPY in a loop of a role that does not wait for its readers");
  }

  absl::Status EndOfCopies() {
    const UOp expected = std::exchange(expected_, UOp());
    if (!expected || expected.ints()[0] == bytes_) return absl::OkStatus();
    return BadRole(
        Cat("a BULK_EXPECT of ", expected.ints()[0], " bytes, and the copies have ", bytes_));
  }

  // Whether another role arrives at what copies wait for, and another role waits for what a role
  // arrives at.
  absl::Status Partners() {
    const auto has_other = [](const auto& sets, uint32_t array, uint32_t role) {
      const auto it = sets.find(array);
      return it != sets.end() &&
             std::ranges::any_of(it->second, [&](uint32_t r) { return r != role; });
    };
    for (const auto& [array, copy] : copy_waits_) {
      if (has_other(arrived_by_, array, owner_.at(copy.id()))) continue;
      if (maybe_culprit_ != nullptr) *maybe_culprit_ = copy;
      return BadRole("BULK_COPY waits for a barrier that no other role arrives at");
    }
    for (const auto& [array, roles] : arrived_by_) {
      for (const uint32_t role : roles) {
        if (!has_other(waited_by_, array, role))
          return BadRole("no other role waits for a BULK_ARRIVE");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Threads() const {
    if (!thread_ || !thread_.src(0).Is(Op::CONST))
      return BadRole("roles in a kernel without a number of threads");
    const int64_t threads = thread_.src(0).const_int();
    std::vector<WarpRole> roles = roles_;
    std::ranges::sort(roles, {}, &WarpRole::first);
    int64_t at = 0, registers = 0;
    for (const WarpRole& r : roles) {
      if (r.first != at)
        return BadRole(Cat("thread ", std::min(at, r.first), " has no role, or several"));
      at += r.count;
      registers += r.count * r.registers;
      if ((r.registers == 0) != (roles[0].registers == 0))
        return BadRole("only some roles take a number of registers");
    }
    if (at != threads)
      return BadRole(Cat("the roles have ", at, " threads, and the block has ", threads));
    if (registers > threads * WarpRole::AtLaunch(threads))
      return BadRole(
          Cat("roles take ", registers, " registers of ", threads * WarpRole::AtLaunch(threads)));
    return absl::OkStatus();
  }

  absl::Status Arrivals(UOp u) {
    if (u.Is(Op::BULK_INIT)) {
      counts_[SharedArrayOf(u.src(0))] = u.arg().AsInt();
      return absl::OkStatus();
    }
    if (!u.Is({Op::BULK_EXPECT, Op::BULK_ARRIVE})) return absl::OkStatus();
    const auto wanted = counts_.find(SharedArrayOf(u.src(0)));
    if (wanted == counts_.end() || !thread_ || !thread_.src(0).Is(Op::CONST))
      return absl::OkStatus();  // VerifyBulkOrder says so
    const UOp gate = u.src(0).n_src() == 3 ? u.src(0).src(2) : UOp();
    int64_t first = 0, end = thread_.src(0).const_int();
    if (role_) first = roles_.back().first, end = first + roles_.back().active;
    const auto arrivals = MaybeCount(gate, first, end);
    if (!arrivals)
      return BadRole(
          Cat("not only the thread's number decides which threads execute ", Name(u.op())));
    if (*arrivals != wanted->second)
      return BadRole(Cat(Name(u.op()), " by ", *arrivals, " threads, and a phase has ",
                         wanted->second, " arrivals"));
    return absl::OkStatus();
  }

  GateLeaves LeavesOf(UOp value) {
    if (value == thread_) return {true, false};
    if (value.Is(Op::CONST)) return {};
    if (!value.Is(kElementwiseOps)) return {false, true};
    const auto it = leaves_.find(value.id());
    if (it != leaves_.end()) return it->second;
    GateLeaves out;
    for (UOp s : value.srcs()) {
      const GateLeaves l = LeavesOf(s);
      out.thread |= l.thread;
      out.others |= l.others;
    }
    return leaves_[value.id()] = out;
  }
  // The value in thread t. REQUIRES: nothing else decides it.
  std::optional<Scalar> MaybeAt(UOp value, int64_t t) {
    if (value == thread_) return Scalar::Int(value.dtype(), t);
    if (value.Is(Op::CONST)) return Scalar::Of(value);
    std::vector<Scalar> srcs;
    for (UOp s : value.srcs()) {
      const auto v = MaybeAt(s, t);
      if (!v) return std::nullopt;
      srcs.push_back(*v);
    }
    return EvalAlu(value.op(), value.dtype(), srcs);
  }
  // The threads of [first, end) where the gate holds, as far as they decide it.
  std::optional<int64_t> MaybeCount(UOp maybe_gate, int64_t first, int64_t end) {
    std::vector<UOp> terms, rest;
    if (maybe_gate) rest.push_back(maybe_gate);
    while (!rest.empty()) {
      const UOp g = rest.back();
      rest.pop_back();
      const GateLeaves leaves = LeavesOf(g);
      if (g.Is(Op::AND) && leaves.others) {
        rest.insert(rest.end(), g.srcs().begin(), g.srcs().end());
      } else if (leaves.thread && leaves.others) {
        return std::nullopt;
      } else if (leaves.thread) {
        terms.push_back(g);
      }
    }
    int64_t out = 0;
    for (int64_t t = first; t < end; ++t) {
      bool arrives = true;
      for (UOp term : terms) {
        const auto v = MaybeAt(term, t);
        if (!v) return std::nullopt;
        arrives = arrives && v->i != 0;
      }
      out += arrives ? 1 : 0;
    }
    return out;
  }

  const std::span<const UOp> lines_;
  UOp* maybe_culprit_;
  bool has_roles_ = false;
  UOp thread_, role_;  // the thread's number; the open ROLE
  std::vector<WarpRole> roles_;
  int64_t loops_ = 0;
  absl::flat_hash_map<uint32_t, uint32_t> owner_;  // lines of roles -> the ROLE
  absl::flat_hash_map<uint32_t, GateLeaves> leaves_;
  std::map<uint32_t, int64_t> counts_;  // arrays of barriers -> arrivals of a phase
  // Of the open role:
  bool mma_runs_ = false;                        // a GROUP_MMA that no MMA_WAIT follows
  UOp expected_;                                 // the last BULK_EXPECT, and
  int64_t bytes_ = 0;                            // those of the copies since
  std::vector<std::pair<uint32_t, UOp>> waits_;  // of this iteration: array and place
  // By arrays of barriers: the ROLEs that wait there, and those that arrive there.
  std::map<uint32_t, std::set<uint32_t>> waited_by_, arrived_by_;
  std::vector<std::pair<uint32_t, UOp>> copy_waits_;  // arrays that BULK_COPYs wait for
};

}  // namespace

absl::Status VerifyRole(UOp u) {
  if (u.Is(Op::ROLE_END))
    return u.src(0).Is(Op::ROLE) ? absl::OkStatus() : BadRole("ROLE_END of something else");
  if (u.ints().size() != WarpRole::kNumbers || !IsThreadNumber(u.src(0)))
    return BadRole("ROLE takes the thread's number, and four numbers");
  const WarpRole role = WarpRole::Of(u);
  if (role.first < 0 || role.count < 1 || role.active < 1 || role.active > role.count)
    return BadRole("a number of a ROLE is out of range");
  if (role.registers == 0) return absl::OkStatus();
  if (role.registers < WarpRole::kFewest || role.registers > WarpRole::kMost ||
      role.registers % WarpRole::kStep != 0)
    return BadRole(
        Cat("a ROLE takes ", role.registers, " registers: no multiple of 8 from 24 to 256"));
  if (role.first % WarpRole::kGroup != 0 || role.count % WarpRole::kGroup != 0)
    return BadRole("a ROLE that takes a number of registers has no whole groups of warps");
  return absl::OkStatus();
}

absl::Status VerifyRoles(UOp linear, UOp* maybe_culprit) {
  return RoleCheck(linear.srcs(), maybe_culprit).Run();
}

}  // namespace uopd::ir
