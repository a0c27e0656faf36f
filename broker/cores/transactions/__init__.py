"""Transactional ids as a kind of core: their topic, their records, their markers."""
