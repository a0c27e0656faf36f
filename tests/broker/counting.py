from __future__ import annotations

from typing import Any


def counted(owner: object, name: str) -> list[None]:
    """Returns a list to which each later call of the method ``name`` of ``owner`` appends None."""
    calls: list[None] = []
    method = getattr(owner, name)

    def counting(*arguments: Any) -> Any:
        calls.append(None)
        return method(*arguments)

    setattr(owner, name, counting)
    return calls
