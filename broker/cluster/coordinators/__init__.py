"""Coordinators that move with their partitions, and their work at other brokers."""
