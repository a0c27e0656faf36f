"""That a broker can't come into its cluster; apart, so that a broker alone need not import more."""


class CannotJoin(Exception):
    """The cluster can't be joined; the text is one sentence for the operator."""
