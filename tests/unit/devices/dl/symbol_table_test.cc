// SPDX-License-Identifier: MIT
#include "devices/dl/symbol_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace uopd::devices::dl {
namespace {

using testing::HasSubstr;

struct MathApi {
#define UOPD_SYM UOPD_DL_POINTER
#define UOPD_SYM_OPT UOPD_DL_POINTER
#include "tests/unit/devices/dl/math_symbols.def"
#undef UOPD_SYM
#undef UOPD_SYM_OPT
};

absl::StatusOr<MathApi> LoadMath(const std::vector<std::string>& files) {
  UOPD_ASSIGN(Library library, Library::Open(files));
  MathApi api;
#define UOPD_SYM UOPD_DL_REQUIRED
#define UOPD_SYM_OPT UOPD_DL_OPTIONAL
  const std::vector<SymbolSlot> slots = {
#include "tests/unit/devices/dl/math_symbols.def"
  };
#undef UOPD_SYM
#undef UOPD_SYM_OPT
  UOPD_TRY(LoadSymbols(library, slots));
  return api;
}

TEST(SymbolTableTest, FillsTypedPointers) {
  auto api = LoadMath({"libm.so.6"});
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ(api->floor(2.5), 2.0);
  EXPECT_EQ(api->ldexp(1.5, 3), 12.0);
  EXPECT_EQ(api->uopd_no_such_function, nullptr);
}

TEST(SymbolTableTest, TakesTheFirstFileThatLoads) {
  auto library = Library::Open({"libuopd-absent.so.9", "libm.so.6", "libc.so.6"});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->file(), "libm.so.6");
}

TEST(SymbolTableTest, NamesTheMissingFiles) {
  const absl::Status status =
      LoadMath({"libuopd-absent.so.9", "/nowhere/libuopd-absent.so.8"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(StatusText(status), HasSubstr("libuopd-absent.so.9"));
  EXPECT_THAT(StatusText(status), HasSubstr("/nowhere/libuopd-absent.so.8"));
}

TEST(SymbolTableTest, NamesTheMissingSymbol) {
  auto library = Library::Open({"libm.so.6"});
  ASSERT_TRUE(library.ok());
  void (*pointer)() = nullptr;
  const absl::Status status = LoadSymbols(*library, {{"cuNoSuchCall", &pointer, true}});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(StatusText(status), HasSubstr("libm.so.6"));
  EXPECT_THAT(StatusText(status), HasSubstr("cuNoSuchCall"));
  EXPECT_TRUE(LoadSymbols(*library, {{"cuNoSuchCall", &pointer, false}}).ok());
}

}  // namespace
}  // namespace uopd::devices::dl
