"""Parts by name: what ships with the package, and what others register beside it."""

from __future__ import annotations

from typing import Generic, TypeVar

from sacbbf.errors import UsageError

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """Parts that a setting chooses by name."""

    def __init__(self, setting: str, parts: dict[str, Part]) -> None:
        self.setting = setting
        self.parts = parts

    def register(self, name: str, part: Part) -> None:
        """Add a part; registering the same one again is fine, another one of the same name is not."""
        if not isinstance(name, str) or not name:
            raise UsageError(f"name = {name!r}: must be a name")
        if name in self.parts and self.parts[name] != part:
            raise UsageError(f"name = {name!r}: there is another {self.setting} of this name")
        self.parts[name] = part

    def __getitem__(self, name: str) -> Part:
        """Return the part of a name; UsageError lists those that there are."""
        if name not in self.parts:
            known = ", ".join(self.parts)
            raise UsageError(f"{self.setting} = {name!r}: must be one of {known}, or registered first")
        return self.parts[name]
