"""The composition root passes all dependencies of an object to its constructor. It sets no
attribute of the object afterwards."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def assigned_to_parts(source: str) -> list[str]:
    """Returns the assignment targets in ``source`` that are attributes of an attribute, such as
    ``self.part.attribute``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Attribute) and not isinstance(target.value, ast.Name):
                found.append(ast.unparse(target))
    return found


@pytest.mark.parametrize("name", ["broker", "standalone", "in_cluster"])
def test_composition_root_sets_no_attribute_of_a_broker_part_after_its_construction(
    name: str,
) -> None:
    assert assigned_to_parts((ROOT / "broker" / f"{name}.py").read_text()) == []


@pytest.mark.planted("composition root")
def test_planted_assignment_to_an_attribute_of_a_broker_part_is_detected() -> None:
    assert assigned_to_parts("self.groups.on_fatal = self.fail") == ["self.groups.on_fatal"]
    assert assigned_to_parts("self.groups.seen += [1]\nself.part = 1") == ["self.groups.seen"]
