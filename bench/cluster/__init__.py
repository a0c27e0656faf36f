"""Compares a cluster of three Musters with one of three Apache Kafkas 3.9.2."""
