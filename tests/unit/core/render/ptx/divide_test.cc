// SPDX-License-Identifier: MIT
// Divisions in PTX, against those of C++: what is written is computed here, instruction by
// instruction.
#include "core/render/ptx/divide.h"

#include <map>
#include <random>
#include <sstream>

#include "core/ir/io/print.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace uopd {
namespace {

constexpr uint64_t kLow = UINT32_MAX;

// Computes the instructions that a division may consist of.
class PtxMachine {
 public:
  PtxMachine(const std::string& body, uint64_t x) {
    registers_["%x"] = x;
    std::istringstream lines(body);
    for (std::string line; std::getline(lines, line);) Step(line);
  }
  uint64_t Of(const std::string& name) { return registers_.at(name); }

 private:
  uint64_t Value(std::string operand) {
    operand = operand.substr(0, operand.find_first_of(",;"));
    if (operand[0] == '%') return registers_.at(operand);
    return operand[0] == '-' ? static_cast<uint64_t>(std::stoll(operand)) : std::stoull(operand);
  }
  void Step(const std::string& line) {
    std::istringstream words(line);
    std::string op, to, a, b, c;
    words >> op >> to >> a >> b >> c;
    const uint64_t x = Value(a), y = b.empty() ? 0 : Value(b), z = c.empty() ? 0 : Value(c);
    uint64_t& out = registers_[to.substr(0, to.size() - 1)];
    if (op == "mul.hi.u32")
      out = (x & kLow) * (y & kLow) >> 32;
    else if (op == "mad.lo.s32")
      out = ((x * y) + z) & kLow;
    else if (op == "shr.u32")
      out = (x & kLow) >> y;
    else if (op == "shr.u64")
      out = x >> y;
    else if (op == "and.b32")
      out = x & y & kLow;
    else if (op == "and.b64")
      out = x & y;
    else if (op == "cvt.u32.u64" || op == "cvt.u64.u32")
      out = x & kLow;
    else if (op == "div.u32")
      out = (x & kLow) / (y & kLow);
    else if (op == "rem.u32")
      out = (x & kLow) % (y & kLow);
    else if (op == "div.u64")
      out = x / y;
    else if (op == "rem.u64")
      out = x % y;
    else
      ADD_FAILURE() << line;
  }
  std::map<std::string, uint64_t> registers_;
};

// The body of op(x, divisor) for x from 0 to largest, or "" if it is left to others.
std::string Division(std::string_view op, std::string_view dtype, int64_t largest, int64_t divisor,
                     std::string& result) {
  ir::UOpContext ctx;
  const auto type = Cat("<", dtype, "> ");
  const ir::UOp u = ir::Parse(ctx, Cat("%0 = CONST", type, "{", largest + 1, "}\n%1 = RANGE", type,
                                       "%0 {0, LOOP}\n%2 = CONST", type, "{", divisor,
                                       "}\n%3 = ", op, type, "%1, %2\n"))
                        .value();
  render::PtxText text(ctx);
  text.Set(u.src(0), {"%x"});
  const auto name = render::MaybePtxQuotient(text, u);
  result = name.value_or("");
  return text.body();
}

void Check(std::string_view dtype, int64_t largest, int64_t divisor) {
  std::mt19937_64 random(static_cast<uint64_t>(largest ^ divisor));
  std::string quotient, remainder;
  const std::string div = Division("CDIV", dtype, largest, divisor, quotient),
                    mod = Division("CMOD", dtype, largest, divisor, remainder);
  std::vector<int64_t> xs = {0, 1, largest, largest - 1, divisor - 1, divisor, largest / 2};
  for (int64_t multiple : {largest / divisor, largest / divisor / 2, int64_t{1}})
    for (int64_t near : {-1, 0, 1}) xs.push_back(multiple * divisor + near);
  for (int i = 0; i < 20; ++i)
    xs.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(largest)));
  for (const int64_t x : xs) {
    if (x < 0 || x > largest) continue;
    ASSERT_EQ(PtxMachine(div, static_cast<uint64_t>(x)).Of(quotient), x / divisor)
        << x << " / " << divisor << " up to " << largest << "\n"
        << div;
    ASSERT_EQ(PtxMachine(mod, static_cast<uint64_t>(x)).Of(remainder), x % divisor)
        << x << " % " << divisor << " up to " << largest << "\n"
        << mod;
  }
}

TEST(PtxDivideTest, QuotientsAreExact) {
  std::mt19937_64 random(1);
  std::vector<int64_t> divisors = {2, 3, 5, 7, 8, 13, 28, 56, 112, 641, 1 << 20, 65537, INT32_MAX};
  for (int i = 0; i < 100; ++i)
    divisors.push_back(2 + static_cast<int64_t>(random() % INT32_MAX >> random() % 31));
  for (const int64_t d : divisors) {
    Check("i32", INT32_MAX - 1, d);
    Check("i32", 1 + static_cast<int64_t>(random() % (INT32_MAX - 2) >> random() % 30), d);
    Check("i64", 100'000, d);
    Check("i64", UINT32_MAX, d);
    Check("i64", int64_t{1} << 50, d);
  }
  Check("i64", int64_t{1} << 50, int64_t{1} << 40);
  Check("i64", int64_t{1} << 50, (int64_t{1} << 40) + 1);
}

// A factor is exact up to the bound, or there is none.
TEST(PtxDivideTest, EveryReciprocalIsExactUpToItsBound) {
  for (const uint32_t divisor : {3u, 7u, 641u, 0x7fffffffu, 0xfffffffeu, UINT32_MAX}) {
    for (const uint32_t largest : {1u, 1000u, 0x7fffffffu, 0x80000000u, UINT32_MAX}) {
      const auto r = render::ReciprocalOf(divisor, largest);
      if (largest <= 0x7fffffffu) {
        ASSERT_TRUE(r) << divisor;
      }
      if (!r) continue;
      for (uint64_t multiple : {uint64_t{largest} / divisor, uint64_t{1}, uint64_t{2}}) {
        for (uint64_t x : {multiple * divisor, multiple * divisor + divisor - 1}) {
          if (x > largest) continue;
          EXPECT_EQ(x * r->factor >> 32 >> r->shift, x / divisor) << x << " / " << divisor;
        }
      }
    }
  }
  EXPECT_FALSE(render::ReciprocalOf(7, UINT32_MAX));  // needs a factor of 33 bits
}

// NVIDIA's compiler is slow with signed divisions.
TEST(PtxDivideTest, IndicesNeedNoSignedDivision) {
  std::string result;
  EXPECT_THAT(Division("CDIV", "i32", 1000, 8, result), testing::HasSubstr("shr.u32"));
  EXPECT_THAT(Division("CMOD", "i32", 1000, 8, result), testing::HasSubstr("and.b32"));
  EXPECT_THAT(Division("CDIV", "i32", 1000, 13, result), testing::HasSubstr("mul.hi.u32"));
  EXPECT_THAT(Division("CMOD", "i64", 1000, 13, result), testing::HasSubstr("mad.lo.s32"));
  // A divisor that is negative is none of ours.
  EXPECT_EQ(Division("CDIV", "i32", 1000, -8, result), "");
  EXPECT_EQ(result, "");
}

}  // namespace
}  // namespace uopd
