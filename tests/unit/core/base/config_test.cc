// SPDX-License-Identifier: MIT
#include "core/base/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cctype>
#include <set>

#include "core/base/config/config_values.h"
#include "core/base/config/kubernetes_variable.h"
#include "core/base/machine/process_limits.h"
#include "core/base/status.h"

namespace uopd {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<CommandLine> Flags(Config& config, std::vector<const char*> args) {
  return config.SetFromFlags(args);
}

TEST(ConfigTable, KeysAreUniqueAndWellFormed) {
  std::set<std::string> flags, variables;
  for (const SettingSpec& spec : Settings()) {
    EXPECT_EQ(std::count(spec.key.begin(), spec.key.end(), '.'), 1) << spec.key;
    EXPECT_TRUE(flags.insert(spec.Flag()).second) << spec.key;
    EXPECT_TRUE(variables.insert(spec.Variable()).second) << spec.key;
    EXPECT_FALSE(spec.help.empty()) << spec.key;
    EXPECT_NE(spec.help.back(), '.') << spec.key;
    EXPECT_EQ(spec.help.find('|'), std::string_view::npos) << "breaks the docs table: " << spec.key;
  }
}

TEST(Config, DefaultsAreTyped) {
  Config config;
  EXPECT_EQ(config.server_listen(), "127.0.0.1:50510");
  EXPECT_EQ(config.limits_max_graph_nodes(), 1000000);
  EXPECT_EQ(config.limits_max_message_bytes(), 16 << 20);
  EXPECT_EQ(config.limits_session_bytes(), int64_t{4} << 30);
  EXPECT_EQ(config.session_ttl_ms(), milliseconds(300000));
  EXPECT_FALSE(config.cache_read_only());
  EXPECT_EQ(config.source("log.level"), ConfigSource::kDefault);
}

TEST(Config, StrongerSourceWinsInAnyOrder) {
  Config config;
  ASSERT_TRUE(config.Set("log.level", "error", ConfigSource::kFlag).ok());
  ASSERT_TRUE(config.Set("log.level", "debug", ConfigSource::kFile).ok());
  EXPECT_EQ(config.log_level(), "error");
  EXPECT_EQ(config.source("log.level"), ConfigSource::kFlag);

  ASSERT_TRUE(config.Set("debug.level", "2", ConfigSource::kFile).ok());
  ASSERT_TRUE(config.Set("debug.level", "4", ConfigSource::kEnvironment).ok());
  EXPECT_EQ(config.debug_level(), 4);
}

TEST(Config, WeakerSourceIsCheckedThoughItLoses) {
  Config config;
  ASSERT_TRUE(config.Set("debug.level", "1", ConfigSource::kFlag).ok());
  EXPECT_EQ(config.Set("debug.level", "many", ConfigSource::kFile).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(config.debug_level(), 1);
}

TEST(Config, ErrorsNameKeyValueAndOrigin) {
  struct Case {
    const char *key, *text, *expected;
  } cases[] = {
      {"limits.max_message_bytes", "12xyz", "is not a size"},
      {"limits.max_message_bytes", "12", "is outside 65536 to 1073741824"},
      {"debug.level", "8", "is outside 0 to 7"},
      {"debug.level", "3.5", "is not a whole number"},
      {"cache.read_only", "maybe", "is not true or false"},
      {"log.level", "loud", "is none of debug, info, warn, error, off"},
      {"session.ttl_ms", "5 days", "is not a duration"},
      {"session.ttl_ms", "1ms", "is outside 1000ms to 86400000ms"},
  };
  for (const Case& c : cases) {
    Config config;
    absl::Status status = config.Set(c.key, c.text, ConfigSource::kFlag);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(StatusText(status),
                AllOf(HasSubstr(c.key), HasSubstr(std::string("(") + c.text + ")"),
                      HasSubstr("from --"), HasSubstr(c.expected)));
  }
  Config config;
  EXPECT_THAT(StatusText(config.Set("log.colour", "red", ConfigSource::kFile)),
              AllOf(HasSubstr("log.colour"), HasSubstr("red"), HasSubstr("does not exist")));
}

TEST(Config, Environment) {
  const char* environment[] = {"PATH=/bin", "UOPD_LOG_LEVEL=warn", "UOPD_CACHELEVEL=1",
                               "UOPD_LIMITS_SESSION_BYTES=2GiB", nullptr};
  Config config;
  ASSERT_TRUE(config.SetFromEnvironment(environment).ok());
  EXPECT_EQ(config.log_level(), "warn");
  EXPECT_EQ(config.limits_session_bytes(), int64_t{2} << 30);

  const char* misspelt[] = {"UOPD_LOG_LEVLE=warn", nullptr};
  EXPECT_THAT(StatusText(config.SetFromEnvironment(misspelt)), HasSubstr("UOPD_LOG_LEVLE=warn"));
  const char* invalid[] = {"UOPD_LOG_LEVEL=loud", nullptr};
  EXPECT_THAT(StatusText(config.SetFromEnvironment(invalid)), HasSubstr("from UOPD_LOG_LEVEL"));
}

TEST(Config, Flags) {
  Config config;
  auto line = Flags(config, {"--listen", "127.0.0.1:0", "--http-listen=127.0.0.1:0",
                             "--cache-read-only", "--data-dir", "/d", "--ready-file", "/r",
                             "--config", "/c.toml", "--server-drain-timeout-ms=250ms"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(config.server_listen(), "127.0.0.1:0");
  EXPECT_EQ(config.server_http_listen(), "127.0.0.1:0");
  EXPECT_EQ(config.server_data_dir(), "/d");
  EXPECT_EQ(config.server_ready_file(), "/r");
  EXPECT_EQ(config.server_drain_timeout_ms(), milliseconds(250));
  EXPECT_TRUE(config.cache_read_only());
  EXPECT_EQ(line->config_file, "/c.toml");
  EXPECT_FALSE(line->help);

  ASSERT_TRUE(Flags(config, {"--cache-read-only=false", "--help"}).ok());
  EXPECT_FALSE(config.cache_read_only());
  EXPECT_TRUE(Flags(config, {"--help"})->help);
  EXPECT_TRUE(Flags(config, {"--print-config-docs"})->print_config_docs);
}

TEST(Config, FlagsOfBoolsTakeAValue) {
  const struct {
    std::vector<const char*> args;
    bool side_socket, read_only;
  } cases[] = {
      {{"--server-side-socket", "false"}, false, false},
      {{"--server-side-socket=false"}, false, false},
      {{"--server-side-socket", "off", "--cache-read-only", "yes"}, false, true},
      {{"--server-side-socket", "true"}, true, false},
      {{"--cache-read-only"}, true, true},
      {{"--cache-read-only", "--server-side-socket", "0"},
       false,
       true},  // the next flag is no value
  };
  for (const auto& one : cases) {
    Config config;
    ASSERT_TRUE(Flags(config, one.args).ok());
    EXPECT_EQ(config.server_side_socket(), one.side_socket) << one.args[0];
    EXPECT_EQ(config.cache_read_only(), one.read_only) << one.args[0];
  }
  Config config;
  EXPECT_THAT(StatusText(Flags(config, {"--cache-read-only", "maybe"}).status()),
              HasSubstr("cache.read_only (maybe) from --cache-read-only is not true or false"));
}

TEST(Config, AllProblemsAreFound) {
  Config config;
  Config::Problems problems;
  const char* args[] = {"--nonsense", "1", "--log-level=loud", "--other=2", "--debug-level=1"};
  ASSERT_TRUE(config.SetFromFlags(args, &problems).ok());
  const char* environment[] = {"UOPD_LOG_LEVLE=warn", "UOPD_DEBUG_LEVEL=9", "UOPD_TUNE_BEAM=3",
                               nullptr};
  ASSERT_TRUE(config.SetFromEnvironment(environment, &problems).ok());
  std::vector<std::string> texts;
  for (const absl::Status& problem : problems) texts.push_back(StatusText(problem));
  EXPECT_THAT(texts, ElementsAre(HasSubstr("--nonsense"), HasSubstr("log.level (loud)"),
                                 HasSubstr("--other=2"), HasSubstr("UOPD_LOG_LEVLE"),
                                 HasSubstr("debug.level (9) from UOPD_DEBUG_LEVEL")));
  EXPECT_EQ(config.debug_level(), 1);
  EXPECT_EQ(config.tune_beam(), 3);
}

TEST(Config, MessagesNameThePlaceInAFile) {
  Config config;
  EXPECT_THAT(StatusText(config.Set("log.level", "loud", ConfigSource::kFile, "uopd.toml:12")),
              testing::StartsWith("uopd.toml:12: setting log.level (loud) is none of"));
  EXPECT_THAT(StatusText(config.Set("log.colour", "red", ConfigSource::kFile, "uopd.toml:3")),
              testing::StartsWith("uopd.toml:3: setting log.colour (red) does not exist"));
  ASSERT_TRUE(config.Set("log.file", "/x", ConfigSource::kFile, "uopd.toml:4").ok());
  EXPECT_EQ(config.Subject("log.file"), "uopd.toml:4: setting log.file (/x)");
  ASSERT_TRUE(config.Set("log.file", "/y", ConfigSource::kFlag).ok());
  EXPECT_EQ(config.Subject("log.file"), "setting log.file (/y) from --log-file");
  ASSERT_TRUE(config.Set("cache.cluster", "redis://me:secret@host", ConfigSource::kFlag).ok());
  EXPECT_EQ(config.Subject("cache.cluster"),
            "setting cache.cluster (redis://...@host) from --cache-cluster");
}

// As `env` shows them in a pod, for services named uopd, uopd-server and uopd-cache.
TEST(Config, VariablesThatKubernetesMakesAreIgnored) {
  const char* made[] = {"UOPD_SERVICE_HOST=10.0.0.1",
                        "UOPD_SERVICE_PORT=50510",
                        "UOPD_SERVICE_PORT_GRPC=50510",
                        "UOPD_PORT=tcp://10.0.0.1:50510",
                        "UOPD_PORT_50510_TCP=tcp://10.0.0.1:50510",
                        "UOPD_PORT_50510_TCP_PROTO=tcp",
                        "UOPD_PORT_50510_TCP_PORT=50510",
                        "UOPD_PORT_50510_TCP_ADDR=10.0.0.1",
                        "UOPD_SERVER_SERVICE_HOST=fd00::1",
                        "UOPD_SERVER_SERVICE_PORT_METRICS=50511",
                        "UOPD_SERVER_PORT=tcp://[fd00::1]:50510",
                        "UOPD_SERVER_PORT_50510_TCP_PROTO=tcp",
                        "UOPD_CACHE_PORT_6379_UDP=udp://10.0.0.1:6379",
                        "UOPD_CACHE_PORT_6379_SCTP_ADDR=10.0.0.1",
                        nullptr};
  Config config;
  const absl::Status status = config.SetFromEnvironment(made);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.ignored_variables().size(), std::size(made) - 1);
  EXPECT_EQ(config.ignored_variables().front(), "UOPD_SERVICE_HOST");
  // What somebody has written is not of that form.
  for (const char* misspelt :
       {"UOPD_SERVER_PORT=50510", "UOPD_SERVER_PORT=127.0.0.1:50510",
        "UOPD_SERVER_SERVICE_HOST=yes", "UOPD_CACHE_SERVICE_PORT=redis",
        "UOPD_SERVER_PORT_50510=tcp://10.0.0.1:50510",
        "UOPD_SERVER_PORT_GRPC_TCP=tcp://10.0.0.1:50510", "UOPD_SERVER_PORT_50510_TCP_X=tcp",
        "UOPD_SERVER_PORTS=tcp://10.0.0.1:1", "UOPD_LOG_PORT_1_TCP_PROTO=smtp"}) {
    const char* environment[] = {misspelt, nullptr};
    EXPECT_FALSE(Config().SetFromEnvironment(environment).ok()) << misspelt;
  }
  for (const SettingSpec& spec : Settings()) {
    const std::string variable = spec.Variable();
    for (const char* value : {"1", "10.0.0.1", "tcp", "tcp://10.0.0.1:1"})
      EXPECT_FALSE(config::IsKubernetesVariable(variable, value)) << variable;
  }
}

TEST(Config, ConfigFileOfTheEnvironment) {
  ASSERT_EQ(setenv("UOPD_CONFIG", "/env.toml", 1), 0);
  Config config;
  EXPECT_EQ(Flags(config, {})->config_file, "/env.toml");
  EXPECT_EQ(Flags(config, {"--config=/flag.toml"})->config_file, "/flag.toml");
  ASSERT_EQ(unsetenv("UOPD_CONFIG"), 0);
  EXPECT_EQ(Flags(config, {})->config_file, "");
}

TEST(Config, FlagsThatAreRefused) {
  Config config;
  EXPECT_THAT(StatusText(Flags(config, {"--nonsense", "1"}).status()), HasSubstr("--nonsense"));
  EXPECT_THAT(StatusText(Flags(config, {"positional"}).status()), HasSubstr("positional"));
  EXPECT_THAT(StatusText(Flags(config, {"--listen"}).status()), HasSubstr("has no value"));
  EXPECT_THAT(StatusText(Flags(config, {"--log-level=x"}).status()),
              HasSubstr("log.level (x) from --log-level"));
}

TEST(Config, ResolvesDefaultsOfTheMachine) {
  ASSERT_EQ(setenv("XDG_STATE_HOME", "/state", 1), 0);
  Config config;
  ASSERT_TRUE(config.ResolveDefaults().ok());
  EXPECT_EQ(config.server_data_dir(), "/state/uopd");
  EXPECT_GT(config.limits_total_bytes(), 64 << 20);
  EXPECT_EQ(config.source("server.data_dir"), ConfigSource::kDefault);

  ASSERT_EQ(setenv("XDG_STATE_HOME", "relative", 1), 0);
  ASSERT_EQ(setenv("HOME", "/home/someone", 1), 0);
  Config at_home;
  ASSERT_TRUE(at_home.ResolveDefaults().ok());
  EXPECT_EQ(at_home.server_data_dir(), "/home/someone/.local/state/uopd");

  Config chosen;
  ASSERT_TRUE(chosen.Set("server.data_dir", "/mine", ConfigSource::kFlag).ok());
  ASSERT_TRUE(chosen.Set("limits.total_bytes", "1GiB", ConfigSource::kFlag).ok());
  ASSERT_TRUE(chosen.ResolveDefaults().ok());
  EXPECT_EQ(chosen.server_data_dir(), "/mine");
  EXPECT_EQ(chosen.limits_total_bytes(), 1 << 30);
}

TEST(Config, ResolvesWorkersAndTheCacheInMemory) {
  ASSERT_EQ(setenv("XDG_STATE_HOME", "/state", 1), 0);
  const ProcessLimits limits = ProcessLimits::Read(ControlGroups::Find());
  Config config;
  ASSERT_TRUE(config.ResolveDefaults().ok());
  EXPECT_GE(config.compile_threads(), 1);
  EXPECT_LE(config.compile_threads(), limits.processors());
  EXPECT_EQ(config.tune_workers(), config.compile_threads());
  EXPECT_EQ(config.cache_max_bytes(), int64_t{4} << 30) << "the cache is on disk";
  EXPECT_EQ(config.source("compile.threads"), ConfigSource::kDefault);

  Config memory;
  ASSERT_TRUE(memory.Set("cache.level", "0", ConfigSource::kFlag).ok());
  ASSERT_TRUE(memory.ResolveDefaults().ok());
  EXPECT_LE(memory.cache_max_bytes(), limits.memory_bytes() / 16 + 1);
  EXPECT_LE(memory.limits_total_bytes() + memory.cache_max_bytes(), limits.memory_bytes());

  Config chosen;
  for (const char* key : {"compile.threads", "tune.workers"})
    ASSERT_TRUE(chosen.Set(key, "3", ConfigSource::kFlag).ok());
  ASSERT_TRUE(chosen.Set("cache.level", "0", ConfigSource::kFlag).ok());
  ASSERT_TRUE(chosen.Set("cache.max_bytes", "3GiB", ConfigSource::kFlag).ok());
  ASSERT_TRUE(chosen.ResolveDefaults().ok());
  EXPECT_EQ(chosen.compile_threads(), 3);
  EXPECT_EQ(chosen.tune_workers(), 3);
  EXPECT_EQ(chosen.cache_max_bytes(), int64_t{3} << 30);
}

TEST(Config, ReloadNamesWhatNeedsARestart) {
  Config running, reloaded;
  ASSERT_TRUE(reloaded.Set("log.level", "debug", ConfigSource::kFile).ok());
  EXPECT_THAT(reloaded.FixedChanges(running), ElementsAre());
  ASSERT_TRUE(reloaded.Set("device.list", "CPU,CUDA", ConfigSource::kFile).ok());
  EXPECT_THAT(reloaded.FixedChanges(running), ElementsAre("device.list"));
}

TEST(Config, ValuesShowTextAndSource) {
  Config config;
  ASSERT_TRUE(config.Set("cache.max_bytes", "8GiB", ConfigSource::kFile).ok());
  bool found = false;
  for (const Config::Value& value : config.Values()) {
    if (value.key != "cache.max_bytes") continue;
    found = true;
    EXPECT_EQ(value.text, "8GiB");
    EXPECT_STREQ(ConfigSourceName(value.source), "file");
  }
  EXPECT_TRUE(found);
}

TEST(Config, HelpListsEverySettingAndShortSpelling) {
  std::string help = ConfigHelp();
  for (const SettingSpec& spec : Settings()) EXPECT_THAT(help, HasSubstr("  " + spec.Flag()));
  EXPECT_THAT(help, AllOf(HasSubstr(", --listen <text>"), HasSubstr("[default 16MiB]"),
                          HasSubstr("[0 to 7]")));
}

TEST(ConfigValues, Bytes) {
  int64_t v = -1;
  EXPECT_TRUE(config::ParseBytes("0", &v) && v == 0);
  EXPECT_TRUE(config::ParseBytes("16MiB", &v) && v == 16 << 20);
  EXPECT_TRUE(config::ParseBytes("4 GB", &v) && v == 4000000000);
  for (const char* bad :
       {"", "MiB", "1.5MiB", "16mib", "9223372036854775807KiB", "99999999999999999999", "1 MiB "}) {
    EXPECT_FALSE(config::ParseBytes(bad, &v)) << bad;
  }
}

TEST(ConfigValues, Durations) {
  milliseconds v{};
  EXPECT_TRUE(config::ParseDuration("1500", &v) && v == milliseconds(1500));
  EXPECT_TRUE(config::ParseDuration("2h", &v) && v == milliseconds(7200000));
  for (const char* bad : {"", "s", "1d", "1.5s", "9223372036854775807h"})
    EXPECT_FALSE(config::ParseDuration(bad, &v)) << bad;
}

TEST(ConfigValues, NumbersAndTruth) {
  double d = 0;
  EXPECT_TRUE(config::ParseValue("2.5e-3", &d) && d == 2.5e-3);
  EXPECT_FALSE(config::ParseValue("nan", &d));
  EXPECT_FALSE(config::ParseValue("inf", &d));
  bool b = false;
  EXPECT_TRUE(config::ParseValue("on", &b) && b);
  EXPECT_FALSE(config::ParseValue("True", &b));
  std::string s;
  EXPECT_FALSE(config::ParseValue(std::string_view("a\0b", 3), &s));
}

}  // namespace
}  // namespace uopd
