"""`slotted` creates a class of named values like `dataclass(slots=True)`, but in a tenth of the
time.

`dataclass` compiles three to six methods for each class at import. For more than a hundred classes
this takes a quarter of a broker's start. `slotted` compiles only `__init__`, in the same form, when
the first object is created. Its other methods need no compilation.

`dataclasses.replace`, `fields` and `asdict` accept these classes and objects too. A class with
``__post_init__``, with keyword-only values, or with inherited values must still be a `dataclass`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

Made = TypeVar("Made")


@overload
def slotted(cls: type[Made]) -> type[Made]: ...
@overload
def slotted(*, frozen: bool = False, eq: bool = True) -> Callable[[type[Made]], type[Made]]: ...
@dataclass_transform(field_specifiers=(field,))
def slotted(cls: type | None = None, *, frozen: bool = False, eq: bool = True) -> Any:
    """Returns the class with a slot for each annotated name, in the order of the annotations.

    With ``frozen`` the values of an object can't be changed, and equal objects have the same hash.
    Without ``eq`` an object equals only itself.
    """
    if cls is None:
        return lambda each: _made(each, frozen, eq)
    return _made(cls, frozen, eq)


def _made(cls: type[Made], frozen: bool, eq: bool) -> type[Made]:
    space = dict(cls.__dict__)
    names = tuple(space.get("__annotations__", ()))
    defaults = {name: space.pop(name) for name in names if name in space}
    for name, annotation in cls.__annotations__.items():
        default = defaults.get(name)
        if isinstance(default, Field) and (
            default.default_factory is MISSING or not default.compare
        ):
            raise TypeError(f"{cls.__name__}.{name}: field() supports only default_factory here")
        if "ClassVar" in str(annotation):
            raise TypeError(f"{cls.__name__}.{name}: a ClassVar is not a field of the objects")
    for own in ("__dict__", "__weakref__"):  # a class with slots has neither
        space.pop(own, None)
    space["__slots__"] = space["__match_args__"] = names
    space["__dataclass_fields__"] = _Fields(defaults)
    space.setdefault("__repr__", _repr)
    if eq:
        space["__eq__"], hash_of = _compared(names)
        space["__hash__"] = hash_of if frozen else None
    if frozen:
        space["__setattr__"] = space["__delattr__"] = _refuse
    kind: Any = type(cls)
    made = kind(cls.__name__, cls.__bases__, space)
    made.__qualname__ = cls.__qualname__

    def __init__(self: Any, *values: Any, **named: Any) -> None:
        made.__init__ = _init(made, defaults, frozen)
        made.__init__(self, *values, **named)

    made.__init__ = __init__
    checked: type[Made] = made
    return checked


def _init(cls: Any, defaults: dict[str, Any], frozen: bool) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    parameters, lines = ["self"], []
    for name in cls.__match_args__:
        parameter = value = name
        if name in defaults:
            default = defaults[name]
            if isinstance(default, Field):
                known[f"_new_{name}"] = default.default_factory
                value = f"_new_{name}() if {name} is _MISSING else {name}"
                default = MISSING
            known[f"_default_{name}"] = default
            parameter = f"{name}=_default_{name}"
        parameters.append(parameter)
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines)
    exec(text, known)
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    return made


def _compared(names: tuple[str, ...]) -> tuple[Callable[..., Any], Callable[[Any], int]]:
    """Returns `__eq__` and `__hash__` over all values."""
    values = attrgetter(*names)

    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __eq__, __hash__


class _Fields:
    """A descriptor that creates `__dataclass_fields__` when `dataclasses` first reads it."""

    def __init__(self, defaults: dict[str, Any]) -> None:
        self._defaults = defaults

    def __get__(self, _: object, cls: Any) -> Any:
        plain = type(cls.__name__, (), {"__annotations__": cls.__annotations__, **self._defaults})
        made: Any = dataclass(init=False, repr=False, eq=False)(plain)
        cls.__dataclass_fields__ = made.__dataclass_fields__
        return made.__dataclass_fields__


def _repr(self: Any) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({values})"


def _refuse(self: Any, name: str, *_: object) -> None:
    raise FrozenInstanceError(f"{name!r} of a {type(self).__qualname__} can't be set again")
