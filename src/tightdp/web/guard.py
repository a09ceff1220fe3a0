"""Who may talk to the page: one browser that was told the token, from the page itself.

The token stands behind the ``#`` of the address: a browser never sends that part, so it is in no
log and no ``Referer``. The page sends it in a header of every request. There is no cookie, which
would be sent to every other server of this machine, and no request of another site can carry the
header: that needs a permission (CORS) which is never given.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from tightdp.errors import fail
from tightdp.randomness import RandomSource, source

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BYTES = 1_000_000
PATIENCE = 10.0  # seconds that a client may take to send a request
_SHORTEST = 12  # letters of a password
_TRIES, _PAUSE = 5, 30.0  # wrong passwords, and seconds until the next may be tried
_OPEN = ("/", "/static/", "/api/login")
LOOPBACK = ("127.0.0.1", "localhost", "::1")

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


def new_token(rng: RandomSource | None = None) -> str:
    """A text that nobody can guess: 192 bits.

    >>> len(new_token())
    48
    """
    words = (source() if rng is None else rng).words(3)
    return "".join(f"{int(word):016x}" for word in words)


class Keys:
    """The token, and on a public address the password that is exchanged for it."""

    def __init__(self, token: str | None = None, password: str | None = None) -> None:
        if password is not None and len(password) < _SHORTEST:
            fail(f"The password must have at least {_SHORTEST} characters.")
        self.token = new_token() if token is None else token
        self._salt = new_token().encode()
        self._hash = None if password is None else self._digest(password)
        self._wrong: list[float] = []

    @property
    def asks(self) -> bool:
        """Whether a password is asked for: then the address does not hold the token."""
        return self._hash is not None

    def _digest(self, password: str) -> bytes:
        coded = password.encode("utf-8", "surrogatepass")
        return hashlib.scrypt(coded, salt=self._salt, n=1 << 14, r=8, p=1)

    def fits(self, token: str) -> bool:
        """Whether a header holds the token; takes as long for all that are wrong."""
        return hmac.compare_digest(token.encode("latin-1", "replace"), self.token.encode())

    def exchange(self, password: str) -> str | None:
        """The token for the password; None if it is wrong, or wrong ones came too often."""
        now = time.monotonic()
        self._wrong = [at for at in self._wrong if now - at < _PAUSE]
        if self._hash is None or len(self._wrong) >= _TRIES:
            return None
        if hmac.compare_digest(self._digest(password[:1000]), self._hash):
            return self.token
        self._wrong.append(now)
        return None


class Guard:
    """Refuses strangers before anything is read, and long or slow requests while they come in."""

    def __init__(
        self, app: App, keys: Keys, hosts: Iterable[str] | None, patience: float = PATIENCE
    ) -> None:
        self._app, self._keys, self._patience = app, keys, patience
        self._hosts = None if hosts is None else frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            asks = refusal[0] == 401 and self._keys.asks
            await _refuse(send, *refusal, kind="password" if asks else "")
            return
        body = await self._body(receive)
        if isinstance(body, tuple):
            await _refuse(send, *body)
            return
        await self._app(scope, _replay(body, receive), _with_headers(send))

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Why a request is not even read; None if it is."""
        host = headers.get("host", "")
        if self._hosts is not None and host.lower() not in self._hosts:
            return 421, "This page answers under the address that was printed, and no other."
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower():
            return 403, "Requests come from the page itself."
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "Requests come from the page itself."
        if not _is_open(scope["path"]) and not self._keys.fits(headers.get("x-tightdp", "")):
            return 401, "Open the address that `tightdp web` printed: it holds the token."
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:12]) > MOST_BYTES:
            return 413, f"A request has at most {MOST_BYTES} bytes."
        return None

    async def _body(self, receive: Receive) -> bytes | tuple[int, str]:
        """All that is sent, in time and of moderate length; or why not."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return 400, "The connection was closed."
                    part = message.get("body", b"")
                    size += len(part)
                    if size > MOST_BYTES:
                        return 413, f"A request has at most {MOST_BYTES} bytes."
                    parts.append(part)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return 408, "The request came too slowly."


def _is_open(path: str) -> bool:
    """What is shown without a token: the empty page, which holds nothing, and the way in."""
    return path in _OPEN or path.startswith("/static/")


def _replay(body: bytes, receive: Receive) -> Receive:
    """The request again, now that it is known to be whole."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            kept = [pair for pair in message["headers"] if pair[0].decode() not in HEADERS]
            message["headers"] = kept + own
        await send(message)

    return sending


async def _refuse(send: Send, status: int, message: str, kind: str = "") -> None:
    body = json.dumps({"error": message, "kind": kind}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(body)).encode()))
    sending = _with_headers(send)
    await sending({"type": "http.response.start", "status": status, "headers": headers})
    await sending({"type": "http.response.body", "body": body})


def allowed_hosts(host: str, port: int) -> frozenset[str] | None:
    """What a browser may call this server; None, on a public address, for any name.

    A name that a stranger points at this machine is then refused, or has neither token nor
    password: the browser keeps them for the name under which they were given.

    >>> sorted(allowed_hosts("127.0.0.1", 80))
    ['127.0.0.1', '127.0.0.1:80', '[::1]', '[::1]:80', 'localhost', 'localhost:80']
    """
    if host not in LOOPBACK:
        return None
    names = [f"[{name}]" if ":" in name else name for name in LOOPBACK]
    bare = names if port in (80, 443) else []
    return frozenset([*bare, *(f"{name}:{port}" for name in names)])
