"""A cluster for tests: several brokers in one process, one registry, one clock."""
