"""Tests that the page docs/operate/settings-of-groups.md has every setting with its default, and a
correct example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.config.config import BadConfig
from broker.config.config_table import BROKER
from broker.config.sources import load

PAGE = (Path(__file__).parents[3] / "docs" / "operate" / "settings-of-groups.md").read_text()
ROW = re.compile(r"^\| `([a-z.]+)` \| ([^|]*) \|", re.M)


def test_settings_page_has_every_group_setting_with_its_default() -> None:
    written = dict(ROW.findall(PAGE))
    assert written.pop("group.consumer.assignors") == "Kafka's uniform, range"

    prefixes = ("group.", "offsets.", "offset.metadata.max.bytes")
    defaults = {
        name: str(setting.default)
        for name, setting in BROKER.items()
        if name.startswith(prefixes) and name in written
    }
    assert len(written) == 52
    assert written == defaults


def test_example_on_the_settings_page_equals_the_error_of_muster_serve() -> None:
    _, example = PAGE.split("## A worked example")
    command, said = re.findall(r"^    (.*)$", example, re.M)
    sets = re.findall(r"--set (\S+)", command)

    with pytest.raises(BadConfig) as refused:
        load(None, {}, sets, {})
    assert said == f"muster serve: {refused.value}"
