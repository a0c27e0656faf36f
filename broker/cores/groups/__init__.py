"""The core of groups, hosted: what is of groups alone."""
