// SPDX-License-Identifier: MIT
// Starts that fail, and settings that are checked without a start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "core/base/text.h"
#include "tests/e2e/client.h"

namespace uopd::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class StartTest : public ::testing::Test {
 protected:
  struct Ended {
    int status;
    std::string said;  // on both outputs
  };
  // Runs uopd with `arguments`, and with `variables` as a shell writes them.
  Ended Run(const std::string& arguments, const std::string& variables = "") const {
    const std::string command = Cat(variables, " timeout 60 ", UOPD_BINARY,
                                    " --data-dir=", data_.string(), " ", arguments, " 2>&1");
    FILE* const pipe = popen(command.c_str(), "r");
    Ended out{};
    for (int c; (c = fgetc(pipe)) != EOF;) out.said += static_cast<char>(c);
    out.status = WEXITSTATUS(pclose(pipe));
    return out;
  }
  std::string Config(const std::string& text) const {
    std::ofstream(config_) << text;
    return "--config=" + config_.string();
  }
  std::string Log() const { return ReadFile(log_.string()); }

  TemporaryFolder folder_;
  const fs::path data_ = folder_.path() / "data", config_ = folder_.path() / "uopd.toml",
                 log_ = folder_.path() / "log";
};

constexpr char kFree[] = " --listen=127.0.0.1:0 --http-listen=127.0.0.1:0";

TEST_F(StartTest, CheckConfigSaysThatAllIsRight) {
  const Ended ended = Run("--check-config " + Config("[log]\nlevel = \"warn\"\n"));
  EXPECT_EQ(ended.status, 0) << ended.said;
  EXPECT_EQ(ended.said, "the settings are right\n");
  EXPECT_FALSE(fs::exists(data_));  // nothing was made
}

TEST_F(StartTest, CheckConfigNamesEveryProblemAndItsPlace) {
  std::ofstream(folder_.path() / "tokens") << "alice 12\n";
  const std::string file =
      Config(Cat("[server]\n"                          // 1
                 "listen = \"0.0.0.0:50510\"\n"        // 2
                 "http_listen = \"example.org:80\"\n"  // 3
                 "token_file = \"",
                 (folder_.path() / "tokens").string(),
                 "\"\n"                                          // 4
                 "socket_mode = \"0999\"\n"                      // 5
                 "[log]\n"                                       // 6
                 "level = \"loud\"\n"                            // 7
                 "colour = \"red\"\n"                            // 8
                 "file = \"/does/not/exist/log\"\n"              // 9
                 "file_mode = \"rw\"\n"                          // 10
                 "[device]\n"                                    // 11
                 "list = \"CPU,TPU\"\n"                          // 12
                 "[cache]\n"                                     // 13
                 "cluster_sign_key = \"/does/not/exist/key\"\n"  // 14
                 "cluster = \"ftp://example.org\"\n"             // 15
                 "max_bytes = 1\n"));                            // 16
  const Ended ended = Run("--check-config --debug-level=9 " + file, "UOPD_TUNE_BAEM=2");
  EXPECT_EQ(ended.status, 2);
  const std::string at = config_.string() + ":";
  for (const std::string& expected :
       {Cat(at, "2: setting server.listen (0.0.0.0:50510) can be reached from other machines"),
        Cat(at, "3: setting server.http_listen (example.org:80): "),
        Cat(at, "4: setting server.token_file ("), std::string("line 1: a SHA-256 has 64"),
        Cat(at, "5: setting server.socket_mode (0999): is no octal mode"),
        Cat(at, "7: setting log.level (loud) is none of"),
        Cat(at, "8: setting log.colour (red) does not exist"),
        Cat(at, "9: setting log.file (/does/not/exist/log): /does/not/exist cannot be written"),
        Cat(at, "10: setting log.file_mode (rw): is no octal mode"),
        Cat(at, "12: setting device.list (CPU,TPU): "),
        Cat(at, "14: setting cache.cluster_sign_key (/does/not/exist/key): "),
        Cat(at, "15: setting cache.cluster (ftp://example.org): "),
        Cat(at, "16: setting cache.max_bytes (1) is outside"),
        std::string("setting debug.level (9) from --debug-level is outside"),
        std::string("environment variable UOPD_TUNE_BAEM=2 names no setting")}) {
    EXPECT_THAT(ended.said, HasSubstr(expected));
  }
  EXPECT_FALSE(fs::exists(data_));
}

