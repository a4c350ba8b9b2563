"""Posting: a request of a push is made, signed and sent, and what comes of it is said in words."""

from __future__ import annotations

from functools import partial

from headgate.app.push.bodies import Bodies, Content, PushRequest
from headgate.app.push.definition import PushRecord
from headgate.app.push.signing import PushSecrets, Signer
from headgate.app.push.store import PushAnswer
from headgate.app.runtime.threads import WEBHOOKS
from headgate.app.webhooks.connection import TargetAnswer
from headgate.app.webhooks.sending import Sender
from headgate.app.webhooks.targets import NameUnknown, TargetRefused
from headgate.engine.clock import Clock

_EXCERPT_MAX = 200
_RETRY_STATUSES = (429, 503)


class Posting:
    """Sends the requests of one push. It raises nothing, whatever a URL leads to."""

    def __init__(
        self, sender: Sender, clock: Clock, push: PushRecord, held: PushSecrets, signer: Signer
    ) -> None:
        """Send to the URL of a push.

        Args:
            sender: sends requests.
            clock: tells the time.
            push: as it is set.
            held: its secrets.
            signer: signs its requests.
        """
        self._sender, self._clock, self._held, self._signer = sender, clock, held, signer
        self._timeout_ms = push.definition.timeout_ms
        self._content_of = Bodies(push.definition.body, push.stream, push.group).content_of

    async def post(self, request: PushRequest, webhook_id: str) -> PushAnswer:
        """Send a request; returns the answer, or the reason why there is none."""
        began_ms = self._clock.monotonic_ms()
        answer, error = await self._send(request, webhook_id)
        excerpt = retry_after_s = None
        if answer is not None and error is not None:
            excerpt = answer.body[: 4 * _EXCERPT_MAX].decode(errors="replace")[:_EXCERPT_MAX]
            retry_after_s = answer.retry_after_s if answer.status in _RETRY_STATUSES else None
        return PushAnswer(
            self._clock.wall_ms(),
            self._clock.monotonic_ms() - began_ms,
            webhook_id,
            len(request.deliveries),
            None if answer is None else answer.status,
            error,
            excerpt or None,
            retry_after_s,
        )

    async def _send(
        self, request: PushRequest, webhook_id: str
    ) -> tuple[TargetAnswer | None, str | None]:
        """Return the answer, and why it does not acknowledge."""
        try:
            make = partial(self._signed, request, webhook_id)
            content = await WEBHOOKS.call_if_awaited(make) if request.is_large else make()
            answer = await self._sender.send(
                self._held.url, content.body, content.headers, within_s=self._timeout_ms / 1000
            )
        except TargetRefused as refused:
            return None, f"not sent: {refused}"
        except NameUnknown:
            return None, "not sent: the name of the host has no address"
        except TimeoutError:
            return None, f"no answer within {self._timeout_ms} ms"
        except OSError as failed:
            return None, f"not sent: {failed}"
        except Exception as failed:  # noqa: BLE001 whatever a URL leads to, it is tried again
            return None, f"not sent: {type(failed).__name__}"
        return answer, None if 200 <= answer.status < 300 else f"answered {answer.status}"

    def _signed(self, request: PushRequest, webhook_id: str) -> Content:
        content = self._content_of(request)
        signature = self._signer.headers(webhook_id, self._clock.wall_ms(), content.body)
        return Content(content.body, {**self._held.headers, **content.headers, **signature})
