"""SQL queries of a report about the members of groups: generations, moves of partitions, and the
members that caused the most generations.

As in `queries`, each query returns rows only for the groups that have a section in the report.
"""

from __future__ import annotations

from typing import Final

from pipeline.engines.dialect import Dialect
from pipeline.report.queries import MOMENTS, ROWS
from pipeline.report.window import Window

GENERATIONS: Final = 24
"""For each group, the report lists at most this number of the latest generations. It also lists
each older generation that was current at one of the group's `MOMENTS`."""
MEMBERS: Final = 12
"""The maximum number of members that the report lists for one generation."""
TOPICS: Final = 6
PARTITIONS: Final = 64
"""The maximum number of partitions that the report lists for one topic of a member's assignment."""


def generations(d: Dialect, w: Window) -> str:
    """Returns a query of the generations that the report shows for each group: the latest
    generations, and the older generations that were current at one of the group's times in
    `MOMENTS`."""
    held = d.transform(
        d.head("m.assignment", TOPICS),
        "a",
        d.struct(
            topic="a.topic",
            partitions=d.head("a.partitions", PARTITIONS),
            size=d.size("a.partitions"),
        ),
    )
    members = d.transform(
        d.head("c.members", MEMBERS),
        "m",
        d.struct(
            member_id="m.member_id",
            group_instance_id="m.group_instance_id",
            client_id="m.client_id",
            client_host="m.client_host",
            held=held,
            topics=d.size("m.assignment"),
        ),
    )
    names = {
        who: d.transform(d.head(f"c.{who}", ROWS), "p", "p.client_id")
        for who in ("joined", "members_left")
    }
    return f"""
    WITH numbered AS (
        SELECT g.place, c.group_id, c.life, c.log_offset, unix_millis(c.began_at) AS began_ms,
            unix_millis(c.ended_at) AS ended_ms, row_number() OVER (
                PARTITION BY g.place ORDER BY c.life DESC, c.log_offset DESC) AS nth
        FROM generations c {w.of("c")}
    ),
    wanted AS (
        SELECT place, group_id, life, log_offset, began_ms, ended_ms, nth FROM numbered
        WHERE nth = 1
            OR (nth <= {GENERATIONS} AND coalesce(ended_ms, {w.until_ms}) >= {w.from_ms})
        UNION
        SELECT n.place, n.group_id, n.life, n.log_offset, n.began_ms, n.ended_ms, n.nth
        FROM numbered n JOIN {MOMENTS} m ON m.place = n.place AND m.ms >= n.began_ms
            AND (n.ended_ms IS NULL OR m.ms < n.ended_ms)
    )
    SELECT w.place, w.nth, w.life, c.generation, w.began_ms, w.ended_ms, c.duration_s, c.change,
        c.group_type, c.protocol, coalesce(c.known, true) AS known, c.member_count,
        {names["joined"]} AS joined, {d.size("c.joined")} AS joined_count,
        {names["members_left"]} AS gone, {d.size("c.members_left")} AS gone_count,
        {d.size("c.moved")} AS moved_count, {members} AS members
    FROM wanted w JOIN generations c
        ON c.group_id = w.group_id AND c.life = w.life AND c.log_offset = w.log_offset
    ORDER BY w.place, w.nth
    """


def earlier(w: Window) -> str:
    """Returns the query that counts the older generations of each group, and computes their time
    span. The older generations are all except the latest `GENERATIONS`."""
    return f"""
    SELECT place, count(*) AS generations, min(began_ms) AS began_ms, max(ended_ms) AS ended_ms
    FROM (
        SELECT g.place, unix_millis(c.began_at) AS began_ms, unix_millis(c.ended_at) AS ended_ms,
            row_number() OVER (PARTITION BY g.place ORDER BY c.life DESC, c.log_offset DESC) AS nth
        FROM generations c {w.of("c")}
    ) AS ordered
    WHERE nth > {GENERATIONS} AND coalesce(ended_ms, {w.until_ms}) >= {w.from_ms}
    GROUP BY place
    """


def restless(w: Window) -> str:
    """Returns the query of the members that caused the most generations in each group."""
    return f"""
    SELECT * FROM (
        SELECT g.place, c.client_id, c.group_instance_id, c.client_host, c.rebalances, c.joins,
            c.leaves, count(*) OVER (PARTITION BY g.place) AS of, row_number() OVER (
                PARTITION BY g.place
                ORDER BY c.rebalances DESC, c.client_id, c.client_host, c.group_instance_id) AS nth
        FROM restless_members c {w.of("c")} WHERE g.rebalances > 0
    ) AS ordered WHERE nth <= {ROWS} ORDER BY place, nth
    """


def moves(w: Window) -> str:
    """Returns the query of the latest moves of partitions between members, for each group."""
    owners = ", ".join(
        f"coalesce(c.{who}_client_id || ' at ' || c.{who}_client_host, c.{who}_member) AS {who}_who"
        for who in ("from", "to")
    )
    return f"""
    SELECT * FROM (
        SELECT g.place, unix_millis(c.acquired_at) AS ms, c.topic, c.partition, {owners},
            c.revoking_s, c.unowned_s, count(*) OVER (PARTITION BY g.place) AS of,
            row_number() OVER (
                PARTITION BY g.place
                ORDER BY c.acquired_at DESC, c.log_offset DESC, c.topic, c.partition) AS nth
        FROM moves c {w.of("c")}
    ) AS ordered WHERE nth <= {ROWS} ORDER BY place, nth
    """
