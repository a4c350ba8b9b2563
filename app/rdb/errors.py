"""Errors: what is wrong with bytes that should be RDB."""


class RdbError(Exception):
    """Bytes that are not RDB as Redis writes it, or that have something we cannot read."""

    def __init__(self, what: str, offset: int | None = None) -> None:
        """Describe the fault.

        Args:
            what: is wrong.
            offset: of the byte behind what was read, from the beginning; None: unknown.
        """
        super().__init__(what if offset is None else f"{what}, at byte {offset}")
        self.offset = offset
