// SPDX-License-Identifier: MIT
#include "client/cli/self/man_page.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/app.h"
#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "client/cli/exit_codes.h"
#include "core/base/config/config.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

// Text for roff: no line of it is a request, and hyphens are those that one can copy.
std::string Roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      Append(out, "\\&", c);
    } else {
      out += c;
    }
  }
  return out;
}

std::string Head(const char* name, int section, const char* what) {
  return Cat(".\\\" Made by `uopctl man`.\n.TH ", name, " ", section, " \"\" \"uopd ", UOPD_VERSION,
             "\" \"uopd\"\n.SH NAME\n", what, "\n");
}

std::string ValueName(const OptionInfo& option) {
  if (!option.values.empty()) return absl::StrJoin(option.values, "|");
  std::string out = option.name.substr(option.positional ? 0 : 2);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::string OptionItem(const OptionInfo& option) {
  std::string out = Cat(".TP\n\\fB", Roff(option.positional ? "" : option.name), "\\fR");
  if (option.positional || option.takes_value)
    Append(out, option.positional ? "" : " ", "\\fI", Roff(ValueName(option)), "\\fR");
  Append(out, "\n", option.help.empty() ? "\\&" : Roff(option.help));
  if (!option.default_text.empty()) Append(out, " (", Roff(option.default_text), ")");
  return out + "\n";
}

std::string Synopsis(const CommandInfo& command) {
  std::string out = Cat("\\fBuopctl ", Roff(command.name()), "\\fR");
  for (const OptionInfo& option : command.options) {
    if (!option.positional) continue;
    std::string name = Cat("\\fI", Roff(ValueName(option)), "\\fR", option.repeats ? "..." : "");
    Append(out, " ", option.required ? name : Cat("[", name, "]"));
  }
  bool flags = false;
  for (const OptionInfo& option : command.options)
    flags = flags || (!option.positional && option.name != "--help");
  return Cat(out, flags ? " [\\fIoptions\\fR]" : "");
}

std::string OptionItems(const CommandInfo& command) {
  std::string out;
  for (const OptionInfo& option : command.options)
    if (command.path.empty() || option.name != "--help") Append(out, OptionItem(option));
  return out;
}

// The flags of uopd that are no settings, as its help has them: "  --config FILE          settings
// in TOML".
std::string DaemonFlags() {
  std::string out;
  for (const absl::string_view part : absl::StrSplit(ConfigHelp(), '\n')) {
    const std::string_view line(part.data(), part.size());
    if (line.starts_with("Each setting")) break;
    if (!line.starts_with("  --")) continue;
    const size_t gap = line.find("  ", 2);
    const size_t text = line.find_first_not_of(' ', gap);
    if (gap == std::string_view::npos || text == std::string_view::npos) continue;
    Append(out, ".TP\n\\fB", Roff(line.substr(2, gap - 2)), "\\fR\n", Roff(line.substr(text)),
           "\n");
  }
  return out;
}

}  // namespace

