"""`sacbbf watch`: a local page that shows runs and sweeps as they train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from sacbbf.commands.parsing import parse
from sacbbf.errors import UsageError
from sacbbf.watch.server import LOCAL, Server

EXAMPLES = """\
  sacbbf watch runs
  sacbbf watch runs --port 0
"""


@dataclass(frozen=True)
class WatchArgs:
    """Serve a page that shows the runs and sweeps below DIR as they train. Ctrl-C ends it; training is not touched."""

    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = Path("runs")
    """A run, a sweep, or a directory that holds some."""
    host: str = "127.0.0.1"
    """Address to serve at; others than this machine's own let everybody on the network look."""
    port: int = 8100
    """Port; 0: any that is free."""


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    args = parse(WatchArgs, argv, "watch", EXAMPLES)
    if not args.directory.is_dir():
        raise UsageError(f"{args.directory}: no such directory")
    if not 0 <= args.port < 65536:
        raise UsageError(f"port = {args.port}: must be in 0 .. 65535")
    console = Console(soft_wrap=True)
    try:
        server = Server(args.directory.resolve(), args.host, args.port)
    except OSError as error:
        where = f"{args.host}:{args.port}"
        raise UsageError(f"cannot serve at {where}: {error.strerror}; --port 0 takes any that is free") from error
    if args.host not in LOCAL:
        console.print(f"warning: everybody who can reach {args.host} can see these runs", style="yellow", markup=False)
    console.print(f"{server.address} shows {args.directory}; Ctrl-C ends it", highlight=False, markup=False)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return 0
