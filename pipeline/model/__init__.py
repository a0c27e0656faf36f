"""What the pipeline reads and makes: the columns of the history and of every table."""
