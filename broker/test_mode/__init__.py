"""The test mode of `muster serve --test`: tests control a broker's time, files and faults.

Where to change:

- a verb or a fault of `/test`: a row in `broker/test_mode/verbs/`, listed in `verbs/table.py`;
  its effect on a group is in `coordinator/on_command.py`. Then docs/test/testing-with-muster.md,
  `tests/broker/test_mode`.
"""
