// SPDX-License-Identifier: MIT
#include "core/schedule/multi/place.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/ir/shape.h"
#include "core/schedule/fusion/fusion.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

class Separator {
 public:
  Separator(UOpContext& ctx, const std::vector<UOp>& order, std::string_view default_device)
      : ctx_(ctx), order_(order), default_device_(default_device) {}

  UOp Run() {
    device_.assign(ctx_.size(), -1);
    for (UOp u : order_) device_[u.id()] = DeviceOf(u);
    if (names_.size() < 2) return order_.back();
    // From the users downward: the devices that use each value that needs no device.
    users_.resize(ctx_.size());
    for (size_t i = order_.size(); i-- > 0;) {
      const UOp u = order_[i];
      for (UOp s : ValueSources(u)) {
        if (!Floats(s)) continue;
        std::vector<int32_t>& users = users_[s.id()];
        const int32_t here = device_[u.id()];
        if (here >= 0) users.push_back(here);
        const std::vector<int32_t>& above = users_[u.id()];
        if (here < 0) users.insert(users.end(), above.begin(), above.end());
        std::sort(users.begin(), users.end());
        users.erase(std::unique(users.begin(), users.end()), users.end());
      }
    }
    // From the sources upward: a duplicate for each of these devices.
    done_.resize(ctx_.size());
    copies_.resize(ctx_.size());
    for (UOp u : order_) {
      const std::vector<int32_t> users = users_[u.id()];
      if (users.size() < 2) {
        done_[u.id()] = Made(u, users.empty() ? device_[u.id()] : users[0], u.tag());
      } else {
        for (int32_t d : users) copies_[u.id()][d] = Made(u, d, d + 1);
        done_[u.id()] = copies_[u.id()].begin()->second;
      }
    }
    return done_[order_.back().id()];
  }

 private:
  // True for a value that needs no device and is no constant or variable.
  bool Floats(UOp u) const { return device_[u.id()] < 0 && !IsUniform(u); }

  int32_t Number(std::string_view name) {
    const auto next = static_cast<int32_t>(names_.size());
    return names_.try_emplace(std::string(name), next).first->second;
  }

  int32_t DeviceOf(UOp u) {
    if (u.Is(OpSet{Op::PARAM, Op::COPY})) {
      return Number(u.text().empty() ? default_device_ : u.text());
    }
    if (u.Is(Op::STORE)) return device_[u.src(0).id()];
    for (UOp s : ValueSources(u)) {
      if (device_[s.id()] >= 0) return device_[s.id()];
    }
    return -1;
  }

  // The duplicate of u for users on `device`.
  UOp Made(UOp u, int32_t device, int64_t tag) {
    ir::SymbolicDims srcs;
    for (UOp s : u.srcs()) {
      const auto copy = copies_[s.id()].find(device);
      srcs.push_back(copy == copies_[s.id()].end() ? done_[s.id()] : copy->second);
    }
    return ctx_.Make(u.op(), u.dtype(), srcs, u.arg(), tag);
  }

  UOpContext& ctx_;
  const std::vector<UOp>& order_;
  const std::string_view default_device_;
  std::map<std::string, int32_t> names_;
  std::vector<int32_t> device_;                 // by id; -1: needs no device
  std::vector<std::vector<int32_t>> users_;     // by id, of values that float: devices, ascending
  std::vector<UOp> done_;                       // by id: the node that replaces it
  std::vector<std::map<int32_t, UOp>> copies_;  // by id, of values with several users: by device
};

}  // namespace

UOp SeparateDevices(UOpContext& ctx, const std::vector<UOp>& order,
                    std::string_view default_device) {
  const bool copies = std::any_of(order.begin(), order.end(), [](UOp u) {
    return u.Is(Op::COPY) || (u.Is(Op::PARAM) && !u.text().empty());
  });
  if (!copies) return order.back();
  return Separator(ctx, order, default_device).Run();
}

}  // namespace uopd::schedule
