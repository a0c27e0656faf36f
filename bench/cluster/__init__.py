"""Compares a cluster of three Musters with a cluster of three Apache Kafkas 3.9.2."""
