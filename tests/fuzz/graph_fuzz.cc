// SPDX-License-Identifier: MIT
// libFuzzer target: any bytes as a graph. What passes the verifier must schedule, or be refused,
// without a memory error, and its canonical form must read back as itself.
#include <cstdint>
#include <string_view>

#include "core/base/status.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"

namespace uopd {
namespace {

void CheckGraph(std::string_view bytes) {
  ir::UOpContext ctx;
  const ir::WireLimits limits{.max_nodes = 200, .max_sources = 2000};
  const auto root = ir::Decode(ctx, bytes, ir::Level::kTensor, limits);
  if (!root.ok()) {
    // Blame is on the bytes, never on us.
    UOPD_CHECK(!absl::IsInternal(root.status()));
    return;
  }
  const std::string canonical = ir::Encode(ctx, *root);
  ir::UOpContext again;
  const auto same = ir::Decode(again, canonical, ir::Level::kTensor);
  UOPD_CHECK(same.ok());
  UOPD_CHECK(ir::Encode(again, *same) == canonical);

  const auto schedule = schedule::MakeSchedule(ctx, *root, {});
  if (!schedule.ok()) return;
  const auto back = schedule::Schedule::Decode(schedule->Encode());
  UOPD_CHECK(back.ok());
  UOPD_CHECK(back->Encode() == schedule->Encode());
}

}  // namespace
}  // namespace uopd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uopd::CheckGraph({reinterpret_cast<const char*>(data), size});
  return 0;
}
