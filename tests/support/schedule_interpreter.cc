// SPDX-License-Identifier: MIT
#include "tests/support/schedule_interpreter.h"

#include <algorithm>

#include "core/base/text.h"

#include "core/ir/io/wire.h"

namespace uopd::test {
absl::StatusOr<std::vector<HostArray>> RunSchedule(const schedule::Schedule& s,
                                                   std::vector<HostArray> slots,
                                                   const Variables& variables, const RunKernel& run,
                                                   char poison) {
  std::vector<std::string> memory;
  for (const HostArray& a : slots) memory.push_back(a.ToBytes());
  std::map<std::string, std::string> arenas;
  for (const auto& [device, bytes] : s.arenas)
    arenas[device] = std::string(static_cast<size_t>(bytes), poison);
  for (const schedule::Item& item : s.items) {
    // A kernel gets copies of the bytes, which are copied back afterwards: with overlapping
    // temporaries writes get lost, which the test notices.
    tests::Memory held;
    for (const schedule::BufferRef& b : item.buffers) {
      std::string bytes;
      if (b.kind == schedule::BufferRef::kArgument) {
        bytes = memory[static_cast<size_t>(b.index)];
      } else {
        const schedule::Temporary& t = s.temporaries[static_cast<size_t>(b.index)];
        bytes =
            arenas[t.device].substr(static_cast<size_t>(t.offset), static_cast<size_t>(t.bytes));
      }
      held.emplace_back(bytes.begin(), bytes.end());
    }
    if (item.kind == schedule::Item::kClear) {
      std::ranges::fill(held[0], 0);
    } else if (item.kind == schedule::Item::kCopy) {
      const auto from = held[1].begin() + item.from;
      held[0].assign(from, from + static_cast<std::ptrdiff_t>(held[0].size()));
    } else {
      ir::UOpContext ctx;
      UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, item.graph, ir::Level::kKernel));
      if (run) {
        UOPD_TRY(run(ctx, sink, held, variables));
      } else {
        tests::Interpret(ctx, sink, held, variables);
      }
    }
    // Copy all buffers back. The outputs come first in the list, so they are copied last.
    for (size_t i = item.buffers.size(); i-- > 0;) {
      const std::string written(held[i].begin(), held[i].end());
      const schedule::BufferRef& out = item.buffers[i];
      if (out.kind == schedule::BufferRef::kArgument) {
        memory[static_cast<size_t>(out.index)] = written;
      } else {
        const schedule::Temporary& t = s.temporaries[static_cast<size_t>(out.index)];
        arenas[t.device].replace(static_cast<size_t>(t.offset), static_cast<size_t>(t.bytes),
                                 written);
      }
    }
  }
  for (size_t i = 0; i < slots.size(); ++i)
    slots[i] = HostArray::FromBytes(slots[i].dtype, slots[i].dims, memory[i]);
  return slots;
}

std::string FindLeak(const schedule::Schedule& s, const std::vector<HostArray>& slots,
                     const Variables& variables) {
  std::vector<HostArray> results[2];
  for (const int side : {0, 1}) {
    const char pattern = side == 0 ? '\x35' : '\x4a';
    std::vector<HostArray> given = slots;
    for (size_t i = 0; i < given.size() && i < s.slots.size(); ++i) {
      const bool fresh = s.slots[i].written && !s.slots[i].read;
      if (!fresh) continue;
      const std::string bytes(given[i].ToBytes().size(), pattern);
      given[i] = HostArray::FromBytes(given[i].dtype, given[i].dims, bytes);
    }
    auto ran = RunSchedule(s, std::move(given), variables, nullptr, pattern);
    if (!ran.ok()) return StatusText(ran.status());
    results[side] = *std::move(ran);
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    const std::string a = results[0][i].ToBytes(), b = results[1][i].ToBytes();
    const auto at = std::ranges::mismatch(a, b).in1 - a.begin();
    if (a != b) return Cat("slot ", i, " byte ", at, " comes from memory of others");
  }
  return "";
}

}  // namespace uopd::test
