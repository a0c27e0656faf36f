"""Totals, the lag and verdicts of groups, and the text of `/metrics`.

Where to change:

- which transactions block readers: `broker/metrics/lso_blockers.py`. Then
  `tests/broker/web/test_transactions_api.py`.
- a number of a cluster: counted in `broker/topics/replicas/replication_totals.py` and
  `broker/cluster/controller/controller_totals.py`; read in `broker/metrics/cluster_look.py`,
  written in `cluster_series.py` and `kafka_cluster_names.py`. Then docs/operate/metrics.md.
- a dashboard or an alert: `tools/make_dashboards.py`; `dashboards/prometheus/` with a runbook in
  `broker/web/runbooks/`. Then `make dashboards`, `tests/dashboards`.
"""
