"""Serves the page that shows runs as they train: read only, to this machine alone unless asked otherwise."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from socket import SHUT_RDWR, socket
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sacbbf.disk.reading import open_file
from sacbbf.errors import UsageError
from sacbbf.watch.sight import FILES, find_run, overview, run_details

LOCAL = ("127.0.0.1", "localhost")
MOST = 32  # connections at a time; a browser has six
PATIENCE = 20.0  # seconds that a client may keep silent
PIECE = 1 << 16  # bytes of a video that are sent at a time
# Nothing from elsewhere is loaded, and nothing but the page's own script is run, whatever a run's files say.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {script}; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Server(ThreadingHTTPServer):
    """Answers for the runs below one directory, to so many clients at a time that none can tire this machine."""

    daemon_threads = True
    request_queue_size = MOST

    def __init__(self, top: Path, host: str, port: int) -> None:
        self.top = top
        self.local_only = host in LOCAL
        self.page, self.policy = read_page()
        self.reading = Lock()  # files are read for one client at a time
        self._open: list[socket] = []
        self._opening = Lock()
        super().__init__((host, port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; where there are too many, the oldest connection makes room."""
        with self._opening:
            self._open.append(request)
            if len(self._open) > MOST:
                with contextlib.suppress(OSError):
                    self._open.pop(0).shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that has ended."""
        with self._opening, contextlib.suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone; any other error is this program's own."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def read_page() -> tuple[bytes, str]:
    """Return the page in one piece, and the policy that lets its own script run."""
    folder = resources.files("sacbbf.watch")
    page, style, script = ((folder / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    content = page.replace("/* page.css */", style).replace("/* page.js */", script)
    return content.encode(), POLICY.format(script=f"'sha256-{digest}'")


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Answer with the page, with JSON, or with a run's picture or video; what cannot be read has a short answer."""
        try:
            self._answer()
        except UsageError as error:
            self._text(HTTPStatus.NOT_FOUND, str(error))
        except (ConnectionError, TimeoutError):  # the browser has gone
            self.close_connection = True
        except (OSError, ValueError, TypeError) as error:
            self._text(HTTPStatus.INTERNAL_SERVER_ERROR, f"this cannot be read: {error}")

    def _answer(self) -> None:
        if self.server.local_only and self._host() not in LOCAL:  # another site's name that was made to lead here
            self._text(HTTPStatus.FORBIDDEN, "ask by the name localhost")
            return
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        routes: dict[str, Callable[[dict[str, str]], None]] = {
            "/": self._page,
            "/api/overview": lambda query: self._json(lambda: overview(self.server.top)),
            "/api/run": lambda query: self._json(lambda: run_details(self.server.top, query.get("path", ""))),
            "/file": self._file,
        }
        if parts.path not in routes:
            raise UsageError("there is no such page")
        routes[parts.path](query)

    def _host(self) -> str:
        try:
            return urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        except ValueError:  # it is no name at all
            return ""

    def _page(self, query: dict[str, str]) -> None:
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)

    def _json(self, read: Callable[[], Any]) -> None:
        with self.server.reading:
            content = json.dumps(read()).encode()
        self._send(HTTPStatus.OK, "application/json", content)

    def _text(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "text/plain; charset=utf-8", text.encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self._begin(status, kind, len(content))
        self.wfile.write(content)

    def _begin(self, status: HTTPStatus, kind: str, size: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", self.server.policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()

    def _file(self, query: dict[str, str]) -> None:
        name = query.get("name", "")
        if name not in FILES:
            raise UsageError(f"there is no {name!r} in this run")
        kind, most = FILES[name]
        with self.server.reading:
            path = find_run(self.server.top, query.get("path", "")) / name
        try:
            file = open_file(path, most)
        except FileNotFoundError as error:
            raise UsageError(f"there is no {name!r} in this run") from error
        with file:
            left = os.fstat(file.fileno()).st_size
            self._begin(HTTPStatus.OK, kind, left)
            while left and (piece := file.read(min(left, PIECE))):  # a little at a time: clients may be many and slow
                self.wfile.write(piece)
                left -= len(piece)
        self.close_connection = self.close_connection or left > 0

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is for the address."""
