"""Kafka's properties: their table, their values, where they come from, how they change."""
