"""A cluster of three Musters beside one of three Apache Kafkas 3.9.2, measured."""