TEST_F(StartTest, CheckConfigLooksAtFolders) {
  std::ofstream(folder_.path() / "file") << "in the way";
  const Ended ended = Run(Cat("--check-config --data-dir=", (folder_.path() / "file/data").string(),
                              " --ready-file=", folder_.path().string()));
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.said,
              AllOf(HasSubstr("setting server.data_dir ("), HasSubstr("/file is no folder"),
                    HasSubstr("setting server.ready_file ("), HasSubstr("is no regular file")));
}

// Every file that a setting names, as what it must not be. None is waited for or read without end.
TEST_F(StartTest, FilesThatAreReadAreRegularFiles) {
  const std::string pipe = folder_.path() / "pipe", file = folder_.path() / "file";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(file) << "text";
  const std::string cluster = " --cache-cluster=rediss://127.0.0.1:1",
                    cert = " --cache-cluster-cert-file=";
  for (const std::string& path : {pipe, folder_.path().string(), std::string("/dev/zero"),
                                  std::string("/proc/self/mem"), std::string("/does/not/exist")}) {
    for (const std::string& flag : {std::string(" --config="), std::string(" --server-token-file="),
                                    cluster + " --cache-cluster-password-file=",
                                    cluster + " --cache-cluster-sentinel-password-file=",
                                    cluster + " --cache-cluster-ca-file=",
                                    cluster + cert + file + " --cache-cluster-key-file=",
                                    Cat(cluster, " --cache-cluster-key-file=", file, cert),
                                    std::string(" --cache-cluster-sign-key=")}) {
      const Ended checked = Run(Cat("--check-config", flag, path));
      EXPECT_EQ(checked.status, 2) << flag << path << checked.said;
      EXPECT_THAT(checked.said, HasSubstr(path)) << flag;
      EXPECT_THAT(checked.said,
                  ContainsRegex("setting [a-z]+\\.[a-z_]+ |reading the configuration"))
          << flag;
      const Ended started = Run(Cat(kFree, flag, path));
      EXPECT_TRUE(started.status == 1 || started.status == 2) << flag << path << started.status;
      EXPECT_THAT(started.said, HasSubstr(path)) << flag;
    }
  }
}

TEST_F(StartTest, CheckConfigLooksAtWhatIsWritten) {
  const std::string file = folder_.path() / "file", pipe = folder_.path() / "pipe",
                    loop = folder_.path() / "loop";
  std::ofstream(file) << "in the way";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink(loop, loop);
  struct Row {
    std::string flags, key, why;
  };
  for (const Row& row :
       {Row{"--listen=unix:/does/not/exist/socket", "server.listen", "cannot be written"},
        Row{"--listen=unix:" + file, "server.listen", "is no socket"},
        Row{"--listen=unix:" + folder_.path().string(), "server.listen", "is no socket"},
        Row{"--listen=unix:/dev/null", "server.listen", "is no socket"},
        Row{Cat("--ready-file=", file, " --log-file=", file), "server.ready_file", "log.file, too"},
        Row{"--listen=127.0.0.1:7 --http-listen=127.0.0.1:7", "server.http_listen", "too"},
        Row{"--ready-file=" + pipe, "server.ready_file", "is no regular file"},
        Row{"--ready-file=" + loop, "server.ready_file", "is no regular file"},
        Row{"--log-file=" + loop, "log.file", "symbolic links"},
        Row{"--log-file=" + folder_.path().string(), "log.file", "is no file"},
        Row{"--data-dir=" + loop, "server.data_dir", "is no folder"},
        Row{"--device-cpu-features=nonsense", "device.cpu_features", "nonsense"}}) {
    const Ended ended = Run("--check-config " + row.flags);
    EXPECT_EQ(ended.status, 2) << row.flags;
    EXPECT_THAT(ended.said, AllOf(HasSubstr("setting " + row.key), HasSubstr(row.why)));
  }
  for (const std::string& good : {"--log-file=" + pipe, std::string("--log-file=/dev/stderr"),
                                  std::string("--ready-file=/dev/stdout")})
    EXPECT_EQ(Run("--check-config " + good).status, 0) << good;
}

TEST_F(StartTest, NoLineOfAProblemIsForged) {
  const std::string forged = "x\\nthe settings are right\\u001b[2K";
  const Ended ended = Run("--check-config " + Config(Cat("[log]\nlevel = \"", forged, "\"\n")));
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.said, HasSubstr("(x\\x0athe settings are right\\x1b[2K)"));
  EXPECT_THAT(ended.said, Not(HasSubstr("\n\x1b")));
}

