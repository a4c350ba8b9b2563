"""Names: which streams a reply may name, or the policies that a request takes along."""

from __future__ import annotations

import msgspec

RESERVED = b"__"
"""Prefix of the streams that hold the gateway's own state: pushes, subscriptions, keys for
signatures. No request of a client changes them."""


def is_reserved(name: bytes) -> bool:
    """Tell whether a name is one of the gateway's own."""
    return name.startswith(RESERVED)


class NameFilter(msgspec.Struct, frozen=True):
    """Names that may be shown: these, and all that begin with one of the prefixes.

    A prefix shows reserved names only if it begins with `RESERVED` itself. So the prefix `b""`
    shows all names that clients may use. A filter with neither names nor prefixes shows none.
    """

    names: frozenset[bytes] = frozenset()
    prefixes: tuple[bytes, ...] = ()

    def shows(self, name: bytes) -> bool:
        """Tell whether a name may be shown."""
        prefixes = self.prefixes
        if is_reserved(name):
            prefixes = tuple(prefix for prefix in prefixes if is_reserved(prefix))
        return name in self.names or name.startswith(prefixes)


UNRESERVED = NameFilter(prefixes=(b"",))
"""Shows all names but the reserved ones."""


def is_shown(name: bytes, only: NameFilter | None) -> bool:
    """Tell whether a name may be shown; None: all may, reserved ones too."""
    return only is None or only.shows(name)
