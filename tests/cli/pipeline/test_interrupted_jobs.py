"""A job that Ctrl-C interrupts reports the interrupt, even if another exception replaced the
KeyboardInterrupt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cli.errors import INTERRUPTED, CommandError, Interrupts
from cli.pipeline.extra import sentences


@pytest.fixture(autouse=True)
def _no_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interrupts, "received", False)


def _replaced() -> None:
    """Raises the ImportError that a compiled module raises when Ctrl-C arrives during its
    import."""
    try:
        Interrupts.raise_one()
    except KeyboardInterrupt as error:
        raise ImportError("Encountered an error while initializing the extension.") from error


def _dropped() -> None:
    """Catches the KeyboardInterrupt and continues, as a callback from Java does."""
    try:
        Interrupts.raise_one()
    except KeyboardInterrupt:
        return


@pytest.mark.parametrize("job", [Interrupts.raise_one, _replaced, _dropped])
def test_interrupted_job_reports_the_interrupt(job: Callable[[], None]) -> None:
    with pytest.raises(CommandError) as caught, sentences(interrupted="the archive is intact"):
        job()
    assert str(caught.value) == "interrupted, the archive is intact"
    assert caught.value.exit_code == INTERRUPTED


def test_python_import_error_without_an_interrupt_is_raised_unchanged() -> None:
    with pytest.raises(ImportError), sentences():
        raise ImportError("no module")
