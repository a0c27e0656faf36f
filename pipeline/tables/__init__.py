"""Transforms of the history into tables: pure functions of DataFrames."""
