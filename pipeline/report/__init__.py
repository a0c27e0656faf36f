"""The HTML report: plots of the tables in one file that opens without a network."""
