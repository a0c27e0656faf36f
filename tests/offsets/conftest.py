"""Hypothesis without a deadline: a busy machine is no fault of ours."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")
