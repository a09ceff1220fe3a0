"""``tightdp completion``: scripts that let a shell complete commands, options and files."""

from __future__ import annotations

import argparse

from tightdp.cli.arguments import Commands, argument, command
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
    command(
        commands,
        "completion",
        _completion,
        "print a script that completes commands in your shell",
        argument("shell", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"),
        examples='  eval "$(tightdp completion bash)"            # in ~/.bashrc\n'
        '  eval "$(tightdp completion zsh)"             # in ~/.zshrc\n'
        "  tightdp completion fish | source             # in config.fish\n",
    )


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


def _inner(made: argparse.ArgumentParser) -> Commands | None:
    """Where a command keeps its own commands, if it has any."""
    kept = (each for each in made._actions if isinstance(each, argparse._SubParsersAction))
    return next(kept, None)


def _commands(made: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    inner = _inner(made)
    return {} if inner is None else dict(inner.choices)


def _options(made: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """Long options, with what they are for."""
    return [
        (option, _bare(action.help))
        for action in made._actions
        for option in action.option_strings
        if option.startswith("--")
    ]


def _words(made: argparse.ArgumentParser) -> list[str]:
    """Commands, long options and choices that may come next."""
    words = [*_commands(made), *(option for option, _ in _options(made))]
    for action in made._actions:
        if action.choices and action is not _inner(made):
            words += map(str, action.choices)
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
        inner = _inner(made)
        helps = [] if inner is None else [(i.dest, _bare(i.help)) for i in inner._choices_actions]
        names = " ".join(name for name, _ in helps)
        none = f"; and not __fish_seen_subcommand_from {names}" if names else ""
        when = f"complete -c tightdp -n '{f'{seen}{none}'.removeprefix('; and ') or 'true'}'"
        lines += [f"{when} -a {name} -d '{about}'" for name, about in helps]
        lines += [f"{when} -l {option[2:]} -d '{about}'" for option, about in _options(made)]
        lines += [] if helps else [f"{when} -F"]
    return "\n".join(lines) + "\n"


def _bare(text: str | None) -> str:
    return (text or "").replace("'", "")
