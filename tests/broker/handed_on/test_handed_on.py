"""Tests state that the broker stores for later requests, such as a fetch session. Only the
principal that created the state may use it, and only in the same role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.apis.fetch.handler import Fetching
from broker.apis.fetch.sessions import FetchSessions
from broker.web.live.events import Channel
from broker.web.readers.users import ListenerUsers
from security.principal import user
from security.sasl.scram import ScramServer
from tests.broker.handed_on import fetching, groups, identities, producing, streams
from tests.broker.handed_on.scene import Scene, scene
from tests.broker.handed_on.table import CASES, Case, Kind, Misuse

pytestmark = pytest.mark.proves("security 26")

MODULES = (fetching, groups, identities, producing, streams)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Yields one broker for all cases of the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("broker.web.live.events.STANDS_S", 0.05)
        patch.setattr("broker.web.live.events.PING_S", 0.05)
        with scene(tmp_path_factory.mktemp("handed-on")) as made:
            yield made


@pytest.fixture
def there(shared: Scene) -> Iterator[Scene]:
    """Yields the scene that all tests share. Revokes all rights after the test."""
    yield shared
    shared.revoke_all()


@pytest.mark.parametrize("case", CASES, ids=[f"{each.kind}: {each.name}" for each in CASES])
def test_state_that_a_request_stored_cannot_be_misused_by_a_later_request(
    there: Scene, case: Case
) -> None:
    case.run(there)


def test_each_kind_of_stored_state_has_a_test_case_for_each_kind_of_misuse() -> None:
    cells = {(case.kind, case.misuse) for case in CASES}
    assert cells == {(kind, misuse) for kind in Kind for misuse in Misuse}


# -- planted faults, each of which was once a defect


def sessions_of_anybody(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: any principal that sends the id of a fetch session can resume the session."""
    real = FetchSessions.resume

    def resume(self: FetchSessions, session_id: int, owner: Any, *rest: Any) -> Any:
        session = self.get(session_id)
        return real(self, session_id, owner if session is None else session.owner, *rest)

    patch.setattr(FetchSessions, "resume", resume)


def sessions_of_the_denied(patch: pytest.MonkeyPatch) -> None:
    """Patches the broker with a fault that the tests must detect: a denied Fetch creates a fetch
    session."""
    never = property(lambda _: False, lambda _, value: None)
    patch.setattr(Fetching, "is_denied", never, raising=False)


def sessions_closed_by_anybody(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: any principal that sends the id of a fetch session can close the session."""

    def close(self: FetchSessions, session_id: int, owner: Any) -> None:
        self._sessions.pop(session_id, None)

    patch.setattr(FetchSessions, "close", close)


def rights_of_the_named(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: the authorizer checks the topics that a Fetch request names, but not the
    topics that are only in its fetch session."""
    judged(patch, lambda fetch: not fetch.is_incremental)


def rights_at_the_beginning(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: the authorizer checks the rights of a Fetch only before the request waits for
    records."""
    judged(patch, lambda fetch: fetch.waiter is None)


def judged(patch: pytest.MonkeyPatch, is_judged: Callable[[Fetching], bool]) -> None:
    real = Fetching._judge
    patch.setattr(Fetching, "_judge", lambda self: real(self) if is_judged(self) else None)


def credentials_of_the_first_message(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: a SCRAM exchange uses the credential that existed at its first message."""
    real = ScramServer._known
    found: dict[ScramServer, Any] = {}

    def known(self: ScramServer) -> Any:
        return found.setdefault(self, real(self))

    patch.setattr(ScramServer, "_known", known)


def streams_of_the_last_look(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: a new HTTP stream does not check which topics its principal may see. It uses
    the result of a check from before the stream began."""

    async def looked(self: Channel) -> None:
        await self.read.wait()

    patch.setattr(Channel, "looked", looked)
    patch.setattr("broker.web.live.events.SOONEST_S", 30.0)  # No refresh occurs in between.


def passwords_of_the_removed(patch: pytest.MonkeyPatch) -> None:
    """Plants a fault: the password of a removed user remains valid for some time."""

    def remembered(self: ListenerUsers, name: str, password: str) -> Any:
        return user(name) if self._digest(name, password) in self._good else None

    patch.setattr(ListenerUsers, "remembered", remembered)


FAULTS: list[tuple[list[Callable[[pytest.MonkeyPatch], None]], Callable[[Scene], None]]] = [
    (
        [sessions_of_anybody, sessions_of_the_denied, rights_of_the_named],
        fetching.a_denied_fetch_leaves_no_session,
    ),
    (
        [sessions_of_anybody, sessions_of_the_denied, rights_of_the_named],
        fetching.a_principal_without_rights_reads_nothing_by_a_session_of_another,
    ),
    ([sessions_of_the_denied], fetching.a_denied_fetch_leaves_no_session),
    ([sessions_of_anybody], fetching.a_session_is_resumed_and_closed_by_its_principal_alone),
    (
        [sessions_of_the_denied, sessions_of_anybody],
        fetching.a_consumers_session_is_not_resumed_as_a_broker,
    ),
    ([sessions_closed_by_anybody], fetching.a_session_is_resumed_and_closed_by_its_principal_alone),
    ([rights_of_the_named], fetching.a_session_does_not_outlive_the_right_to_read),
    ([rights_at_the_beginning], fetching.a_fetch_that_waits_does_not_outlive_the_right_to_read),
    (
        [credentials_of_the_first_message],
        identities.a_user_who_is_removed_does_not_complete_a_login,
    ),
    (
        [credentials_of_the_first_message],
        identities.a_token_that_has_ended_does_not_complete_a_login,
    ),
    ([streams_of_the_last_look], streams.a_topic_leaves_a_stream_with_the_right_to_see_it),
]


@pytest.mark.planted("state of a request used by others")
@pytest.mark.parametrize(
    ("plants", "run"),
    FAULTS,
    ids=[f"{faults[-1].__name__}-{run.__name__}" for faults, run in FAULTS],
)
def test_each_check_of_api_misuse_fails_when_its_fault_is_planted(
    there: Scene,
    monkeypatch: pytest.MonkeyPatch,
    plants: list[Callable[[pytest.MonkeyPatch], None]],
    run: Callable[[Scene], None],
) -> None:
    for plant in plants:
        plant(monkeypatch)
    with pytest.raises(AssertionError):
        run(there)


@pytest.mark.planted("state of a request used by others")
def test_check_of_http_streams_finds_a_fault_that_keeps_passwords_of_removed_users_valid(
    there: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords_of_the_removed(monkeypatch)
    monkeypatch.setattr(streams, "WITHIN_S", 1)
    with pytest.raises(AssertionError):
        streams.a_stream_ends_with_its_reader(there)
