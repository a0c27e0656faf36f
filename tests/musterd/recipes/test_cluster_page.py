"""The recipes in docs/test/clusters.md pass, and fail when the tested behaviour is removed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.brokers import CHECKOUT
from tests.musterd.recipes.test_page import RECIPES_S_MAX, blocks, run_pytest

RECIPES = (CHECKOUT / "docs" / "test" / "clusters.md").read_text().split("\n## Recipes\n")[1]
WITHOUT = {
    "A sale that the leader alone has": ('"acks": "all"', '"acks": 1'),
    "A worker whose leader is killed": ("REPLICAS = 3", "REPLICAS = 1"),
    "An order that is sent twice": ('"enable.idempotence": True', '"acks": "all"'),
    "Offsets when the coordinator is killed": (
        "                self.consumer.commit(message, asynchronous=False)\n",
        "",
    ),
    "A transaction around two failures": ('"read_committed"', '"read_uncommitted"'),
    "Too few in-sync replicas": ("self.refused.append(", "print("),
    "The price of an unclean election": (
        "    cluster.restart(leader)\n",
        '    cluster.elect_unclean("orders")\n    cluster.restart(leader)\n',
    ),
    "A rolling restart": ("REPLICAS = 3", "REPLICAS = 1"),
}
"""For each recipe, by its title: the part of its code on which the tested behaviour depends, and
code that replaces this part, so that the recipe must fail."""


def test_table_of_tested_clients_contains_every_recipe() -> None:
    rows = re.findall(r"^\| (.*?) \|.*all three clients", RECIPES, re.MULTILINE)
    assert rows == list(WITHOUT)


@pytest.mark.campaign
@pytest.mark.timeout(RECIPES_S_MAX + 60)
def test_each_cluster_recipe_passes(tmp_path: Path) -> None:
    recipes = {title: code for title, [code] in blocks("python", RECIPES).items()}
    assert set(recipes) == set(WITHOUT)
    assert run_pytest(tmp_path, recipes) == dict.fromkeys(recipes, "passed")


@pytest.mark.campaign
@pytest.mark.timeout(RECIPES_S_MAX + 60)
def test_each_cluster_recipe_fails_when_its_tested_behaviour_is_removed(tmp_path: Path) -> None:
    without = {}
    for title, [code] in blocks("python", RECIPES).items():
        has, has_not = WITHOUT[title]
        assert code.count(has) == 1, title
        without[title] = code.replace(has, has_not)
    became = run_pytest(tmp_path, without)
    assert {title for title, what in became.items() if not what.startswith("failure")} == set()
    slow = {title: what for title, what in became.items() if "Timeout" in what}
    assert slow == {}, "a recipe timed out instead of failing"
