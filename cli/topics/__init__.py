"""`muster topics`, `muster produce` and `muster consume`: commands for topics and their records."""
