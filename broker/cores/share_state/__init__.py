"""The share coordinator as a hosted core: reads, writes and prunes ``__share_group_state``."""
