"""Pure: what is wrong with a group, if anything. Facts in, one verdict and its sentences out."""
