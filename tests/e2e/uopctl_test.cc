// SPDX-License-Identifier: MIT
// uopctl as a tool for scripts and shells: JSON, exit statuses, wrong arguments, completions,
// manual pages.
#include "tests/e2e/uopctl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "core/base/text.h"

namespace uopd::e2e {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGraphFile[] = UOPD_SOURCE_DIR "/docs/examples/matmul.uop";
// Nobody listens there: ports below 1024 are for root, and this one is for nobody.
constexpr char kNobody[] = "--address 127.0.0.1:9 ";

// Times are seconds, sizes are bytes, and both are numbers.
void ExpectUnits(const json& value, const std::string& where) {
  if (value.is_array()) {
    for (const json& one : value) ExpectUnits(one, where);
  }
  if (!value.is_object()) return;
  for (const auto& [key, below] : value.items()) {
    for (const char* other : {"_us", "_ms", "_ns", "_s", "_minutes", "_hours", "_mib", "_kb"})
      EXPECT_FALSE(key.ends_with(other)) << where << " has " << key;
    if (key.find("seconds") != std::string::npos) {
      EXPECT_TRUE(key.ends_with("_seconds")) << where << " has " << key;
      EXPECT_TRUE(below.is_number() || below.is_null()) << where << " " << key;
    }
    EXPECT_TRUE(key != "bytes" && key != "us" && key != "time") << where << " has " << key;
    if (key.ends_with("_bytes")) {
      EXPECT_TRUE(below.is_number()) << where << " " << key;
    }
    if (key != "facts" && key != "labels") ExpectUnits(below, where);
  }
}

class UopctlTest : public ::testing::Test {
 protected:
  // For a daemon.
  std::filesystem::path Folder() const {
    const auto path = folder_.path() / "d";
    std::filesystem::create_directories(path);
    return path;
  }

