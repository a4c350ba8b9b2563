"""Mode: the way in which a message has an event (the HTTP binding, 3).

The content type says it: structured, batched, or binary for every other one.
"""

from collections.abc import Mapping

from headgate.app.cloud_events.event import BATCH, STRUCTURED
from headgate.app.wire.problems import GatewayError

_FAMILY = b"application/cloudevents"


def is_event(sent: Mapping[bytes, bytes]) -> bool:
    """Tell by the headers of a request whether its body is an event, or some of them."""
    return b"ce-specversion" in sent or _is_in_family(sent)


def check_format(sent: Mapping[bytes, bytes]) -> None:
    """Refuse events in a format that is not read here.

    Args:
        sent: headers of a request with events.

    Raises:
        GatewayError: naming those that are.
    """
    text = sent.get(b"content-type", b"").decode("latin-1")
    parameters = text.partition(";")[2].lower().replace(" ", "").replace('"', "")
    if _is_in_family(sent) and (
        _media_type_of(sent) not in (STRUCTURED, BATCH) or parameters not in ("", "charset=utf-8")
    ):
        text = f"events are read as {STRUCTURED}, {BATCH}, in UTF-8, or in the binary mode"
        raise GatewayError("unsupported_media_type", text, pointer="/header/Content-Type")


def _is_in_family(sent: Mapping[bytes, bytes]) -> bool:
    return sent.get(b"content-type", b"")[: len(_FAMILY)].lower() == _FAMILY


def _media_type_of(sent: Mapping[bytes, bytes]) -> str:
    return sent.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
