"""The membership of a broker in its cluster: joining, staying registered, and leaving."""
