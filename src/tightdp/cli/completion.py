"""``tightdp completion``: scripts that let a shell complete commands, options and files."""

from __future__ import annotations

import argparse

from tightdp.cli.arguments import Commands, command
from tightdp.cli.output import Exit, Speaker

_BASH = """\
# tightdp completion for bash; in ~/.bashrc: eval "$(tightdp completion bash)"
_tightdp() {{
  local word path="" cur="${{COMP_WORDS[COMP_CWORD]}}" words=""
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
{steps}
    esac
  done
  case "$path" in
{words}
  esac
  if [[ "$cur" == -* || "$files" != yes ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$cur") $(compgen -f -- "$cur"))
  fi
}}
complete -o filenames -F _tightdp tightdp
"""


def add(commands: Commands) -> None:
    """Add the command."""
    made = command(
        commands,
        "completion",
        _completion,
        "print a script that completes commands in your shell",
        examples='  eval "$(tightdp completion bash)"            # in ~/.bashrc\n'
        '  eval "$(tightdp completion zsh)"             # in ~/.zshrc\n'
        "  tightdp completion fish | source             # in config.fish\n",
    )
    made.add_argument("shell", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def _completion(given: argparse.Namespace, speaker: Speaker) -> Exit:
    from tightdp.cli.main import parser

    text = script(given.shell, parser())
    speaker.say(text.rstrip("\n"), {"shell": given.shell, "script": text})
    return Exit.DONE


def script(shell: str, whole: argparse.ArgumentParser) -> str:
    """The completion script of a shell, made from the parser itself."""
    if shell == "fish":
        return _fish(whole)
    text = _bash(whole)
    if shell == "zsh":
        return f"autoload -U +X compinit bashcompinit && compinit && bashcompinit\n{text}"
    return text


Node = tuple[tuple[str, ...], argparse.ArgumentParser]


def nodes(whole: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> list[Node]:
    """Every command with its words."""
    found: list[Node] = [(path, whole)]
    for name, inner in _commands(whole).items():
        found += nodes(inner, (*path, name))
    return found


def _commands(made: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in made._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _words(made: argparse.ArgumentParser) -> list[str]:
    """Commands, long options and choices that may come next."""
    words = list(_commands(made))
    for action in made._actions:
        words += [option for option in action.option_strings if option.startswith("--")]
        if action.choices and not isinstance(action, argparse._SubParsersAction):
            words += [str(choice) for choice in action.choices]
    return words


def _bash(whole: argparse.ArgumentParser) -> str:
    steps, words = [], []
    for path, made in nodes(whole):
        place = " ".join(path)
        steps += [
            f'      "{place} {name}") path="{f"{place} {name}".strip()}" ;;'
            for name in _commands(made)
        ]
        files = "no" if _commands(made) else "yes"
        words.append(f'    "{place}") words="{" ".join(_words(made))}"; local files={files} ;;')
    return _BASH.format(steps="\n".join(steps), words="\n".join(words))


def _fish(whole: argparse.ArgumentParser) -> str:
    lines = ["# tightdp completion for fish", "complete -c tightdp -f"]
    for path, made in nodes(whole):
        seen = "".join(f"; and __fish_seen_subcommand_from {word}" for word in path)
        inner = _commands(made)
        none = f"; and not __fish_seen_subcommand_from {' '.join(inner)}" if inner else ""
        when = f"{seen}{none}".removeprefix("; and ") or "true"
        lines += [
            f"complete -c tightdp -n '{when}' -a {name} -d '{_help(made, name)}'" for name in inner
        ]
        for action in made._actions:
            for option in action.option_strings:
                if option.startswith("--"):
                    about = _bare(action.help)
                    lines.append(f"complete -c tightdp -n '{when}' -l {option[2:]} -d '{about}'")
        if not inner:
            lines.append(f"complete -c tightdp -n '{when}' -F")
    return "\n".join(lines) + "\n"


def _help(made: argparse.ArgumentParser, name: str) -> str:
    for action in made._actions:
        if isinstance(action, argparse._SubParsersAction):
            for item in action._choices_actions:
                if item.dest == name:
                    return _bare(item.help)
    return ""


def _bare(text: str | None) -> str:
    return (text or "").replace("'", "")
