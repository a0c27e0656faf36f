"""The files of a log, and the interface of the file system through which they are read and
written."""
