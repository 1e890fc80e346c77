"""Serves the page that shows runs as they train: read only, to this machine alone unless asked otherwise."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sacbbf.errors import UsageError
from sacbbf.watch.sight import FILES, find_run, overview, run_details

LOCAL = ("127.0.0.1", "localhost")
# Nothing from elsewhere is loaded or run, whatever a run's files say.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self'; connect-src 'self'"
)


class Server(ThreadingHTTPServer):
    """Answers for the runs below one directory."""

    daemon_threads = True

    def __init__(self, top: Path, host: str, port: int) -> None:
        self.top = top
        self.local_only = host in LOCAL
        super().__init__((host, port), Handler)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that has gone; any other error is this program's own."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the page, with JSON, or with a run's picture or video; what cannot be read has a short answer."""
        try:
            self._answer()
        except UsageError as error:
            self._text(HTTPStatus.NOT_FOUND, str(error))
        except ConnectionError:  # the browser has gone
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
            "/api/overview": lambda query: self._json(overview(self.server.top)),
            "/api/run": lambda query: self._json(run_details(self.server.top, query.get("path", ""))),
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
        folder = resources.files("sacbbf.watch")
        page = (folder / "page.html").read_text(encoding="utf-8")
        for name in ("page.css", "page.js"):
            page = page.replace(f"/* {name} */", (folder / name).read_text(encoding="utf-8"))
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", page.encode())

    def _json(self, value: Any) -> None:
        self._send(HTTPStatus.OK, "application/json", json.dumps(value).encode())

    def _text(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "text/plain; charset=utf-8", text.encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def _file(self, query: dict[str, str]) -> None:
        name = query.get("name", "")
        path = find_run(self.server.top, query.get("path", "")) / name
        if name not in FILES or not path.is_file():
            raise UsageError(f"there is no {name!r} in this run")
        self._send(HTTPStatus.OK, FILES[name], path.read_bytes())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is for the address."""
