"""`muster topics`, `muster produce` and `muster consume`."""
