"""A test that needs a missing program is skipped on a developer's machine and fails in CI."""

from __future__ import annotations

import pytest

from tests.absent import program


@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_missing_program_skips_the_test_locally_and_fails_it_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="apt-get install -y some-package"):
        program("no-such-program", "some-package")


def test_program_that_exists_on_the_machine_is_found() -> None:
    assert program("sh", "dash").endswith("/sh")
