"""Tests that are coroutines run in a loop of their own, as those of the broker."""

from tests.broker.conftest import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]
