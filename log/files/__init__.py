"""The files of a log, through a file system that is passed in."""
