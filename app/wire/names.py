"""Names of streams, groups and consumers as clients write them."""

from headgate.app.wire.name_rule import fault_of
from headgate.app.wire.problems import GatewayError
from headgate.engine.limits import PATTERN_BYTES_MAX


def check_name(name: str, *, pointer: str) -> bytes:
    fault = fault_of(name)
    if fault is not None:
        raise GatewayError("invalid_request", fault, pointer=pointer)
    return name.encode()


def check_pattern(pattern: str, *, pointer: str) -> bytes:
    text = pattern.encode(errors="surrogatepass")
    if not 0 < len(text) <= PATTERN_BYTES_MAX:
        fault = f"a pattern has 1 to {PATTERN_BYTES_MAX} bytes"
        raise GatewayError("invalid_request", fault, pointer=pointer)
    return text


def text_of(name: bytes) -> str:
    """Return a name as text for display; what is not UTF-8 is lost."""
    return name.decode(errors="replace")
