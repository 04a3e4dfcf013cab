// SPDX-License-Identifier: MIT
// uopctl cache against real daemons: looking, checking, making room, carrying entries to another
// daemon, warming up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cache/bundle/bundle.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kMatmul[] = UOPD_SOURCE_DIR "/docs/examples/matmul.uop";
constexpr char kMeasured[] = "uopd_tune_candidates_total{outcome=\"measured\"}";

struct CtlResult {
  int code = -1;
  std::string out;
  // What --json has as the result.
  json parsed() const { return json::parse(out, nullptr, false).value("data", json()); }
};
// uopctl with the daemon's address, standard error included.
CtlResult Ctl(const DaemonProcess& daemon, const std::string& arguments) {
  CtlResult result;
  FILE* pipe = popen(
      Cat(UOPCTL_BINARY, " --address ", daemon.listen(), " ", arguments, " 2>&1").c_str(), "r");
  char text[4096];
  while (const size_t n = fread(text, 1, sizeof text, pipe)) result.out.append(text, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

// The file of a secret that signs bundles.
std::string KeyFile(const TemporaryFolder& folder, char digit) {
  const std::string path = (folder.path() / Cat("key", digit)).string();
  std::ofstream(path) << std::string(64, digit) << "\n";
  chmod(path.c_str(), 0600);
  return path;
}

class CacheOperatorE2eTest : public ::testing::Test {
 protected:
  std::vector<std::string> Flags() const {
    return {"--tune-candidates=8", "--cache-cluster-sign-key=" + key_};
  }
  std::filesystem::path Folder(const char* name) {
    const auto path = folder_.path() / name;
    std::filesystem::create_directories(path);
    return path;
  }

  TemporaryFolder folder_;
  const std::string key_ = KeyFile(folder_, '1');
  DaemonProcess daemon_{Folder("a"), Flags()};
};

TEST_F(CacheOperatorE2eTest, LooksChecksPinsAndMakesRoom) {
  ASSERT_EQ(Ctl(daemon_, Cat("prepare ", kMatmul)).code, 0);
  const json kernels = Ctl(daemon_, "--json cache ls --kind kernel").parsed();
  ASSERT_EQ(kernels["entries"].size(), 1u) << kernels.dump();
  const json kernel = kernels["entries"][0];
  const std::string key = kernel["key"].get<std::string>();
  EXPECT_THAT(kernel["title"].get<std::string>(), HasSubstr("r_3_2_4"));
  EXPECT_THAT(Ctl(daemon_, "cache ls --by bytes").out, HasSubstr(key.substr(0, 12)));

  const json shown = Ctl(daemon_, Cat("--json cache show ", key.substr(0, 10))).parsed();
  EXPECT_EQ(shown["key"], key);
  EXPECT_EQ(shown["damaged"], false);
  EXPECT_EQ(shown["used_here"], true);
  EXPECT_THAT(shown["environment"].get<std::string>(), HasSubstr("toolchain="));
  EXPECT_EQ(shown["facts"]["kernel"], kernel["title"]);
  EXPECT_THAT(Ctl(daemon_, Cat("cache show ", key)).out, HasSubstr("matches"));

  // The key of a choice has a digest of what decided it; this daemon can say what is behind it.
  const json choices = Ctl(daemon_, "--json cache ls --kind choice").parsed();
  const std::string choice = choices["entries"][0]["key"].get<std::string>();
  const json explained = Ctl(daemon_, Cat("--json cache show ", choice)).parsed();
  EXPECT_THAT(explained["environment"].get<std::string>(), HasSubstr("facts="));
  EXPECT_THAT(explained["facts"].value("facts", ""),
              AllOf(HasSubstr("codegen="), HasSubstr("threads="), HasSubstr("features=")));

  const CtlResult checked = Ctl(daemon_, "cache verify");
  EXPECT_EQ(checked.code, 0) << checked.out;
  EXPECT_THAT(checked.out, HasSubstr(" 0 bad"));

  EXPECT_EQ(Ctl(daemon_, Cat("cache pin ", key)).code, 0);
  EXPECT_EQ(Ctl(daemon_, "--json cache ls --pinned").parsed()["entries"].size(), 1u);
  EXPECT_EQ(Ctl(daemon_, "cache evict").code, 2);  // needs a choice
  const json would = Ctl(daemon_, "--json cache evict --all --dry-run").parsed();
  EXPECT_EQ(would["pinned"], 1);
  const json gone = Ctl(daemon_, "--json cache evict --all").parsed();
  EXPECT_EQ(gone["entries"], would["entries"]);
  EXPECT_EQ(Ctl(daemon_, "--json cache ls").parsed()["entries"].size(), 1u);
  EXPECT_EQ(Ctl(daemon_, Cat("cache unpin ", key)).code, 0);
  EXPECT_EQ(Ctl(daemon_, Cat("--json cache evict --key ", key)).parsed()["entries"], 1);
  EXPECT_EQ(Ctl(daemon_, Cat("cache show ", key)).code, 5);
  EXPECT_EQ(Ctl(daemon_, "cache ls --key nothex").code, 2);
}

TEST_F(CacheOperatorE2eTest, ABundleCarriesKernelsAndWinnersToAnotherDaemon) {
  const CtlResult warm = Ctl(daemon_, Cat("--json cache warm --beam 2 --wait 90 ", kMatmul));
  ASSERT_EQ(warm.code, 0) << warm.out;
  EXPECT_EQ(warm.parsed()["graphs"][0]["kernels_tuned"], 1) << warm.out;
  EXPECT_GE(daemon_.Metric(kMeasured), 1);
  const std::string bundle = (folder_.path() / "b.uopb").string();
  const CtlResult exported = Ctl(daemon_, Cat("--json cache export ", bundle));
  ASSERT_EQ(exported.code, 0) << exported.out;
  EXPECT_GE(exported.parsed()["entries"], 5);  // graph, schedule, winner, kernel, its choice

  DaemonProcess other(Folder("b"), Flags());
  const json differences = Ctl(other, Cat("--json cache diff ", bundle)).parsed();
  EXPECT_EQ(differences["only_a"].size(), exported.parsed()["entries"].get<size_t>());
  const CtlResult warmed = Ctl(other, Cat("--json cache warm --beam 2 --bundle ", bundle));
  ASSERT_EQ(warmed.code, 0) << warmed.out;
  const json graph = warmed.parsed()["graphs"][0];
  EXPECT_EQ(graph["kernels_compiled"], 0) << warmed.out;
  EXPECT_EQ(graph["kernels_tuned"], 1) << warmed.out;
  EXPECT_EQ(other.Metric("uopd_imported_winners_total{result=\"proven\"}"), 1);
  EXPECT_EQ(other.Metric(kMeasured), -1);  // no search
  // The winner was measured again, so its time differs; it is right there, too.
  EXPECT_EQ(Ctl(other, "cache verify --run").code, 0);
  const json again = Ctl(other, Cat("--json cache import ", bundle)).parsed();
  EXPECT_EQ(again["outcomes"].value("imported", 0), 0) << again.dump();
  EXPECT_EQ(again["outcomes"].value("refused", 0), 0) << again.dump();
}

TEST_F(CacheOperatorE2eTest, BundlesOfStrangersAndCutOnesAreRefused) {
  ASSERT_EQ(Ctl(daemon_, Cat("prepare ", kMatmul)).code, 0);
  const std::string bundle = (folder_.path() / "b.uopb").string();
  ASSERT_EQ(Ctl(daemon_, Cat("cache export ", bundle)).code, 0);
  DaemonProcess stranger(Folder("b"), {"--cache-cluster-sign-key=" + KeyFile(folder_, '2')});
  CtlResult refused = Ctl(stranger, Cat("cache import ", bundle));
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.out, HasSubstr("does not trust"));
  EXPECT_EQ(RowsOf(stranger, "kernel"), 0u);

  const std::string bytes = ReadFile(bundle), cut = (folder_.path() / "cut.uopb").string();
  std::ofstream(cut, std::ios::binary) << bytes.substr(0, bytes.size() - 5);
  refused = Ctl(daemon_, Cat("cache import --dry-run ", cut));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, HasSubstr("was cut"));
  std::ofstream(cut, std::ios::binary) << bytes + "more";
  EXPECT_EQ(Ctl(daemon_, Cat("cache import --dry-run ", cut)).code, 1);

  // Opts that do not apply to the kernel, signed by a trusted key: they are never used.
  ASSERT_EQ(Ctl(daemon_, Cat("cache warm --beam 2 --wait 90 ", kMatmul)).code, 0);
  const std::string winner = Ctl(daemon_, "--json cache ls --kind tuning")
                                 .parsed()["entries"][0]["key"]
                                 .get<std::string>();
  ASSERT_EQ(Ctl(daemon_, Cat("cache export --kind tuning ", bundle)).code, 0);
  const cache::SealKey key = *cache::SealKey::Read(key_);
  cache::BundleReader reader({key}, {});
  cache::BundleList list;
  std::string record;
  ASSERT_TRUE(reader
                  .Feed(ReadFile(bundle),
                        [&](cache::BundleReader::Record one) {
                          // UNROLL of axis 99 by 99, and the rest of the record as it was.
                          const cache::Row& row = *one.result.row;
                          const std::string opts("\x01\x01\x63\xc6\x01", 5);
                          const size_t rest = 1 + 3 * static_cast<size_t>(row.value[0]);
                          const cache::Row bad =
                              cache::MakeRow(cache::KeyOf(row), opts + row.value.substr(rest), 1,
                                             row.created_us + 1, row.fence + 1);
                          list.items.push_back({one.address, bad.checksum});
                          record = WriteBundleRecord(bad, key);
                        })
                  .ok());
  std::ofstream(bundle, std::ios::binary) << WriteBundleHead(list, key) + record;
  const CtlResult wrong = Ctl(daemon_, Cat("cache import --run ", bundle));
  EXPECT_EQ(wrong.code, 1) << wrong.out;
  EXPECT_THAT(wrong.out, HasSubstr("1 unproven"));
  EXPECT_THAT(wrong.out, HasSubstr("1 wrong_winner"));
  EXPECT_EQ(Ctl(daemon_, "--json cache ls --kind unproven").parsed()["entries"].size(), 0u);
  EXPECT_EQ(Ctl(daemon_, "--json cache ls --kind tuning").parsed()["entries"][0]["key"], winner);
}