TEST_F(StartTest, ATextThatCannotBeWrittenIsAFailure) {
  for (const char* flag : {"--version", "--help", "--print-config-docs"})
    EXPECT_EQ(Run(Cat(flag, " > /dev/full")).status, 1) << flag;
}

TEST_F(StartTest, AStartNamesFileAndLineToo) {
  const Ended ended = Run(Config("[log]\n\nlevel = \"loud\"\n[limits]\nsessions = 0\n"));
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.said, AllOf(HasSubstr("uopd.toml:3: setting log.level (loud) is none of"),
                                HasSubstr("uopd.toml:5: setting limits.sessions (0) is outside")));
}

// A start that cannot serve opens no cache: it could migrate the file of a daemon that goes on.
TEST_F(StartTest, AnAddressThatCannotBeTakenTouchesNothing) {
  const fs::path other = folder_.path() / "other";
  fs::create_directories(other);
  DaemonProcess serving(other);
  for (const std::string& addresses :
       {Cat("--listen=", serving.listen(), " --http-listen=127.0.0.1:0"),
        Cat("--listen=127.0.0.1:0 --http-listen=", serving.http()),
        std::string("--listen=0.0.0.0:0 --http-listen="), std::string("--listen=nonsense"),
        std::string("--listen=127.0.0.1:0 --http-listen=0.0.0.0:0")}) {
    fs::remove(log_);
    const Ended ended = Run(Cat(addresses, " --log-file=", log_.string()));
    EXPECT_TRUE(ended.status == 1 || ended.status == 2) << ended.status;
    EXPECT_FALSE(fs::exists(data_)) << addresses;
    EXPECT_THAT(Log(), AllOf(HasSubstr("the daemon does not start"), Not(HasSubstr("msg=cache")),
                             Not(HasSubstr("worker"))));
  }
}

TEST_F(StartTest, WhatEndsAStartIsInTheLogFile) {
  const std::string log = " --log-file=" + log_.string();
  const Ended wrong = Run(Cat(kFree, log, " --log-level=loud"));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.said, HasSubstr("uopd: setting log.level (loud)"));
  EXPECT_THAT(Log(), HasSubstr("setting log.level (loud)"));
  fs::remove(log_);
  EXPECT_EQ(Run(Cat(kFree, log, " --device-list=TPU")).status, 2);
  EXPECT_THAT(Log(), AllOf(HasSubstr("level=error"), HasSubstr("setting device.list (TPU)")));
  // Without a file the log is stderr, where it is said once.
  const Ended once = Run(Cat(kFree, " --device-list=TPU"));
  EXPECT_THAT(once.said, Not(HasSubstr("level=error")));
}

TEST_F(StartTest, TheLogFileHasTheModeThatWasAsked) {
  struct stat info{};
  DaemonProcess usual(folder_.path());
  ASSERT_EQ(stat((folder_.path() / "log").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  const fs::path shared = folder_.path() / "shared.log";
  DaemonProcess daemon(folder_.path(), {"--log-file=" + shared.string(), "--log-file-mode=0640"});
  ASSERT_EQ(stat(shared.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

TEST_F(StartTest, VariablesOfKubernetesDoNotStopIt) {
  const auto with = [](const char* name, const char* value) { setenv(name, value, 1); };
  with("UOPD_SERVER_PORT", "tcp://10.0.0.1:50510");
  with("UOPD_SERVER_SERVICE_HOST", "10.0.0.1");
  {
    DaemonProcess daemon(folder_.path());
    EXPECT_TRUE(daemon.running());
    EXPECT_THAT(daemon.Log(),
                AllOf(HasSubstr("level=info msg=\"variables that Kubernetes made"),
                      HasSubstr("UOPD_SERVER_PORT"), HasSubstr("UOPD_SERVER_SERVICE_HOST")));
  }
  unsetenv("UOPD_SERVER_SERVICE_HOST");
  with("UOPD_SERVER_PORT", "50510");
  EXPECT_EQ(Run(kFree).status, 2);
  unsetenv("UOPD_SERVER_PORT");
}

TEST_F(StartTest, ABoolCanBeSwitchedOffByAWord) {
  const std::string socket = (folder_.path() / "socket").string();
  DaemonProcess daemon(folder_.path(),
                       {"--listen=unix:" + socket, "--server-side-socket", "false"});
  ASSERT_TRUE(daemon.running());
  EXPECT_FALSE(fs::exists(socket + ".side"));
}

}  // namespace
}  // namespace uopd::e2e
