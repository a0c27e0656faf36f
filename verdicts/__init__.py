"""Pure code that determines the health of a group: from facts it computes one verdict, and
sentences that explain the verdict."""
