"""The work for a large group must not grow with the square of its members or topics."""

from __future__ import annotations

import pytest

from coordinator import topics_image
from coordinator.consumer import group_view
from coordinator.topics_image import Topic, TopicsImage
from tests.coordinator.consumer.groups import GROUP, Groups


def test_view_of_one_member_does_not_create_the_views_of_other_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = Groups()
    for name in "abc":
        groups.join(name)
    made = []

    class Counted(group_view.ConsumerMemberView):
        def __init__(self, *parts: object) -> None:
            made.append(parts)
            super().__init__(*parts)  # type: ignore[arg-type]

    monkeypatch.setattr(group_view, "ConsumerMemberView", Counted)
    members = groups.shard.view.groups[GROUP].members
    assert len(members) == 3
    assert "z" not in members
    assert members["b"].member_id == "b"
    assert len(made) == 1


def test_hash_of_a_topic_is_computed_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    real = topics_image._hash

    def counted(topic: Topic) -> int:
        hashed.append(topic.name)
        return real(topic)

    monkeypatch.setattr(topics_image, "_hash", counted)
    image = TopicsImage([Topic(b"t" * 16, "t", 1), Topic(b"u" * 16, "u", 1)])
    before = image.metadata_hash(["t", "u"])
    assert image.metadata_hash(["t", "u"]) == before
    assert hashed == ["t", "u"]
    image.put(Topic(b"t" * 16, "t", 2))
    grown = image.metadata_hash(["t", "u"])
    assert grown != before
    assert hashed == ["t", "u", "t"]
    fresh = TopicsImage(image.by_name.values())
    assert fresh.metadata_hash(["t", "u"]) == grown
