"""Modules outside broker/cores read a core only through the attribute ``view``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from broker.cores.core import Core
from controller.controller import Controller

ROOT = Path(__file__).resolve().parents[2]
EDGE = sorted((ROOT / "broker").rglob("*.py"))
VERBS = {name for name in vars(Core) if not name.startswith("_")}
OF_GROUPS = {
    "do",
    "is_sweeping",
    "look_for_deleted_topics",
    "share_state_deleted",
    "sweep",
    "topic_changed",
    "topics_deleted",
}
"""The names of methods that only the cores of groups have. Only modules in broker/cores/groups may
call these methods."""
OF_THE_CONTROLLER = {name for name in vars(Controller) if not name.startswith("_")}
"""The public methods of the controller. Only one module may call them."""
HIDDEN = {
    "coordinator.shard",
    "coordinator.classic.group",
    "coordinator.classic.member",
    "coordinator.step",
}


def reads_of_cores(tree: ast.AST) -> set[str]:
    """Returns the names of the attributes that are read from an attribute ``core``. Reads from
    ``settings.core`` do not count."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "core"
        and "settings" not in ast.unparse(node.value.value)
    }


@pytest.mark.parametrize("path", EDGE, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_reads_only_permitted_attributes_of_a_core(path: Path) -> None:
    tree = ast.parse(path.read_text())
    place = path.relative_to(ROOT / "broker").parts
    allowed = {"view"} if place[0] != "cores" else VERBS | OF_GROUPS
    if place == ("cluster", "controller", "controller_term.py"):
        allowed = OF_THE_CONTROLLER
    assert reads_of_cores(tree) <= allowed
    if place[0] != "cores":
        imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert not imported & HIDDEN


@pytest.mark.planted("what cores read")
def test_check_detects_code_that_reads_an_attribute_of_a_core() -> None:
    assert reads_of_cores(ast.parse("hosted.core.groups; settings.core.x")) == {"groups"}
    assert {"handle", "replay", "unload", "view"} <= VERBS
    assert {"handle", "work", "next_deadline"} <= OF_THE_CONTROLLER
