"""Transactional ids as a kind of core: their topic, their records, and the markers of their
transactions."""
