"""Jobs: which tables there are, what each is made of, and how a run makes them."""
