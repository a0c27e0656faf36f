"""Pairs of codecs for tests: the generated codec in Python and, if it exists, the compiled
codec."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.absent import program
from tools import make_fast


@cache
def built() -> ModuleType:
    """Builds the compiled codecs in a temporary folder, once per process, and returns their
    module. Takes two seconds. The variable ``CFLAGS`` adds compiler options, such as those of a
    sanitizer."""
    program("cc", "gcc")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / make_fast.NAME
        make_fast.build(path, f"-Werror {os.environ.get('CFLAGS', '')}")
        spec = importlib.util.spec_from_file_location("_compiled", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def in_python(codec: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the Python codec: the fallback of ``codec`` if ``codec`` is compiled, otherwise
    ``codec`` itself."""
    found: Callable[..., Any] = getattr(codec, "__self__", codec)
    return found


def alone(kind: str, module: ModuleType, version: int) -> Callable[..., Any] | None:
    """Returns the compiled codec without a fallback, or None if it does not exist. This codec
    returns None for data that it does not support. ``kind`` is ``decode`` or ``encode``."""
    name = module.__name__.rpartition(".")[2]
    codec: Callable[..., Any] | None = built().codec(f"{kind} {name} {version}", None)
    return codec


def both(kind: str, module: ModuleType, version: int) -> list[Callable[..., Any]]:
    """Returns the Python codec and, if it exists, the compiled codec with its fallback to Python,
    as the broker uses it."""
    name = module.__name__.rpartition(".")[2]
    table = module.DECODE_REQUEST if kind == "decode" else module.ENCODE_RESPONSE
    python = in_python(table[version])
    compiled = built().codec(f"{kind} {name} {version}", python)
    return [python] if compiled is None else [python, compiled]
