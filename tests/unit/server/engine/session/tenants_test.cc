// SPDX-License-Identifier: MIT
#include "server/engine/session/tenants.h"

#include <gtest/gtest.h>

#include <random>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

std::string LineOf(const std::string& name, const std::string& token) {
  return Cat(name, " ", HashBytes(token).Hex(), "\n");
}

TEST(TenantsTest, NobodyHasToSayAnythingWithoutTokens) {
  const Tenants tenants;
  EXPECT_FALSE(tenants.required());
  EXPECT_EQ(*tenants.Authenticate(""), "");
  EXPECT_EQ(*tenants.Authenticate("Bearer whatever"), "");
}

TEST(TenantsTest, TokensSayWhoseACallIs) {
  const auto tenants = Tenants::Parse(Cat("# staff\n\n  \t\r\n", LineOf("alice", "k1"),
                                          LineOf("bob", "k2"), LineOf("alice", "k3")));
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  EXPECT_TRUE(tenants->required());
  EXPECT_EQ(*tenants->Authenticate("Bearer k1"), "alice");
  EXPECT_EQ(*tenants->Authenticate("Bearer k2"), "bob");
  EXPECT_EQ(*tenants->Authenticate("Bearer k3"), "alice");
  for (const char* bad : {"", "one", "bearer k1", "Bearer", "Bearer ", "Bearer k1 ", "Bearer k",
                          "Basic k1", "Bearer alice"}) {
    const absl::Status status = tenants->Authenticate(bad).status();
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << bad;
    EXPECT_EQ(StatusText(status).find("k1"), std::string::npos);
  }
}

TEST(TenantsTest, OperatorsAreTenantsThatAreNamed) {
  auto tenants = Tenants::Parse(Cat(LineOf("alice", "k1"), LineOf("bob", "k2")));
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  // Nobody is named: of several tenants none is one, a tenant alone is one.
  EXPECT_FALSE(tenants->IsOperator("bob"));
  EXPECT_TRUE(Tenants::Parse(LineOf("alice", "k1"))->IsOperator("alice"));
  EXPECT_TRUE(Tenants().IsOperator(""));
  ASSERT_TRUE(tenants->SetOperators("alice").ok());
  EXPECT_TRUE(tenants->IsOperator("alice"));
  EXPECT_FALSE(tenants->IsOperator("bob"));
  EXPECT_FALSE(tenants->IsOperator(""));
  ASSERT_TRUE(tenants->SetOperators("alice, bob ,").ok());
  EXPECT_TRUE(tenants->IsOperator("bob"));
  const absl::Status unknown = tenants->SetOperators("alice,carol");
  EXPECT_TRUE(absl::IsInvalidArgument(unknown));
  EXPECT_NE(unknown.message().find("carol"), std::string::npos);
  // Without tokens nobody can be told from others.
  EXPECT_FALSE(Tenants().SetOperators("alice").ok());
  EXPECT_TRUE(Tenants().SetOperators("").ok());
}

TEST(TenantsTest, ABadFileNamesItsLine) {
  const std::string good = LineOf("a", "t");
  const std::pair<std::string, std::string> cases[] = {
      {"", "it has no token"},
      {"# nothing\n", "it has no token"},
      {good + "alice\n", "line 2: is not `NAME SHA256-OF-THE-TOKEN`"},
      {"alice " + std::string(63, 'a'), "line 1: a SHA-256 has 64 hexadecimal digits"},
      {"alice " + std::string(64, 'g'), "line 1: a SHA-256 has 64 hexadecimal digits"},
      {"a/b " + std::string(64, 'a'),
       "line 1: a name has up to 64 letters, digits, `-`, `_` and `.`"},
      {good + LineOf("b", "t"), "line 2: this token was given before"},
      {LineOf("-", "t"), "line 1: the name `-` stands for other callers in metrics"},
      {LineOf("other", "t"), "line 1: the name `other` stands for other callers in metrics"},
  };
  for (const auto& [text, want] : cases) {
    EXPECT_EQ(StatusText(Tenants::Parse(text).status()), want) << text;
  }
  EXPECT_TRUE(absl::IsNotFound(Tenants::Read("/does/not/exist").status()));
}

TEST(TenantsTest, NoBytesDoHarm) {
  const std::string good = LineOf("alice", "k1") + LineOf("bob", "two");
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string text = good.substr(random() % good.size());
    for (int flips = 0; flips < 3; ++flips) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto tenants = Tenants::Parse(text);
    EXPECT_TRUE(!tenants.ok() || tenants->required());
  }
}

}  // namespace
}  // namespace uopd::engine