  TemporaryFolder folder_;
};

TEST_F(UopctlTest, EveryCommandPrintsOneObject) {
  const std::string key = (folder_.path() / "key").string(),
                    bundle = (folder_.path() / "b.uopb").string();
  std::ofstream(key) << std::string(64, '1') << "\n";
  std::filesystem::permissions(key, std::filesystem::perms::owner_all);
  DaemonProcess daemon(Folder(), {"--cache-cluster-sign-key=" + key, "--tune-candidates=4"});
  const std::string commands[] = {
      "devices",
      "devices --verbose",
      "status",
      "sessions",
      "config",
      "config --changed",
      "cluster",
      Cat("prepare ", kGraphFile),
      Cat("run ", kGraphFile),
      Cat("profile --runs 2 ", kGraphFile),
      Cat("cache warm ", kGraphFile),
      Cat("tune --beam 1 ", kGraphFile),
      "tune ls",
      "cache stats",
      "cache ls",
      "cache top",
      "cache verify",
      "cache evict --all --dry-run",
      Cat("cache explain ", kGraphFile),
      Cat("cache export ", bundle),
      Cat("cache import ", bundle),
      Cat("cache diff ", bundle),
      "quarantine list",
      "quarantine clear",
      Cat("metrics --http ", daemon.http()),
      Cat("metrics uopd_sessions --http ", daemon.http()),
      Cat("diagnose --output ", (folder_.path() / "d.tar.gz").string(), " --http ", daemon.http()),
      "completion bash",
      "man",
      "drain",
  };
  for (const std::string& command : commands) {
    const UopctlRun run = RunCtl(daemon, Cat("--json ", command));
    EXPECT_EQ(run.code, 0) << command << "\n" << run.out << run.err;
    const json envelope = run.envelope();
    ASSERT_TRUE(envelope.is_object()) << command << "\n" << run.out;
    EXPECT_TRUE(run.out.starts_with("{\"schema\":1,\"command\":\"")) << run.out;
    EXPECT_TRUE(command.starts_with(envelope["command"].get<std::string>())) << run.out;
    EXPECT_EQ(envelope["ok"], true) << command;
    EXPECT_TRUE(envelope["data"].is_object()) << command << "\n" << run.out;
    EXPECT_FALSE(envelope.contains("error")) << command;
    ExpectUnits(envelope["data"], command);
    if (command != "cache stats") continue;
    // The kinds that the command line knows are those that the daemon has.
    for (const json& store : envelope["data"]["stores"]) {
      const std::string kind = store["store"].get<std::string>();
      EXPECT_EQ(RunCtl(daemon, Cat("cache ls --kind ", kind)).code, 0) << kind;
    }
  }
}

TEST_F(UopctlTest, EndsAreToldByExitStatusAndKind) {
  DaemonProcess daemon(Folder());
  const std::string own = Cat("--address ", daemon.listen(), " ");
  struct Row {
    std::string arguments;
    int code;
    const char* kind;
  };
  const std::vector<Row> rows = {
      {own + "status", 0, "ok"},
      {own + "cache show 00ff", 5, "not_found"},
      {own + "cache pin 00ff", 5, "not_found"},
      {own + "quarantine clear 00ff", 5, "not_found"},
      {own + "tune attach 00ff", 5, "not_found"},
      {own + "tune cancel 00ff", 5, "not_found"},
      {own + "tune svg 00ff", 5, "not_found"},
      {own + "run /does/not/exist.uop", 5, "not_found"},
      {own + "cache import /does/not/exist.uopb", 5, "not_found"},
      {own + "--token-file /does/not/exist status", 5, "not_found"},
      {"viz /does/not/exist", 5, "not_found"},
      {"viz /", 2, "usage"},
      {own + "run /", 2, "usage"},
      {own + "run /dev/zero", 4, "refused"},
      {own + "prepare /", 2, "usage"},
      {own + "tune /", 2, "usage"},
      {own + "cache import /", 2, "usage"},
      {own + "cache warm --list /", 2, "usage"},
      {own + "cache export /tmp/b.uopb", 4, "refused"},  // no key signs
      {Cat(own, "tune --beam 1 --device CUDA:99 ", kGraphFile), 2, "usage"},
      {own + "cache evict", 2, "usage"},
      {own + "cache warm", 2, "usage"},
      {own + "tune", 2, "usage"},
      {Cat(own, "run --input a7=x.npy ", kGraphFile), 2, "usage"},
      {Cat(kNobody, "status"), 3, "unreachable"},
      {Cat(kNobody, "devices"), 3, "unreachable"},
      {Cat(kNobody, "cache ls"), 3, "unreachable"},
      {Cat(kNobody, "drain --wait"), 3, "unreachable"},
      {"metrics --http 127.0.0.1:9", 3, "unreachable"},
      {"replay /does/not/exist", 125, "not_found"},
  };
  for (const Row& row : rows) {
    const UopctlRun text = RunCtl(row.arguments), run = RunCtl("--json " + row.arguments);
    EXPECT_EQ(text.code, row.code) << row.arguments << "\n" << text.err;
    EXPECT_EQ(run.code, row.code) << row.arguments << "\n" << run.out;
    EXPECT_EQ(run.envelope()["ok"], row.code == 0) << run.out;
    if (row.code == 0) continue;
    EXPECT_EQ(text.out, "") << row.arguments;
    EXPECT_THAT(text.err, HasSubstr("uopctl: ")) << row.arguments;
    EXPECT_EQ(run.err, "") << row.arguments;
    EXPECT_EQ(run.error()["kind"], row.kind) << run.out;
    EXPECT_EQ(run.error()["exit_status"], row.code) << run.out;
    EXPECT_NE(run.error()["message"], "") << run.out;
  }
}

// None of these calls a daemon.
TEST_F(UopctlTest, WrongArgumentsAreUsageErrors) {
  struct Row {
    const char* arguments;
    const char* says;
  };
  const std::vector<Row> rows = {
      {"", "subcommand is required"},
      {"bogus", "no command `bogus`"},
      {"cache", "subcommand is required"},
      {"cache ls --kind bogus", "`bogus` is none of {choice,"},
      {"cache ls --by size", "none of {bytes,cost,created,hits,key,saved,used}"},
      {"cache ls --limit -5", "--limit"},
      {"cache ls --limit 1.5", "no whole number"},
      {"cache ls --limit nan", "no number"},
      {"cache ls --key xyz", "hexadecimal"},
      {"cache ls --unused-hours -1", "--unused-hours"},
      {"cache ls --unused-hours 18446744073709551615", "--unused-hours"},
      {"cache ls surplus", "surplus"},
      {"cache top --kind bogus", "none of"},
      {"cache verify --kind bogus", "none of"},
      {"cache evict --kind bogus", "none of"},
      {"cache evict --unused-hours 0", "--unused-hours"},
      {"cache export --kind bogus f", "none of"},
      {"cache export --s3-timeout 0 f", "--s3-timeout"},
      {"cache show xyz", "hexadecimal"},
      {"cache show", "key is required"},
      {"cache pin ''", "hexadecimal"},
      {"cache warm --jobs 0 g", "--jobs"},
      {"cache warm --jobs -1 g", "--jobs"},
      {"cache warm --jobs 65 g", "--jobs"},
      {"cache warm --wait -1 g", "--wait"},
      {"cache warm --wait inf g", "--wait"},
      {"cache warm --beam 65 g", "--beam"},
      {"completion fish", "none of {bash,zsh}"},
      {"drain --wait-limit 0", "--wait-limit"},
      {"man ls", "none of {uopctl,uopd}"},
      {"metrics --http 50511", "HOST:PORT"},
      {"metrics --http host:99999", "HOST:PORT"},
      {"profile --runs 0 g", "--runs"},
      {"profile --runs -1 g", "--runs"},
      {"quarantine clear xyz", "hexadecimal"},
      {"replay --limit 0 f", "--limit"},
      {"replay --limit nan f", "--limit"},
      {"run --beam -1 g", "--beam"},
      {"run --cache-level 3 g", "none of {0,1,2}"},
      {"sessions --limit 0", "--limit"},
      {"sessions --limit 1001", "--limit"},
      {"sessions --limit -5", "--limit"},
      {"status surplus", "surplus"},
      {"train-mnist --data d --steps 0", "--steps"},
      {"train-mnist --data d --batch -1", "--batch"},
      {"train-mnist --data d --lr 0", "--lr"},
      {"train-mnist --data d --lr nan", "--lr"},
      {"train-mnist --data d --seed -1", "--seed"},
      {"train-mnist --data d --optimizer rms", "none of {sgd,adam}"},
      {"tune --candidates 0 g", "--candidates"},
      {"tune --candidates -1 g", "--candidates"},
      {"tune attach xyz", "hexadecimal"},
      {"tune --budget -1 g", "--budget"},
      {"viz --pass 0 f", "--pass"},
      {"viz --step -1 f", "--step"},
      {"--timeout 0 status", "--timeout"},
      {"--timeout nan status", "--timeout"},
      {"--timeout -1 status", "--timeout"},
      {"--address localhost status", "HOST:PORT"},
      {"--address '' status", "HOST:PORT"},
      {"--address host:0 status", "HOST:PORT"},
  };
  for (const Row& row : rows) {
    const UopctlRun text = RunCtl(Cat(kNobody, row.arguments)),
                    run = RunCtl(Cat(kNobody, row.arguments, " --json"));
    EXPECT_EQ(text.code, 2) << row.arguments << "\n" << text.out << text.err;
    EXPECT_EQ(text.out, "") << row.arguments;
    EXPECT_THAT(text.err, HasSubstr(row.says)) << row.arguments;
    EXPECT_EQ(run.code, 2) << row.arguments;
    EXPECT_EQ(run.error()["kind"], "usage") << row.arguments << "\n" << run.out;
    EXPECT_EQ(run.error()["code"], "INVALID_ARGUMENT") << row.arguments;
    EXPECT_THAT(run.error().value("message", ""), HasSubstr(row.says)) << row.arguments;
  }
}

TEST_F(UopctlTest, AResultThatCannotBeWrittenIsAFailure) {
  EXPECT_EQ(RunCtl("man > /dev/full").code, 1);
  EXPECT_EQ(RunCtl("--json man > /dev/full").code, 1);
  EXPECT_EQ(RunCtl("--version > /dev/full").code, 1);
  EXPECT_EQ(RunCtl("cache --help > /dev/full").code, 1);
}

TEST_F(UopctlTest, TheVersionIsTold) {
  const UopctlRun run = RunCtl("--version");
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, ::testing::MatchesRegex("uopctl [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

// What bash offers for the words after `uopctl`, of which the last one is incomplete.
std::vector<std::string> Offers(const std::string& words) {
  const std::string script = Cat(
      "bash -c 'source <(", UOPCTL_BINARY, " completion bash); COMP_WORDS=(uopctl ", words,
      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _uopctl; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
  FILE* pipe = popen(script.c_str(), "r");
  std::string out;
  char text[4096];
  while (const size_t n = fread(text, 1, sizeof text, pipe)) out.append(text, n);
  EXPECT_EQ(pclose(pipe), 0) << script;
  std::vector<std::string> lines;
  for (size_t at = 0, end; (end = out.find('\n', at)) != std::string::npos; at = end + 1)
    if (end > at) lines.push_back(out.substr(at, end - at));
  return lines;
}

TEST_F(UopctlTest, BashCompletesCommandsFlagsAndValues) {
  EXPECT_THAT(Offers("stat"), ElementsAre("status"));
  EXPECT_THAT(Offers("\"\""), Contains("cache"));
  EXPECT_THAT(Offers("cache l"), ElementsAre("ls"));
  EXPECT_THAT(Offers("cache ls --k"), ElementsAre("--kind", "--key"));
  EXPECT_THAT(Offers("cache ls --kind gr"), ElementsAre("graph"));
  EXPECT_THAT(Offers("cache ls --by = by"), ElementsAre("bytes"));
  EXPECT_THAT(Offers("--address cache cache to"), ElementsAre("top"));  // the first one is a value
  EXPECT_THAT(Offers("cache ls --js"), ElementsAre("--json"));
  EXPECT_THAT(Offers("cache ls --pinned --ki"), ElementsAre("--kind"));
  EXPECT_THAT(Offers("completion z"), ElementsAre("zsh"));
  EXPECT_THAT(Offers("run ma"), ElementsAre());  // a file: the shell's own completion
  EXPECT_THAT(Offers("tune attach --"), Contains("--svg"));
  EXPECT_THAT(Offers("tune attach --"), Not(Contains("--beam")));
}

TEST_F(UopctlTest, ZshReadsItsCompletion) {
  const std::string file = (folder_.path() / "_uopctl").string();
  ASSERT_EQ(RunCtl("completion zsh > " + file).code, 0);
  EXPECT_EQ(std::system(Cat("zsh -n ", file).c_str()), 0);
}

TEST_F(UopctlTest, ManualPagesAreRoffWithoutComplaints) {
  for (const char* page : {"uopctl", "uopd"}) {
    const std::string file = (folder_.path() / page).string();
    ASSERT_EQ(RunCtl(Cat("man ", page, " > ", file)).code, 0);
    EXPECT_THAT(ReadFile(file), HasSubstr(".SH EXIT STATUS"));
    if (std::system("command -v groff > /dev/null") != 0) continue;
    const std::string complaints = file + ".complaints";
    EXPECT_EQ(std::system(Cat("groff -man -Tutf8 -ww -z ", file, " 2> ", complaints).c_str()), 0);
    EXPECT_EQ(ReadFile(complaints), "") << page;
  }
}

}  // namespace
}  // namespace uopd::e2e
