// SPDX-License-Identifier: MIT
#include "client/cli/self/completion.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/app.h"
#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

// Options of a command, and those of the program, which every command takes.
std::vector<const OptionInfo*> OptionsOf(const CommandInfo& program, const CommandInfo& command) {
  std::vector<const OptionInfo*> out;
  for (const OptionInfo& option : command.options)
    if (!option.positional) out.push_back(&option);
  if (&command == &program) return out;
  for (const OptionInfo& option : program.options)
    if (!option.positional && option.name != "--help" && option.name != "--version")
      out.push_back(&option);
  return out;
}

// In single quotes.
std::string Quoted(const std::string& text) {
  return Cat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// `case` lines that find out the command: each word that is a command below the path so far makes
// the path longer.
std::string PathCases(const CommandInfo& program) {
  std::string out;
  for (const CommandInfo* command : AllOf(program)) {
    if (command->path.empty()) continue;
    std::vector<std::string> above(command->path.begin(), command->path.end() - 1);
    Append(out, "      ", Quoted(Cat(absl::StrJoin(above, " "), "|", command->path.back())),
           ") path=", Quoted(command->name()), " ;;\n");
  }
  return out;
}

// Lines "'cache ls|--by') ..." for every option that takes a value, as `make` says them.
template <class Make>
std::string ValueCases(const CommandInfo& program, const char* indent, const Make& make) {
  std::string out;
  for (const CommandInfo* command : AllOf(program)) {
    for (const OptionInfo* option : OptionsOf(program, *command)) {
      if (option->takes_value)
        Append(out, indent, Quoted(Cat(command->name(), "|", option->name)), ") ", make(*option),
               " ;;\n");
    }
  }
  return out;
}

// Values of the first positional argument that has a list of them.
const OptionInfo* ListedArgument(const CommandInfo& command) {
  for (const OptionInfo& option : command.options)
    if (option.positional && !option.values.empty()) return &option;
  return nullptr;
}

std::string BashCommandCases(const CommandInfo& program) {
  std::string out;
  for (const CommandInfo* command : AllOf(program)) {
    std::vector<std::string> flags, words;
    for (const OptionInfo* option : OptionsOf(program, *command)) flags.push_back(option->name);
    for (const CommandInfo& below : command->commands) words.push_back(below.path.back());
    if (const OptionInfo* listed = ListedArgument(*command)) words = listed->values;
    Append(out, "    ", Quoted(command->name()),
           ")\n      flags=", Quoted(absl::StrJoin(flags, " ")),
           "\n      words=", Quoted(absl::StrJoin(words, " ")), "\n      ;;\n");
  }
  return out;
}

std::string ZshDescribed(const std::string& name, const std::string& help) {
  return Quoted(Cat(absl::StrReplaceAll(name, {{":", "\\:"}}), ":", help));
}

std::string ZshCommandCases(const CommandInfo& program) {
  std::string out;
  for (const CommandInfo* command : AllOf(program)) {
    Append(out, "    ", Quoted(command->name()), ")\n      flags=(");
    for (const OptionInfo* option : OptionsOf(program, *command))
      Append(out, "\n        ", ZshDescribed(option->name, option->help));
    Append(out, ")\n      words=(");
    for (const CommandInfo& below : command->commands)
      Append(out, "\n        ", ZshDescribed(below.path.back(), below.help));
    if (const OptionInfo* listed = ListedArgument(*command))
      for (const std::string& value : listed->values) Append(out, " ", Quoted(value));
    Append(out, ")\n      ;;\n");
  }
  return out;
}

}  // namespace

std::string BashCompletion(const CommandInfo& program) {
  const auto values = [](const OptionInfo& option) {
    return Cat("values=", Quoted(absl::StrJoin(option.values, " ")), " takes=1");
  };
  return Cat("# bash completion of uopctl: made by `uopctl completion bash`\n",
             "_uopctl_option() {  # of the path $1 the option $2: sets takes and values\n",
             "  takes='' values=''\n  case \"$1|$2\" in\n", ValueCases(program, "    ", values),
             "  esac\n}\n", R"(_uopctl() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev='' path='' takes values flags words i
  [ "$COMP_CWORD" -gt 0 ] && prev=${COMP_WORDS[COMP_CWORD - 1]}
  # --by=bytes is three words.
  if [ "$cur" = = ]; then cur=''; elif [ "$prev" = = ]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    _uopctl_option "$path" "${COMP_WORDS[i]}"
    if [ -n "$takes" ]; then
      i=$((i + 1))
      [ "${COMP_WORDS[i]}" = = ] && i=$((i + 1))
      continue
    fi
    case "$path|${COMP_WORDS[i]}" in
)",
             PathCases(program), R"(    esac
  done
  COMPREPLY=()
  _uopctl_option "$path" "$prev"
  if [ -n "$takes" ]; then
    [ -n "$values" ] && COMPREPLY=($(compgen -W "$values" -- "$cur"))
    return
  fi
  case "$path" in
)",
             BashCommandCases(program), R"(  esac
  if [[ $cur == -* ]]; then words=$flags; fi
  [ -n "$words" ] && COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _uopctl uopctl
)");
}

std::string ZshCompletion(const CommandInfo& program) {
  const auto values = [](const OptionInfo& option) {
    std::string list;
    for (const std::string& value : option.values) Append(list, " ", Quoted(value));
    return Cat("values=(", list, " ) takes=1");
  };
  return Cat("#compdef uopctl\n# zsh completion of uopctl: made by `uopctl completion zsh`\n",
             "_uopctl_option() {  # of the path $1 the option $2: sets takes and values\n",
             "  takes='' values=()\n  case \"$1|$2\" in\n", ValueCases(program, "    ", values),
             "  esac\n}\n", R"(_uopctl() {
  local path_='' takes='' i
  local -a values flags words_
  for ((i = 2; i < CURRENT; ++i)); do
    _uopctl_option "$path_" "${words[i]}"
    if [[ -n $takes ]]; then
      i=$((i + 1))
      continue
    fi
    case "$path_|${words[i]}" in
)",
             absl::StrReplaceAll(PathCases(program), {{") path=", ") path_="}}), R"(    esac
  done
  _uopctl_option "$path_" "${words[CURRENT - 1]}"
  if [[ -n $takes ]]; then
    if (( $#values )); then compadd -a values; else _files; fi
    return
  fi
  case "$path_" in
)",
             absl::StrReplaceAll(ZshCommandCases(program), {{"\n      words=", "\n      words_="}}),
             R"(  esac
  if [[ ${words[CURRENT]} == -* ]]; then
    _describe -o option flags
  elif (( $#words_ )); then
    _describe command words_
  else
    _files
  fi
}
if [[ $funcstack[1] == _uopctl ]]; then _uopctl "$@"; else compdef _uopctl uopctl; fi
)");
}

void AddCompletion(CLI::App& app, Globals& globals) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "completion", "print the completion of a shell: eval \"$(uopctl completion bash)\"");
  command->add_option("shell", *shell, "the shell")->required()->check(OneOf({"bash", "zsh"}));
  command->callback([&app, &globals, shell] {
    const CommandInfo program = Describe(app);
    const std::string script = *shell == "bash" ? BashCompletion(program) : ZshCompletion(program);
    globals.data = {{"script", script}};
    if (!globals.json) std::fwrite(script.data(), 1, script.size(), stdout);
  });
}

}  // namespace uopd::cli
