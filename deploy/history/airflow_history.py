"""A daily run of `muster pipeline all --incremental` as a DAG of Airflow 3.

Copy this file into the folder of DAGs. docs/use/pipeline-commands.md lists the exit codes. The
workers need `muster` with its extra `light`, and a folder OUT that all workers share.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

SOURCE = "muster:9092"
OUT = "/var/lib/muster-history"

with DAG(
    dag_id="muster_history",
    schedule="17 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # a second run fails while another run writes OUT
    tags=["kafka"],
) as dag:
    BashOperator(
        task_id="all",
        # A non-zero exit code fails the task. Retries help if no broker answered (exit code 3).
        bash_command=(
            "muster pipeline all --incremental --fail-on-damage"
            ' --source "$MUSTER_SOURCE" --out "$MUSTER_OUT"'
        ),
        env={"MUSTER_SOURCE": SOURCE, "MUSTER_OUT": OUT},
        append_env=True,
        retries=2,
        retry_delay=timedelta(minutes=10),
        execution_timeout=timedelta(hours=2),
    )
