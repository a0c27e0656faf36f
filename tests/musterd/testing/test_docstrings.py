"""The examples in the docstrings of `musterd.testing` print the output that they show."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import pkgutil
import traceback

import pytest

import musterd.testing
from musterd.testing import AsyncMuster, Muster, MusterCluster
from tests.musterd.testing.clients import consuming, produce

KNOWN = {
    "AsyncMuster": AsyncMuster, "Muster": Muster, "MusterCluster": MusterCluster,
    "asyncio": asyncio, "consuming": consuming, "produce": produce,
}  # fmt: skip
"""Names that the docstring examples use without an import."""


def examples() -> list[doctest.DocTest]:
    """Returns the examples of each docstring of `musterd.testing` that has examples."""
    names = ["musterd.testing"] + [
        f"musterd.testing.{each.name}" for each in pkgutil.iter_modules(musterd.testing.__path__)
    ]
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [
        each
        for name in names
        for each in finder.find(importlib.import_module(name), name, extraglobs=dict(KNOWN))
        if each.examples
    ]
    return sorted(found, key=lambda each: each.name)


def test_examples_in_docstrings_are_collected() -> None:
    assert len(examples()) > 5


@pytest.mark.parametrize("example", examples(), ids=lambda each: each.name)
def test_docstring_example_prints_the_output_in_the_docstring(example: doctest.DocTest) -> None:
    runner = doctest.DebugRunner(optionflags=doctest.ELLIPSIS)
    try:
        runner.run(example)
    except doctest.DocTestFailure as failure:
        pytest.fail(f"{example.name}: {failure.example.source}got {failure.got}")
    except doctest.UnexpectedException as failure:
        pytest.fail(f"{example.name}:\n{''.join(traceback.format_exception(failure.exc_info[1]))}")
