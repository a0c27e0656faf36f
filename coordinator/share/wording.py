"""Texts about share groups for the journal and log lines."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.consumer.wording import partitions_named
from coordinator.topics_image import TopicsImage
from offsets.consumer_records import Assignment
from offsets.share_records import ShareMemberMetadata

_MEMBERS_SHOWN = 3


def who(member_id: str, metadata: ShareMemberMetadata) -> str:
    """Returns the name of a member for log lines and texts: its client id, member id and host."""
    name = member_id
    if not member_id.startswith(metadata.client_id):
        name = f"{metadata.client_id} ({member_id})"
    return f"{name} from {metadata.client_host.lstrip('/')}"


def gains(
    before: Mapping[str, Assignment], after: Mapping[str, Assignment], image: TopicsImage
) -> str:
    """Returns a text about the partitions that a new target adds to members; "" if it adds none. A
    member may get a partition that another member keeps."""
    parts = []
    gaining = 0
    for member_id, target in after.items():
        was = before.get(member_id, {})
        more = {
            topic_id: tuple(n for n in partitions if n not in was.get(topic_id, ()))
            for topic_id, partitions in target.items()
        }
        if any(more.values()):
            gaining += 1
            if gaining <= _MEMBERS_SHOWN:
                parts.append(f"{partitions_named(more, image)} to {member_id}")
    if gaining > _MEMBERS_SHOWN:
        parts.append(f"partitions to {gaining - _MEMBERS_SHOWN} more members")
    return "; ".join(parts)
