// SPDX-License-Identifier: MIT
#include "server/engine/base/not_found.h"

#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

TEST(NotFoundTest, SaysWhatIsMissing) {
  for (std::string_view kind : {kProgram, kSession, kBuffer}) {
    const absl::Status status = NotFound(kind, "it is gone");
    EXPECT_TRUE(absl::IsNotFound(status));
    EXPECT_EQ(StatusText(status), "it is gone");
    EXPECT_EQ(MissingKind(status), kind);
    EXPECT_EQ(MissingKind(WithFrame(status, "looking for it")), kind);
  }
  EXPECT_EQ(MissingKind(absl::NotFoundError("a file")), "");
  EXPECT_EQ(MissingKind(absl::OkStatus()), "");
}

}  // namespace
}  // namespace uopd::engine
