"""Plans that put offsets right; a plan is data, applied by the command line."""
