"""``tightdp web``: the page, on this machine."""

from __future__ import annotations

import argparse
import os
import signal
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tightdp.cli.arguments import Commands, argument, command
from tightdp.cli.output import Exit, Speaker
from tightdp.errors import fail, require
from tightdp.paths import check_file, read_file

_PASSWORD = "TIGHTDP_PASSWORD"


def add(commands: Commands) -> None:
    """Add the command."""
    command(
        commands,
        "web",
        _web,
        "open a page in the browser: see the error, pay, publish",
        argument("plan", metavar="PLAN", nargs="?", default="plan.toml",
                 help="a plan, which need not exist yet; by default plan.toml"),
        argument("--port", metavar="N", type=int, default=0, help="by default any that is free"),
        argument("--folder", metavar="DIR", action="append", default=[],
                 help="a folder that the page may see besides that of the plan; may be repeated"),
        argument("--no-browser", action="store_true", help="only print the address"),
        argument("--host", metavar="ADDRESS", default="127.0.0.1",
                 help="a public address; needs a password, and a proxy with TLS in front"),
        argument("--password-file", metavar="FILE",
                 help=f"for --host: its first line is the password; or set {_PASSWORD}"),
        more="The page is a view of the plan. It answers this machine alone, and only a browser\n"
        "that was given the address with its token. It sees the folder of the plan and what is\n"
        "below, nothing else. What is released can be released again for nothing, also after the\n"
        "program was stopped: the ledger keeps it.",
        examples="  tightdp web\n"
        "  tightdp web survey.toml --folder /data/surveys\n",
    )  # fmt: skip


def _web(given: argparse.Namespace, speaker: Speaker) -> Exit:
    require("uvicorn", "web")
    require("starlette", "web")
    from tightdp.web.app import make_app
    from tightdp.web.guard import LOOPBACK, Keys, allowed_hosts
    from tightdp.web.server import listen, make_server
    from tightdp.web.workspace import Workspace

    plan = Path(given.plan)
    if plan.suffix != ".toml":
        fail("`plan` must be a file that ends in .toml.")
    if plan.exists():
        check_file("plan", plan)
    space = Workspace([plan.parent, *given.folder], plan.name)
    local = given.host in LOOPBACK
    keys = Keys(password=None if local else _password(given))
    with listen(given.host, given.port) as bound:
        port = bound.getsockname()[1]
        name = f"[{given.host}]" if ":" in given.host else given.host
        address = f"http://{name}:{port}/" + (f"#token={keys.token}" if local else "")
        server = make_server(make_app(space, keys, allowed_hosts(given.host, port)))
        speaker.say(address, {"address": address})
        speaker.remark("Stop with Ctrl-C. Who has this address can see the plan and spend.")
        if local and not (given.no_browser or speaker.json):
            webbrowser.open(address)
        with _finishing():
            server.run(sockets=[bound])
    return Exit.DONE


@contextmanager
def _finishing() -> Iterator[None]:
    """Lets a request to stop end the server and not the program: what is paid for is finished.

    The server raises the signal once more when it has stopped, for whoever started it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    for name in before:
        signal.signal(name, lambda *_: None)
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _password(given: argparse.Namespace) -> str:
    """The password of a public address: of a file or of the environment, never of the command."""
    if given.password_file is not None:
        found = read_file("--password-file", given.password_file).split("\n", 1)[0].strip()
    else:
        found = os.environ.get(_PASSWORD, "")
    if not found:
        fail(f"`--host`: a public address needs a password: --password-file, or {_PASSWORD}.")
    return found
