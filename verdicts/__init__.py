"""Pure code for the health of a group: facts in, one verdict and its sentences out."""
