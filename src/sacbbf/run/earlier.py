"""Stored configurations of earlier versions, in today's words."""

from __future__ import annotations

from typing import Any

from sacbbf.envs import games


def in_todays_words(tables: dict[str, Any]) -> dict[str, Any]:
    """Return a stored configuration of version 0.1.0 with its settings as they are called today, others as they are."""
    tables = _as_seen_then(tables)
    settings = tables.get("settings")
    compute = settings.get("compute") if isinstance(settings, dict) else None
    if not isinstance(settings, dict) or not isinstance(compute, dict) or "frames_on_device" not in compute:
        return tables
    today = {"frames": "device" if compute["frames_on_device"] else "host"}
    today |= {name: value for name, value in compute.items() if name != "frames_on_device"}
    if tables.get("device") == "cpu" and today.get("precision") == "float32":
        today["precision"] = "auto"  # the same there
    return tables | {"settings": settings | {"compute": today}}


def _as_seen_then(tables: dict[str, Any]) -> dict[str, Any]:
    """Return a stored configuration of version 0.1.0, which lacked `resize`, with pictures and grids as it saw them."""
    env, environment, settings = str(tables["env"]), tables.get("environment"), tables.get("settings")
    if env.startswith("MinAtar/") or games.find_game(env) is not None:
        return tables
    network = settings.get("network") if isinstance(settings, dict) else None
    if not isinstance(environment, dict) or "resize" in environment or not isinstance(network, dict):
        return tables
    if network.get("encoder") == "mlp":
        return tables
    return tables | {"environment": {"resize": 0, "pictures": "bytes"} | environment}
