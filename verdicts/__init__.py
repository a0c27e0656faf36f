"""Pure code that judges the health of a group. From facts about the group it computes one verdict,
and sentences that explain the verdict."""
