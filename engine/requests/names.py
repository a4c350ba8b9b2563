"""Names: which streams a reply may name, or the policies that a request takes along."""

from __future__ import annotations

import msgspec


class NameFilter(msgspec.Struct, frozen=True):
    """Names that may be shown: these, and all that begin with one of the prefixes.

    The prefix `b""` shows all names. A filter with neither names nor prefixes shows none.
    """

    names: frozenset[bytes] = frozenset()
    prefixes: tuple[bytes, ...] = ()

    def shows(self, name: bytes) -> bool:
        """Tell whether a name may be shown."""
        return name in self.names or name.startswith(self.prefixes)


def is_shown(name: bytes, only: NameFilter | None) -> bool:
    """Tell whether a name may be shown; None: all may."""
    return only is None or only.shows(name)
