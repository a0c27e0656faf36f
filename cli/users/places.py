"""The storages of SCRAM users: any Kafka broker, or a data directory of Muster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cli.client.cluster import Cluster
from cli.data_directory import changeable, readable
from cli.errors import check, refused
from protocol.errors import NOT_CONTROLLER, RESOURCE_NOT_FOUND
from security.credentials import BY_CODE, ScramMechanism, credential

Users = Mapping[str, Mapping[ScramMechanism, int]]
"""The number of iterations of each mechanism, by user name."""


class Salted(NamedTuple):
    """A salted password, as it is sent to a broker. It is as confidential as the password
    itself."""

    mechanism: ScramMechanism
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"Salted({self.mechanism.mechanism})"


class Place(Protocol):
    """A storage of SCRAM users."""

    def users(self, name: str | None = None) -> Users:
        """Returns all users, or only the user ``name`` if it exists."""

    def put(self, name: str, passwords: Sequence[Salted]) -> None: ...

    def remove(self, name: str, mechanisms: Sequence[ScramMechanism]) -> None: ...


class AtBroker:
    """The users of a running broker."""

    def __init__(self, bootstrap: str, timeout_s: float) -> None:
        self._cluster = Cluster(bootstrap, timeout_s=timeout_s)

    def users(self, name: str | None = None) -> Users:
        asked = None if name is None else [{"name": name}]
        answer = self._cluster.any.call("DescribeUserScramCredentials", {"users": asked})
        check("users", answer)
        found = {}
        for each in answer["results"]:
            if each["error_code"] == RESOURCE_NOT_FOUND:
                continue
            _check(each["user"], each)
            found[each["user"]] = {
                BY_CODE[info["mechanism"]]: info["iterations"]
                for info in each["credential_infos"]
                if info["mechanism"] in BY_CODE
            }
        return found

    def put(self, name: str, passwords: Sequence[Salted]) -> None:
        """Implements Place.put. Sends one request for each mechanism, as brokers require."""
        for each in passwords:
            upsertion = {
                "name": name,
                "mechanism": each.mechanism.code,
                "iterations": each.iterations,
                "salt": each.salt,
                "salted_password": each.salted_password,
            }
            self._alter({"deletions": [], "upsertions": [upsertion]})

    def remove(self, name: str, mechanisms: Sequence[ScramMechanism]) -> None:
        for each in mechanisms:
            deletion = {"name": name, "mechanism": each.code}
            self._alter({"deletions": [deletion], "upsertions": []})

    def _alter(self, value: dict[str, Any]) -> None:
        connection = self._cluster.any
        answer = connection.call("AlterUserScramCredentials", value)
        if any(each["error_code"] == NOT_CONTROLLER for each in answer["results"]):
            controller = self._cluster.metadata([])["controller_id"]
            answer = self._cluster.broker(controller).call("AlterUserScramCredentials", value)
        for each in answer["results"]:
            _check(each["user"], each)


class InDirectory:
    """The users in the data directory of a stopped broker."""

    def __init__(self, directory: Path, *, may_be_new: bool = False) -> None:
        """If ``may_be_new`` is True, the directory does not need to exist yet."""
        self._directory = str(directory.absolute())
        self._may_be_new = may_be_new

    def users(self, name: str | None = None) -> Users:
        """Implements Place.users. Works also while a broker uses the directory."""
        with readable(self._directory, may_be_new=self._may_be_new) as fs:
            known = _file(fs, self._directory).users()
        names = known.names() if name is None else [name]
        return {
            each: {mechanism: of.iterations for mechanism, of in found.items()}
            for each in names
            if (found := known.of(each))
        }

    def put(self, name: str, passwords: Sequence[Salted]) -> None:
        self._change(
            name,
            lambda known: {
                **known,
                **{
                    each.mechanism: credential(
                        each.mechanism, each.salted_password, each.salt, each.iterations
                    )
                    for each in passwords
                },
            },
        )

    def remove(self, name: str, mechanisms: Sequence[ScramMechanism]) -> None:
        self._change(
            name,
            lambda known: {each: of for each, of in known.items() if each not in mechanisms},
        )

    def _change(self, name: str, changed: Any) -> None:
        with changeable(self._directory) as fs:
            file = _file(fs, self._directory)
            file.put({name: changed(file.users().of(name))})


def _file(fs: Any, directory: str) -> Any:
    from broker.authentication.user_file import UserFile
    from broker.time import Time

    return UserFile(fs, directory, Time())


def _check(user: str, result: dict[str, Any]) -> None:
    if result["error_code"]:
        raise refused(f"the user {user}", result["error_code"], result["error_message"])
