"""Plans that correct offsets; a plan is data, and the command line applies it."""
