// SPDX-License-Identifier: MIT
// The tables of docs/ir.md are those of ops.def and dtype.def.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "core/ir/dtype.h"
#include "core/ir/op.h"
#include "tests/support/generated_section.h"

namespace uopd::ir {
namespace {

std::string OpsTable() {
  std::string out = "\n| op | number | sources | meaning |\n|---|---|---|---|\n";
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& op = Info(static_cast<Op>(i));
    const std::string most = op.max_src == kMany        ? "+"
                             : op.max_src == op.min_src ? ""
                                                        : Cat("-", op.max_src);
    Append(out, "| `", op.name, "` | ", op.wire, " | ", op.min_src, most, " | ", op.doc, " |\n");
  }
  return out + "\n";
}

std::string DtypesTable() {
  std::string out = "\n| dtype | number | bits | meaning |\n|---|---|---|---|\n";
#define UOPD_DTYPE(name, text, wire, bits, kind, doc) \
  Append(out, "| `", text, "` | ", wire, " | ", bits, " | ", doc, " |\n");
#include "core/base/target/dtype.def"
#undef UOPD_DTYPE
  return out + "\n";
}

TEST(Docs, OpsTableIsCurrent) { test::ExpectGenerated("ir.md", "ops", OpsTable()); }
TEST(Docs, DtypesTableIsCurrent) { test::ExpectGenerated("ir.md", "dtypes", DtypesTable()); }

}  // namespace
}  // namespace uopd::ir
