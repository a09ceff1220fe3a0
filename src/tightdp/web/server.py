"""The server of the page: uvicorn without logs of requests, and with little patience."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tightdp.errors import fail
from tightdp.web.guard import PATIENCE, App

_MOST_CONNECTIONS = 100


class PatientProtocol(H11Protocol):
    """Closes a connection whose request line and headers do not come in time.

    The library waits for ever for them; bodies are timed by the guard.
    """

    patience = PATIENCE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._clock: asyncio.TimerHandle | None = None
        self._wait()

    def _wait(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(self.patience, self._give_up)

    def _give_up(self) -> None:
        self._clock = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:  # a request has begun and is not whole
            self._wait()
        else:
            self._stop_clock()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, so that the address can be said before anything is served."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen()  # who comes before the server is ready waits, and is not refused
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or "there is no such port"
        fail(f"`--port`: {host} port {port} cannot be used: {reason.lower()}.")
    return bound


def make_server(app: App, **more: Any) -> uvicorn.Server:
    """A server that logs no request: addresses and names of files stay here."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        access_log=False,
        log_level="critical",
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        **more,
    )
    return uvicorn.Server(config)
