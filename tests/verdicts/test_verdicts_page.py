"""Tests that docs/use/verdicts.md lists all verdicts in order, and each threshold with its
default."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from verdicts.judge import NEEDS_HISTORY
from verdicts.names import OLD_NAMES, Verdict, rank_of
from verdicts.thresholds import SETTINGS, Thresholds

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "use" / "verdicts.md").read_text()
ROW = re.compile(r"^\| (?:`(\w+)` )?\| ([^|]+) \| (?:`([a-z.]+)` )?\| (\d*) ?\|$", re.M)


def test_verdicts_page_lists_all_verdicts_with_their_rules_by_severity() -> None:
    named = [(verdict, rule) for verdict, rule, _, _ in ROW.findall(PAGE) if verdict]

    assert [verdict for verdict, _ in named] == [verdict.value for verdict in Verdict]
    assert all(len(rule) > 10 for _, rule in named)
    assert [verdict.rank for verdict in Verdict] == list(range(len(Verdict)))


def test_verdicts_page_lists_all_settings_with_their_defaults() -> None:
    written = {name: int(default) for _, _, name, default in ROW.findall(PAGE) if name}
    defaults = asdict(Thresholds())

    assert written == {name: defaults[field] for name, field in SETTINGS.items()}
    assert set(SETTINGS.values()) == set(defaults)


def test_verdicts_page_lists_each_setting_in_the_row_of_its_verdict() -> None:
    verdict = ""
    for name, _, setting, _ in ROW.findall(PAGE):
        verdict = name or verdict
        if setting:
            assert setting.startswith(f"group.verdict.{verdict.lower().replace('_', '.')}")


def test_each_verdict_setting_changes_the_threshold_with_the_same_name() -> None:
    for name, field in SETTINGS.items():
        assert Thresholds.of({name: 7}) == Thresholds(**{field: 7})


def test_verdicts_page_names_the_verdicts_that_need_history() -> None:
    last = PAGE.rpartition("\n\n")[2]
    assert re.findall(r"`(\w+)`", last) == [each.value for each in NEEDS_HISTORY]


def test_old_name_of_a_verdict_is_accepted_for_one_release() -> None:
    assert Verdict("DEAD_LETTER") is Verdict.STUCK_RECORD
    assert rank_of("DEAD_LETTER") == Verdict.STUCK_RECORD.rank
    with pytest.raises(ValueError, match="DEAD"):
        Verdict("DEAD")


def test_new_name_of_a_verdict_setting_overrides_its_old_name() -> None:
    old, new, default = "group.verdict.dead.letter.ms", "group.verdict.stuck.record.ms", 30_000
    for settings, expected in (
        ({old: 7}, 7),
        ({old: 7, new: default}, 7),
        ({old: default, new: 8}, 8),
        ({old: 7, new: 8}, 8),
    ):
        assert Thresholds.of(settings) == Thresholds(stuck_record_ms=expected)


def test_alert_rules_and_web_page_accept_the_old_name_of_a_verdict_for_one_release() -> None:
    """Brokers of the previous release export the old name. Time series that were stored before an
    upgrade also contain it."""
    for old, new in OLD_NAMES.items():
        rules = (CHECKOUT / "dashboards" / "prometheus" / "rules.yml").read_text()
        page = (CHECKOUT / "broker" / "web" / "page" / "verdicts.js").read_text()
        assert f'verdict=~"{new}|{old}"' in rules
        assert f'verdict === "{old}" ? "{new}"' in page
