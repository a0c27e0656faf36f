"""The kind of core for groups: its records, its duties and its log lines."""
