"""Who a row belongs to: labels of any plain type as texts, decided by type and never by content.

Two rows belong to one person if their labels are equal. The text of a label depends on its own
value and its type alone, never on labels of other rows: otherwise one person's label could change
who the others are. The type is that of the array, the schema or the data frame. Where there is
none (Python objects), all values must be of one type.

- Texts and bytes are read byte by byte, as Latin-1 of their UTF-8, so none are confused.
- Whole numbers are written in decimal.
- Floating-point numbers are written so that distinct ones differ; 0.0 and -0.0 are one person.
- Dates and times are the whole number that stores them.

Errors name columns and types. They come before any budget is spent.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from privgmm.errors import InvalidInput

__all__ = [
    "Labels",
    "TypedLabels",
    "arrow_array",
    "check_indices",
    "check_one_kind",
    "is_text_type",
    "label_kind",
    "label_texts",
    "typed_labels",
]

Labels: TypeAlias = npt.NDArray[Any]
"""Texts (n,) that say who each row belongs to."""

_TEXT, _WHOLE = "text", "whole numbers"


class TypedLabels(NamedTuple):
    """Texts of labels, and the kind of value they came from.

    Parameters
    ----------
    texts : array of str (n,)
    kind : str
        See `label_kind`.
    """

    texts: Labels
    kind: str


def label_texts(values: Any, name: str = "groups") -> Labels:
    """Convert labels to texts (n,), equal for equal values; none may be missing.

    Parameters
    ----------
    values : Arrow array, or anything that becomes one
        Of one plain type.
    name : str
        What errors call it.

    Examples
    --------
    >>> label_texts([7, 11, 7]).tolist(), label_texts(np.array([0.0, -0.0])).tolist()
    (['7', '11', '7'], ['0', '0'])
    """
    return typed_labels(values, name).texts


def typed_labels(values: Any, name: str = "groups") -> TypedLabels:
    """Convert labels to texts and say what kind they are of; see `label_texts`."""
    try:
        array = arrow_array(values, name)
        pieces = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        check_indices(array)
        missing = sum(_count_missing(piece) for piece in pieces)
        if missing:
            raise InvalidInput(
                f"column {name!r} has {missing:,} missing values: say who these rows belong to, "
                "and make each row without a person a person of its own"
            )
        kind = label_kind(array.type, name)
        texts = [_texts(piece) for piece in pieces]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
        if isinstance(problem, InvalidInput):
            raise
        raise _not_plain(name, str(problem).strip().partition("\n")[0][:200]) from problem
    return TypedLabels(np.concatenate([np.empty(0, dtype=object), *texts]), kind)


def label_kind(kind: Any, name: str = "groups") -> str:
    """Name the kind of an Arrow type: labels of one kind are equal where their texts are.

    Sizes and encodings make no difference (int32 and int64, text and bytes, a dictionary and its
    values); everything that changes how a value is written does (float and double, milliseconds
    and microseconds, time zones).
    """
    kind = _stored(kind)
    if is_text_type(kind):
        return _TEXT
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return _WHOLE
    if pa.types.is_decimal(kind):
        return f"decimals with {kind.scale} places"
    if (
        pa.types.is_boolean(kind)
        or pa.types.is_floating(kind)
        or _storage_of_time(kind) is not None
        or pa.types.is_fixed_size_binary(kind)
    ):
        return str(kind)
    raise _not_plain(name, f"it holds {kind}")


def check_one_kind(found: Iterable[tuple[str, str]], name: str) -> None:
    """Refuse labels of several kinds: the same person could be two.

    Parameters
    ----------
    found : iterable of (kind, place)
        The kind of label in each place of the table, and what errors call the place.
    name : str
        The column.
    """
    places: dict[str, str] = {}
    for kind, place in found:
        places.setdefault(kind, place)
    if len(places) > 1:
        (mine, here), (other, there) = list(places.items())[:2]
        raise InvalidInput(
            "must name a column of one type, but {column} holds {mine} in {here} and {other} in "
            "{there}",
            argument="groups",
            remedy="a person could be two; write the column with one type throughout",
            facts={
                "column": repr(name),
                "mine": mine,
                "here": here,
                "other": other,
                "there": there,
            },
        )


# Types


def _stored(kind: Any) -> Any:
    """Return the type of the values behind dictionaries and extensions."""
    while True:
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        elif isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        else:
            return kind


def is_text_type(kind: Any) -> bool:
    """Return whether an Arrow type holds texts or bytes of any length."""
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
    )


def _storage_of_time(kind: Any) -> Any:
    """Return the whole numbers that store dates and times; None for other types."""
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if (
        pa.types.is_date64(kind)
        or pa.types.is_time64(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
    ):
        return pa.int64()
    return None


# Texts


def check_indices(array: Any) -> None:
    """Raise `pyarrow.ArrowInvalid` where a damaged dictionary lacks values that rows point to."""
    for piece in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        if isinstance(piece, pa.DictionaryArray):
            ends = pc.min_max(piece.indices).as_py()
            if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < len(
                piece.dictionary
            ):
                raise pa.ArrowInvalid("rows point outside of the dictionary of the column")


def _count_missing(piece: Any) -> int:
    """Count missing values and those that are not a number, also behind a dictionary."""
    if isinstance(piece, pa.ExtensionArray):
        return _count_missing(piece.storage)
    if isinstance(piece, pa.DictionaryArray):
        gaps = pc.is_null(piece.dictionary, nan_is_null=True)
        found = pc.is_null(piece.indices)
        if len(gaps):
            found = pc.or_(found, pc.fill_null(pc.take(gaps, piece.indices), True))
        return int(pc.sum(found).as_py() or 0)
    return int(pc.sum(pc.is_null(piece, nan_is_null=True)).as_py() or 0)


def _texts(piece: Any) -> Labels:
    """Write the values of an array without gaps as texts (n,)."""
    if isinstance(piece, pa.ExtensionArray):
        return _texts(piece.storage)
    if isinstance(piece, pa.DictionaryArray):
        # a text per distinct value, however many rows hold it
        known = piece.dictionary
        there = pc.is_valid(known)
        texts = np.full(len(known), "", dtype=object)
        texts[np.asarray(there, dtype=bool)] = _texts(known.filter(there))
        return np.asarray(texts[np.asarray(piece.indices, dtype=np.int64)], dtype=object)
    kind = piece.type
    if is_text_type(kind) or pa.types.is_fixed_size_binary(kind):
        held = piece
        if not (pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)):
            held = piece.cast(pa.large_binary())
        return _objects([one.decode("latin-1") for one in held.to_pylist()])
    storage = _storage_of_time(kind)
    if storage is not None:
        piece = piece.view(storage)
    elif pa.types.is_floating(kind):
        # -0.0 + 0.0 is 0.0
        piece = pc.add(piece.cast(pa.float64()), 0.0)
    return np.asarray(piece.cast(pa.string()).to_numpy(zero_copy_only=False), dtype=object)


def _objects(texts: list[str]) -> Labels:
    found = np.empty(len(texts), dtype=object)
    found[:] = texts
    return found


# Tables in memory


def arrow_array(values: Any, name: str) -> Any:
    """Convert labels to Arrow by their type; values without one must agree in theirs."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "to_arrow"):
        return values.to_arrow()
    kind = getattr(values, "dtype", None)
    if isinstance(kind, np.dtype):
        array = np.asarray(values)
    elif kind is not None and not hasattr(kind, "categories"):
        return pa.array(values, from_pandas=True)
    elif kind is not None:
        array = np.asarray(values)
    else:
        # NumPy would give all of a list one type, decided by what single values are
        array = np.array(values, dtype=object)
    if array.dtype != object:
        return pa.array(array, from_pandas=True)
    return _from_objects(array, name)


