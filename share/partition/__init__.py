"""The share partition: the records of one log partition that one share group delivers."""
