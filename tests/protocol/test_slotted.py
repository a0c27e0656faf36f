"""Tests of the decorator `slotted`. It creates the same classes as `dataclass(slots=True)`, but
compiles the methods of a class only when its first object is created."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

import pytest

from protocol.slotted import slotted


class Order:
    """A sample class with defaults."""

    name: str
    count: int = 1
    lines: list[str] = field(default_factory=list)

    @property
    def is_large(self) -> bool:
        return self.count > 9


class Pair:
    """A sample class with two fields."""

    left: int
    right: int


def both(cls: type, **manner: bool) -> tuple[Any, Any]:
    """Returns the class decorated with `slotted`, and the class decorated with
    `dataclass(slots=True)`. ``manner`` are the options of both decorators."""
    ours = slotted(**manner)(type(cls.__name__, (), dict(cls.__dict__)))
    theirs = dataclass(slots=True, **manner)(type(cls.__name__, (), dict(cls.__dict__)))  # type: ignore[call-overload]
    return ours, theirs


@pytest.mark.parametrize("frozen", [False, True])
def test_slotted_object_behaves_like_a_dataclass_object(frozen: bool) -> None:
    ours, theirs = both(Order, frozen=frozen)
    for made in (ours, theirs):
        one, same, other = made("a"), made(name="a", count=1, lines=[]), made("a", 10, ["x"])
        assert one == same
        assert one != other
        assert one != "a"
        assert other.is_large
        assert not one.is_large
        assert repr(other) == "Order(name='a', count=10, lines=['x'])"
        assert one.lines is not same.lines
        assert not hasattr(one, "__dict__")
        assert made.__doc__ == "A sample class with defaults."
        assert (made.__name__, made.__module__) == ("Order", __name__)
        match other:
            case made(name, count):
                assert (name, count) == ("a", 10)
        assert list(inspect.signature(made).parameters) == ["name", "count", "lines"]
        with pytest.raises(TypeError, match=r"Order.__init__\(\) missing 1 required .* 'name'"):
            made()
        with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
            made("a", size=1)
        with pytest.raises((AttributeError, TypeError)):  # TypeError: a frozen dataclass's
            one.size = 1
    assert ours("a") != theirs("a")


def test_frozen_slotted_object_is_immutable_and_hashable() -> None:
    for made in both(Pair, frozen=True):
        assert len({made(1, 2), made(1, 2), made(2, 1)}) == 2
        pair = made(1, 2)
        with pytest.raises(FrozenInstanceError, match="left"):
            pair.left = 3
        with pytest.raises(FrozenInstanceError, match="left"):
            del pair.left
        assert pair == made(1, 2)


def test_mutable_slotted_object_is_not_hashable() -> None:
    for made in both(Pair):
        with pytest.raises(TypeError, match="unhashable"):
            hash(made(1, 2))
        pair = made(1, 2)
        pair.left = 3
        assert pair == made(3, 2)


def test_slotted_object_without_eq_equals_only_itself() -> None:
    for made in both(Pair, eq=False):
        pair = made(1, 2)
        assert pair == pair  # noqa: PLR0124 - that is asked
        assert pair != made(1, 2)
        assert len({pair, made(1, 2)}) == 2


@pytest.mark.parametrize("frozen", [False, True])
def test_slotted_object_supports_replace_and_asdict(frozen: bool) -> None:
    for made in both(Order, frozen=frozen):
        one = made("a", 2, ["x"])
        assert replace(one, count=3) == made("a", 3, ["x"])
        assert asdict(one) == {"name": "a", "count": 2, "lines": ["x"]}
        assert [(each.name, each.type) for each in fields(made)] == [
            ("name", "str"),
            ("count", "int"),
            ("lines", "list[str]"),
        ]


def test_slotted_class_is_compiled_once_when_its_first_object_is_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    run: Callable[..., None] = builtins.exec

    def noted(text: str, *more: Any) -> None:
        compiled.append(text)
        run(text, *more)

    monkeypatch.setattr(builtins, "exec", noted)

    @slotted
    class Point:
        x: int
        y: int = 0

    assert compiled == []
    assert (Point(1), Point(1, 0)) == (Point(1, 0), Point(1))
    assert len(compiled) == 1


@pytest.mark.parametrize("more", [{"default": 1}, {"default_factory": int, "compare": False}])
def test_unknown_field_option_of_a_slotted_class_raises_type_error(more: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"Point\.x: field"):

        @slotted
        class Point:
            x: int = field(**more)


def test_class_variable_of_a_slotted_class_raises_type_error() -> None:
    with pytest.raises(TypeError, match=r"Point\.x: a ClassVar is not a field of the objects"):

        @slotted
        class Point:
            x: ClassVar[int] = 1


def test_subclass_of_a_slotted_class_creates_subclass_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @slotted
    class Point:
        x: int

    class Named(Point):
        name = "n"

    assert repr(Named(1)).endswith("Named(x=1)")
    assert Named(2).x == 2
    assert Point(3).x == 3
