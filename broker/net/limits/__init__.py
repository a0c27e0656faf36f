"""How many connections there may be, how fast they come, and who has to wait."""
