"""Plans that correct offsets. A plan is data; the command line applies it."""
