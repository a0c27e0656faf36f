"""What is known of clients: who sends how much, and what each asks in vain."""
