"""The group coordinator, pure: groups, members and the state machine."""
