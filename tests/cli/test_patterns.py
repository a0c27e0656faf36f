"""Commands select names by patterns, and suggest a name if a name does not exist."""

from __future__ import annotations

import pytest

from cli.patterns import chosen, is_pattern, nearest, spelled

KNOWN = ["orders", "test-a", "test-b", "tests", "[odd]", "__hidden"]


@pytest.mark.parametrize(
    ("wanted", "names", "missing"),
    [
        (["orders"], ["orders"], []),
        (["test-*"], ["test-a", "test-b"], []),
        (["test?"], ["tests"], []),
        (["test-[b-z]"], ["test-b"], []),
        (["test-b", "test-*"], ["test-b", "test-a"], []),
        (["Orders", "t*"], ["test-a", "test-b", "tests"], ["Orders"]),
        (["none-*"], [], ["none-*"]),
        (["[odd]"], ["[odd]"], []),
        (["*"], ["[odd]", "orders", "test-a", "test-b", "tests"], []),
        (["__hidden"], ["__hidden"], []),
    ],
)
def test_function_chosen_returns_matching_names_and_unmatched_patterns(
    wanted: list[str], names: list[str], missing: list[str]
) -> None:
    assert chosen(wanted, KNOWN, hidden=["__hidden"]) == (names, missing)


def test_function_is_pattern_is_true_only_for_text_with_wildcards() -> None:
    assert [is_pattern(text) for text in ("a.b-c_d", "a*", "a?", "[ab]")] == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("missing", "meant"),
    [(["bilin"], "billing"), (["b*", "oders"], "orders"), (["x"], None), (["b*"], None)],
)
def test_function_nearest_returns_the_most_similar_name(
    missing: list[str], meant: str | None
) -> None:
    assert nearest(missing, ["billing", "orders", "archive"]) == meant


def test_sentence_about_selected_names_lists_exact_names_before_patterns() -> None:
    assert spelled(["a", "x*", "b"], "group") == "group a, b and groups like x*"
    assert spelled(["x*", "y?"], "topic") == "topics like x*, y?"
