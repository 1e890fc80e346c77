"""What a configuration adds to a Gymnasium environment by name: modules to import, arguments, wrappers."""

from __future__ import annotations

import ast
import importlib
import inspect
import tomllib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sacbbf.envs import games
from sacbbf.envs.base import EnvError, UnknownModule

if TYPE_CHECKING:
    from sacbbf.envs.gymnasium import AnyEnv

_PLAIN = (bool, int, float, str, list, dict, tuple, type(None))


def import_module(module: str, setting: str) -> ModuleType:
    """Import a module that a configuration names, for the sake of `setting`; all such imports happen here.

    Importing runs the module's code: `trust.py` decides before, where a folder and not the user names it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise UnknownModule(
                f"{setting}: there is no module {error.name!r} to import, in the working directory or on PYTHONPATH"
            ) from error
        raise EnvError(f"{setting}: importing {module} failed: {_words(error)}") from error
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        raise EnvError(f"{setting}: importing {module} failed: {_words(error)}") from error


def import_all(modules: Sequence[str]) -> None:
    """Import the modules of `environment.imports`, in order."""
    for module in modules:
        import_module(module, f"environment.imports = {module!r}")


def read_kwargs(texts: Sequence[str]) -> dict[str, Any]:
    """Return arguments given as `KEY=VALUE`: a value is TOML or a Python literal, anything else a word."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise EnvError(f"environment.kwargs = {text!r}: must be KEY=VALUE, as in map_name=8x8")
        if name in found:
            raise EnvError(f"environment.kwargs = {text!r}: {name} is given twice")
        if name == "render_mode":
            raise EnvError(f"environment.kwargs = {text!r}: pictures are asked for where they are wanted; leave it out")
        found[name] = _value(value, text)
    return found


def _value(text: str, given: str) -> Any:
    try:
        tables = tomllib.loads(f"value = {text}")
        if len(tables) == 1 and isinstance(tables["value"], _PLAIN):
            return tables["value"]
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        if not text or text[0] in "[{('\"":
            raise EnvError(f"environment.kwargs = {given!r}: the value is neither TOML nor a Python literal") from error
        return text


def check_module(text: str) -> None:
    """Refuse what cannot be a module's name, without importing anything."""
    if not _dotted(text):
        raise EnvError(f"environment.imports = {text!r}: must be a module, as in my_package.games")


def check_wrapper(text: str) -> None:
    """Refuse what cannot be a wrapper's place, without importing anything."""
    module, _, name = text.rpartition(":")
    if not _dotted(module) or not name.isidentifier():
        raise EnvError(f"environment.wrappers = {text!r}: must be module:Class, as in my_package.wrappers:Smaller")


def _dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def wrap(env: AnyEnv, wrappers: Sequence[str], name: str) -> AnyEnv:
    """Put wrappers around an environment, the first innermost; it is closed if one of them fails."""
    try:
        for text in wrappers:
            kind = _find_wrapper(text)
            try:
                env = kind(env)
            except Exception as error:  # whatever a wrapper does when it is made
                raise EnvError(f"{name}: the wrapper {text} could not be put on: {_words(error)}") from error
    except EnvError:
        env.close()
        raise
    return env


def _find_wrapper(text: str) -> Any:
    import gymnasium

    setting = f"environment.wrappers = {text!r}"
    place, _, name = text.rpartition(":")
    module = import_module(place, setting)
    found = getattr(module, name, None)
    if inspect.isclass(found) and issubclass(found, gymnasium.Wrapper):
        return found
    if found is not None:
        raise EnvError(f"{setting}: must be a class derived from gymnasium.Wrapper, {name} is not")
    kinds = [one for one in dir(module) if inspect.isclass(getattr(module, one, None))]
    raise EnvError(f"{setting}: {place} has no {name}{games.suggestion(games.nearest(name, kinds))}")


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
