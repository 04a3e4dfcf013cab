// SPDX-License-Identifier: MIT
#include "tests/support/schedule_interpreter.h"

#include "core/ir/io/wire.h"

namespace uopd::test {
absl::StatusOr<std::vector<HostArray>> RunSchedule(const schedule::Schedule& s,
                                                   std::vector<HostArray> slots,
                                                   const Variables& variables,
                                                   const RunKernel& run) {
  std::vector<std::string> memory;
  for (const HostArray& a : slots) memory.push_back(a.ToBytes());
  std::map<std::string, std::string> arenas;
  for (const auto& [device, bytes] : s.arenas)
    arenas[device] = std::string(static_cast<size_t>(bytes), '\xa5');
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
    if (item.kind == schedule::Item::kCopy) {
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

}  // namespace uopd::test