def _from_objects(array: npt.NDArray[Any], name: str) -> Any:
    """Convert Python objects (n,) of one type to Arrow."""
    import pandas as pd

    missing = np.asarray(pd.isna(array), dtype=bool)
    if missing.any():
        # only counted: no label is made of them
        return pa.array([None if gap else "" for gap in missing.tolist()], type=pa.string())
    held = array.tolist()
    kinds = {_kind_of(one, name) for one in set(map(type, held))}
    if not kinds:
        return pa.array([], type=pa.string())
    if len(kinds) > 1:
        raise _not_plain(name, f"it holds {' and '.join(sorted(kinds))}")
    return _OBJECTS[kinds.pop()].arrow(held)


class _Objects(NamedTuple):
    types: tuple[type, ...]
    arrow: Callable[[list[Any]], Any]


def _bytes_of(texts: list[Any]) -> Any:
    # also a lone surrogate, which UTF-8 proper has no bytes for
    return pa.array([str(one).encode("utf-8", "surrogatepass") for one in texts], pa.large_binary())


def _moments(held: list[Any]) -> Any:
    aware = [one.tzinfo is not None for one in held]
    if any(aware) and not all(aware):
        raise ValueError("some of its times have a time zone and some have none")
    if aware[0]:
        held = [one.astimezone(datetime.UTC) for one in held]
    return _bytes_of([one.isoformat() for one in held])


_OBJECTS: Mapping[str, _Objects] = {
    "truth values": _Objects(
        (bool, np.bool_), lambda held: pa.array([bool(one) for one in held], pa.bool_())
    ),
    "whole numbers": _Objects(
        (int, np.integer),
        lambda held: pa.array([decimal.Decimal(int(one)) for one in held], pa.decimal256(76, 0)),
    ),
    "floating-point numbers": _Objects(
        (float, np.floating), lambda held: pa.array([float(one) for one in held], pa.float64())
    ),
    "decimals": _Objects(
        (decimal.Decimal,), lambda held: pa.array(held, type=pa.decimal256(76, 38))
    ),
    "text": _Objects((str,), _bytes_of),
    "bytes": _Objects(
        (bytes,), lambda held: pa.array([bytes(one) for one in held], pa.large_binary())
    ),
    "times": _Objects((datetime.datetime,), _moments),
    "dates": _Objects((datetime.date,), lambda held: _bytes_of([one.isoformat() for one in held])),
    "UUIDs": _Objects((uuid.UUID,), _bytes_of),
}
"""Types of Python objects, subtypes first, and how an array of each becomes Arrow."""


def _kind_of(kind: type, name: str) -> str:
    for words, objects in _OBJECTS.items():
        if issubclass(kind, objects.types):
            return words
    raise _not_plain(name, f"it holds objects of type {kind.__name__!r}")


def _not_plain(name: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"column {name!r} must hold plain values of one kind, one per row: {reason}; choose "
        "another column"
    )
