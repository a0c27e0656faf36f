"""Straight-line codecs for hot APIs; written by ``tools/make_codecs.py``."""
