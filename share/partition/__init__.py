"""The share partition: the state of the records that one share group receives from one
partition."""