std::string UopctlPage(const CommandInfo& program) {
  std::string out = Head("UOPCTL", 1, "uopctl \\- control of uopd, the tensor graph daemon");
  Append(
      out, ".SH SYNOPSIS\n.B uopctl\n[\\fIoptions\\fR] \\fIcommand\\fR ...\n",
      ".SH DESCRIPTION\nuopctl runs graphs on a daemon, and is how operators look after it. "
      "Results go to standard output, progress and errors to standard error. With "
      "\\fB\\-\\-json\\fR one line goes to standard output, an object with \\fIschema\\fR, "
      "\\fIcommand\\fR, \\fIok\\fR, and \\fIdata\\fR or \\fIerror\\fR. Times in it are seconds.\n",
      ".SH OPTIONS\nThey may stand anywhere in the command line.\n", OptionItems(program),
      ".SH COMMANDS\n");
  for (const CommandInfo* command : AllOf(program)) {
    if (command->path.empty() || (!command->commands.empty() && command->options.size() == 1))
      continue;  // one that is only the first word of others has --help alone
    Append(out, ".SS ", Synopsis(*command), "\n", Roff(command->help), ".\n",
           OptionItems(*command));
  }
  Append(out, ".SH EXIT STATUS\n");
  for (const EndKind& end : kEnds)
    Append(out, ".TP\n.B ", end.exit_code, "\n", Roff(end.name), ": ", Roff(end.meaning), "\n");
  Append(out,
         ".PP\nuopctl replay: 0 if the graph compiles or is refused, 1 if it still fails, 125 if "
         "that cannot be told.\n",
         ".SH ENVIRONMENT\n.TP\n.B UOPD_ADDRESS\nthe default of \\-\\-address\n",
         ".TP\n.B UOPD_TOKEN_FILE\nthe default of \\-\\-token\\-file\n",
         ".TP\n.B UOPD_HTTP_ADDRESS\nthe default of \\-\\-http\n", ".SH SEE ALSO\n.BR uopd (8)\n");
  return out;
}

std::string UopdPage() {
  std::string out = Head("UOPD", 8, "uopd \\- compiles and runs tensor graphs for remote clients");
  Append(out,
         ".SH SYNOPSIS\n.B uopd\n[\\fB\\-\\-config\\fR \\fIFILE\\fR] [\\fB\\-\\-SETTING\\fR "
         "\\fIVALUE\\fR]...\n",
         ".SH DESCRIPTION\nuopd serves gRPC at \\fBserver.listen\\fR, and metrics and probes at "
         "\\fBserver.http_listen\\fR. It runs in the foreground.\n",
         ".SH OPTIONS\n", DaemonFlags(),
         ".SH SETTINGS\nEach setting is a flag, a variable, and a key of the file in TOML. A flag "
         "wins over a variable, a variable over the file, the file over the default. SIGHUP "
         "changes those that say so.\n");
  for (const SettingSpec& spec : Settings()) {
    Append(out, ".TP\n\\fB", Roff(spec.key), "\\fR, \\fB", Roff(spec.Flag()), "\\fR, \\fB",
           spec.Variable(), "\\fR\n", Roff(spec.help));
    if (!spec.default_text.empty()) Append(out, " (", Roff(spec.default_text), ")");
    if (spec.reloadable) Append(out, "; SIGHUP may change it");
    Append(out, "\n");
  }
  Append(out,
         ".SH SIGNALS\n.TP\n.B SIGTERM, SIGINT\ndrain: new requests are refused, those that run "
         "have server.drain_timeout_ms. A second signal ends the process at once\n",
         ".TP\n.B SIGHUP\nopens the log file again and reads the settings again\n",
         ".SH EXIT STATUS\n.TP\n.B 0\nit was told to end, and did\n",
         ".TP\n.B 1\nit could not start\n.TP\n.B 2\na setting is wrong\n",
         ".TP\n.B 3\nsomething could not be ended after the drain\n",
         ".TP\n.B 4\nit has ended, and the drain cut requests off\n",
         ".TP\n.B 130\nit was told twice to end\n.SH SEE ALSO\n.BR uopctl (1)\n");
  return out;
}

void AddMan(CLI::App& app, Globals& globals) {
  auto page = std::make_shared<std::string>("uopctl");
  CLI::App* command = app.add_subcommand("man", "print a manual page: uopctl man | man -l -");
  command->add_option("page", *page, "the page")
      ->capture_default_str()
      ->check(OneOf({"uopctl", "uopd"}));
  command->callback([&app, &globals, page] {
    const std::string text = *page == "uopd" ? UopdPage() : UopctlPage(Describe(app));
    globals.data = {{"page", text}};
    if (!globals.json) std::fwrite(text.data(), 1, text.size(), stdout);
  });
}

}  // namespace uopd::cli
