"""Jobs on Spark that turn the history in `__consumer_offsets` into tables, answers and repairs."""
