// SPDX-License-Identifier: MIT
#include "client/data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"

namespace uopd::client {
namespace {

using ::testing::HasSubstr;

// A file as NumPy writes it.
std::string File(std::string header, std::string data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version), out += '\0';
  const size_t n = header.size();
  out += static_cast<char>(n & 0xff), out += static_cast<char>(n >> 8);
  if (version > 1) out += '\0', out += '\0';
  return out + header + data;
}
constexpr char kHeader[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";

TEST(NpyTest, ReadsWhatNumpyWrites) {
  for (int version : {1, 2, 3}) {
    auto a = ParseNpy(File(kHeader, std::string(24, 'x'), version));
    ASSERT_TRUE(a.ok()) << a.status();
    EXPECT_EQ(a->dtype, ir::Dtype::F32);
    EXPECT_EQ(a->dims, (ir::Dims{2, 3}));
    EXPECT_EQ(a->bytes, std::string(24, 'x'));
  }
  EXPECT_EQ(ParseNpy(File("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "x"))->dims,
            ir::Dims());
  EXPECT_EQ(ParseNpy(File("{\"shape\":(0,7),\"descr\":\"<i8\",\"fortran_order\":False}", ""))->dims,
            (ir::Dims{0, 7}));
}

TEST(NpyTest, RoundTripsEveryDtype) {
  for (int d = 0; d < ir::kDtypeCount; ++d) {
    const auto dtype = static_cast<ir::Dtype>(d);
    NpyArray array{
        dtype, {1, 2, 1}, std::string(static_cast<size_t>(2 * ir::ByteSize(dtype)), '\x01')};
    auto file = FormatNpy(array);
    const bool numpy_has_it = dtype != ir::Dtype::Void && dtype != ir::Dtype::Index &&
                              dtype != ir::Dtype::BF16 && dtype != ir::Dtype::F8E4M3 &&
                              dtype != ir::Dtype::F8E5M2 && dtype != ir::Dtype::TF32;
    ASSERT_EQ(file.ok(), numpy_has_it) << ir::Name(dtype);
    if (!file.ok()) continue;
    EXPECT_EQ((file->size() - array.bytes.size()) % 64, 0u);
    auto back = ParseNpy(*file);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->dtype, dtype);
    EXPECT_EQ(back->dims, array.dims);
    EXPECT_EQ(back->bytes, array.bytes);
  }
}

TEST(NpyTest, BoolsBecomeZeroOrOne) {
  auto a = ParseNpy(File("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}",
                         std::string("\x00\x01\xff", 3)));
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->bytes, std::string("\x00\x01\x01", 3));
}

TEST(NpyTest, SaysWhatIsWrong) {
  const std::string data(24, 'x');
  const std::pair<std::string, const char*> cases[] = {
      {"", "no npy file"},
      {"garbage that is long enough", "no npy file"},
      {File(kHeader, data, 4), "version 4"},
      {File(kHeader, data).substr(0, 40), "cut off in its header"},
      {File(kHeader, data.substr(1)), "takes 24 bytes; the file has 23"},
      {File(kHeader, data + "x"), "the file has 25"},
      {File("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}", data), "big-endian"},
      {File("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", data), "Fortran"},
      {File("{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}", data), "not supported"},
      {File("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", data), "not supported"},
      {File("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", data),
       "structured"},
      {File("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3)}", data), "shape"},
      {File("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, "
            "4611686018427387904)}",
            data),
       "takes"},
      {File("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", data),
       "shape"},
      {File("{'descr': '<f4', 'fortran_order': False", data), "malformed"},
      {File("{'descr': '<f4', 'shape': (2, 3)}", data), "lacks a key"},
      {File("{'evil': 1}", data), "unknown key"},
      {File("[]", data), "no dictionary"},
  };
  for (const auto& [file, what] : cases) {
    const absl::Status s = ParseNpy(file).status();
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(StatusText(s), HasSubstr(what));
  }
}

TEST(NpyTest, SurvivesEveryPrefixAndEveryFlippedByte) {
  const std::string file = File(kHeader, std::string(24, 'x'));
  for (size_t n = 0; n < file.size(); ++n) EXPECT_FALSE(ParseNpy(file.substr(0, n)).ok());
  int accepted = 0;
  for (size_t i = 0; i < file.size() - 24; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = file;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      auto a = ParseNpy(damaged);
      if (!a.ok()) continue;
      ++accepted;
      EXPECT_EQ(a->bytes.size(), 24u);
      EXPECT_EQ(ir::Product(a->dims) * ir::ByteSize(a->dtype), 24);
    }
  }
  EXPECT_LT(accepted, 40);  // '<f4' to '<i4', spaces to newlines
}

}  // namespace
}  // namespace uopd::client
