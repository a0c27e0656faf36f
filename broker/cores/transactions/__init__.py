"""Transactional ids as a kind of core: their topic, their records and their markers."""
