"""Names of streams, groups and consumers as clients write them."""

from headgate.app.wire.name_rule import fault_of
from headgate.app.wire.problems import GatewayError
from headgate.engine.limits import PATTERN_BYTES_MAX


def check_name(name: str, *, pointer: str) -> bytes:
    """Return the bytes of a stream, group or consumer name.

    Raises:
        GatewayError: it is empty, too long, or has a control character or `/` in it.
    """
    fault = fault_of(name)
    if fault is not None:
        raise GatewayError("invalid_request", fault, pointer=pointer)
    return name.encode()


def check_pattern(pattern: str, *, pointer: str) -> bytes:
    """Return the bytes of a pattern for names of streams, a glob of Redis.

    Raises:
        GatewayError: it is empty or too long.
    """
    text = pattern.encode(errors="surrogatepass")
    if not 0 < len(text) <= PATTERN_BYTES_MAX:
        fault = f"a pattern has 1 to {PATTERN_BYTES_MAX} bytes"
        raise GatewayError("invalid_request", fault, pointer=pointer)
    return text


def text_of(name: bytes) -> str:
    """Return a name as text; one that is not UTF-8 can only be shown."""
    return name.decode(errors="replace")
