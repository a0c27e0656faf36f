"""The share coordinator: the core that reads, writes and prunes ``__share_group_state``."""
