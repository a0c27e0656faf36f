"""The share coordinator as a kind of core: reads, writes and prunes ``__share_group_state``."""
