"""Filters for tests: any of them, entries to ask about, and an obvious implementation."""

import itertools
import math
import re
from typing import Any

from hypothesis import strategies as st

NAMES = ["a", "b", "price"]
VALUES = ["", "x", "xy", "yx", "1", "2.5", "-3", "1e3", "1e999", "+7", ".5", "0x1", " 1", "nan"]

names = st.sampled_from(NAMES)
parts = st.sampled_from(VALUES).map(str.encode) | st.just(b"\xff")
fields = st.lists(st.tuples(names.map(str.encode), parts), min_size=1, max_size=4).map(
    lambda pairs: tuple(itertools.chain.from_iterable(pairs))
)

members = st.dictionaries(names, st.sampled_from(VALUES), min_size=1, max_size=2)
numbers = st.sampled_from([-3, 0, 1, 2.5, 1000, 2**70])
lower = st.dictionaries(st.sampled_from(["gt", "ge"]), numbers, max_size=1)
upper = st.dictionaries(st.sampled_from(["lt", "le"]), numbers, max_size=1)
bounds = st.builds(lambda low, high: low | high, lower, upper)
leaves: st.SearchStrategy[Any] = st.one_of(
    st.builds(lambda kind, of: {kind: of}, st.sampled_from(["exact", "prefix", "suffix"]), members),
    st.builds(lambda of: {"present": of}, names | st.lists(names, min_size=1, max_size=2)),
    st.builds(lambda of: {"range": of}, st.dictionaries(names, bounds, min_size=1, max_size=2)),
)
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.builds(lambda of: {"all": of}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda of: {"any": of}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda of: {"not": of}, inner),
    ),
    max_leaves=6,
)


def holds(condition: Any, entry: dict[bytes, bytes]) -> bool:
    """Tell whether a filter holds, step by step."""
    if isinstance(condition, list):
        return all(holds(each, entry) for each in condition)
    [(dialect, of)] = condition.items()
    match dialect:
        case "all":
            return all(holds(each, entry) for each in of)
        case "any":
            return any(holds(each, entry) for each in of)
        case "not":
            return not holds(of, entry)
        case "present":
            return all(name.encode() in entry for name in ([of] if isinstance(of, str) else of))
        case "range":
            return all(is_within(entry.get(name.encode()), span) for name, span in of.items())
    tests: dict[str, Any] = {
        "exact": bytes.__eq__,
        "prefix": bytes.startswith,
        "suffix": bytes.endswith,
    }
    return all(
        name.encode() in entry and tests[dialect](entry[name.encode()], text.encode())
        for name, text in of.items()
    )


def is_within(value: bytes | None, span: dict[str, float]) -> bool:
    if (
        value is None
        or len(value) > 1_000
        or not re.fullmatch(rb"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", value)
    ):
        return False
    number = float(value)
    return (
        number > span.get("gt", -math.inf) or ("gt" not in span and number == -math.inf)
    ) and all(
        {"ge": number >= bound, "lt": number < bound, "le": number <= bound}.get(key, True)
        for key, bound in span.items()
    )