// The folder may be one where others write, too.
TEST_F(CacheOperatorE2eTest, ABundleReplacesNothingButFiles) {
  namespace fs = std::filesystem;
  ASSERT_EQ(Ctl(daemon_, Cat("prepare ", kMatmul)).code, 0);
  const fs::path shared = Folder("shared"), victim = shared / "victim";
  std::ofstream(victim) << "mine";
  const auto refused = [&](const char* name, const char* why) {
    const fs::file_type kind = fs::symlink_status(shared / name).type();
    const CtlResult result = Ctl(daemon_, Cat("cache export ", (shared / name).string()));
    EXPECT_EQ(result.code, 2) << name;
    EXPECT_THAT(result.out, HasSubstr(why));
    EXPECT_EQ(fs::symlink_status(shared / name).type(), kind) << name;
  };
  fs::create_symlink(victim, shared / "link");
  refused("link", "is a symbolic link");
  ASSERT_EQ(mkfifo((shared / "pipe").c_str(), 0666), 0);
  refused("pipe", "is no regular file");
  fs::create_directory(shared / "folder");
  refused("folder", "is a folder");
  // Somebody has put a link beside the bundle, under the name that an older uopctl wrote to first.
  // The export does not use it.
  fs::create_symlink(victim, shared / "b.uopb.partial");
  ASSERT_EQ(Ctl(daemon_, Cat("cache export ", (shared / "b.uopb").string())).code, 0);
  EXPECT_TRUE(ReadFile(shared / "b.uopb").starts_with("UOPB"));
  EXPECT_TRUE(fs::is_symlink(shared / "b.uopb.partial"));
  EXPECT_EQ(ReadFile(victim), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(shared), fs::directory_iterator()), 6);
  // A stream is written as it is.
  EXPECT_TRUE(Ctl(daemon_, "cache export /dev/stdout").out.starts_with("UOPB"));
  EXPECT_EQ(Ctl(daemon_, "cache export /dev/null").code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(CacheOperatorE2eTest, WarmGoesOnAfterAFailure) {
  const std::string list = (folder_.path() / "graphs").string();
  std::ofstream(list) << "# the service's graphs\n\n" << kMatmul << "\n/does/not/exist.uop\n";
  const CtlResult warm = Ctl(daemon_, Cat("cache warm --jobs 2 --list ", list));
  EXPECT_EQ(warm.code, 1);
  EXPECT_THAT(warm.out, HasSubstr("failed"));
  EXPECT_THAT(warm.out, HasSubstr("matmul.uop"));
  EXPECT_EQ(Ctl(daemon_, Cat("--json prepare ", kMatmul)).parsed()["kernels_compiled"], 0);
  EXPECT_EQ(Ctl(daemon_, "cache warm").code, 2);
}

TEST_F(CacheOperatorE2eTest, OnlyOperatorsMayLook) {
  const std::string tokens = (folder_.path() / "tokens").string();
  std::ofstream(tokens) << "alice " << HashBytes("a").Hex() << "\nbob " << HashBytes("b").Hex()
                        << "\n";
  const std::string alice = (folder_.path() / "alice").string(),
                    bob = (folder_.path() / "bob").string();
  std::ofstream(alice) << "a";
  std::ofstream(bob) << "b";
  DaemonProcess daemon(Folder("b"), {"--server-token-file=" + tokens, "--server-operators=alice"});
  ASSERT_EQ(Ctl(daemon, Cat("--token-file ", bob, " prepare ", kMatmul)).code, 0);
  // The nearest entry may be of anybody.
  const std::string own = (folder_.path() / "own.uop").string();
  std::ofstream(own)
      << "%0 = CONST<index> {5}\n%1 = STACK<index> %0\n%2 = PARAM<f32> %1 {0, GLOBAL}\n"
      << "%3 = PARAM<f32> %1 {1, GLOBAL}\n%4 = STORE %2, %3\n%5 = SINK %4\n";
  const std::string explain = Cat(" cache explain ", own);
  EXPECT_THAT(Ctl(daemon, Cat("--token-file ", bob, explain)).out,
              HasSubstr("only operators of the daemon learn of the nearest entry"));
  EXPECT_THAT(Ctl(daemon, Cat("--token-file ", alice, explain)).out, HasSubstr("alike"));
  const std::string bundle = (folder_.path() / "x").string();
  for (const std::string& command :
       {std::string("cache ls"), std::string("cache top"), std::string("cache show 0"),
        std::string("cache verify"), std::string("cache evict --all"), std::string("cache pin 0"),
        Cat("cache export ", bundle), Cat("cache import ", tokens), std::string("quarantine list"),
        std::string("quarantine clear")}) {
    const CtlResult refused = Ctl(daemon, Cat("--token-file ", bob, " ", command));
    EXPECT_EQ(refused.code, 4) << command;
    EXPECT_THAT(refused.out, HasSubstr("bob is no operator")) << command;
    const CtlResult allowed = Ctl(daemon, Cat("--token-file ", alice, " ", command));
    EXPECT_THAT(allowed.out, ::testing::Not(HasSubstr("no operator"))) << command;
  }
  EXPECT_EQ(Ctl(daemon, Cat("--token-file ", bob, " cache stats")).code, 0);
}

}  // namespace
}  // namespace uopd::e2e
