"""Texts about consumer groups for the journal, log lines and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coordinator.topics_image import TopicsImage
from coordinator.wording import some_of
from offsets.consumer_records import AssignedEpochs, Assignment, MemberMetadata

_PAIRS_SHOWN = 3


def who(member_id: str, metadata: MemberMetadata) -> str:
    """Returns a text that names a member: its instance id, or its client id and member id, followed
    by its host."""
    name = metadata.instance_id or member_id
    if name is member_id and not member_id.startswith(metadata.client_id):
        name = f"{metadata.client_id} ({member_id})"
    return f"{name} from {metadata.client_host.lstrip('/')}"


def partitions_named(partitions: Assignment | AssignedEpochs, image: TopicsImage) -> str:
    """Returns the names of the first partitions, such as "orders-4, orders-5", and how many more
    there are."""
    names = image.names
    return some_of(
        [
            f"{names.get(topic_id, 'a deleted topic')}-{partition}"
            for topic_id, numbers in partitions.items()
            for partition in sorted(numbers)
        ],
        ", ",
    )


def moves(
    before: Mapping[str, Assignment], after: Mapping[str, Assignment], image: TopicsImage
) -> str:
    """Returns a text about the partitions that a new target moves, with their old and new owners;
    "" if no owner changes."""
    was = dict(_owners(before))
    moved: dict[tuple[str, str], dict[bytes, tuple[int, ...]]] = {}
    for key, owner in _owners(after):
        earlier = was.get(key, "")
        if earlier != owner:
            topic_id, partition = key
            of_pair = moved.setdefault((earlier, owner), {})
            of_pair[topic_id] = (*of_pair.get(topic_id, ()), partition)
    parts = []
    for (earlier, owner), partitions in list(moved.items())[:_PAIRS_SHOWN]:
        source = f" from {earlier}" if earlier else ""
        parts.append(f"{partitions_named(partitions, image)}{source} to {owner}")
    if len(moved) > _PAIRS_SHOWN:
        parts.append(f"{len(moved) - _PAIRS_SHOWN} more moves")
    return "; ".join(parts)


def _owners(targets: Mapping[str, Assignment]) -> Iterable[tuple[tuple[bytes, int], str]]:
    for member_id, assignment in targets.items():
        for topic_id, partitions in assignment.items():
            for partition in partitions:
                yield (topic_id, partition), member_id
