"""Push states: how the pushes of some groups of a stream go, for whoever describes these groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.automation import pushes
from headgate.app.automation.push_acts import PushTools
from headgate.app.automation.pushes import PUSHES_MAX, PushPlace
from headgate.app.automation.signing import PushSecrets
from headgate.app.wire.descriptions import group_wire
from headgate.app.wire.pushes import PushPhase
from headgate.app.wire.schemas.streams import Group
from headgate.app.wire.verdicts import PushState
from headgate.engine.replies import GroupInfo
from headgate.engine.requests.streams import ListStreams
from headgate.engine.threads import this_turn


async def group_wire_of(
    access: Access, tools: PushTools, stream: bytes, groups: Sequence[GroupInfo]
) -> Callable[[GroupInfo], Group]:
    """Return the function that describes these groups of a stream, with their verdicts.

    A push is a reason only to those who may see it: that takes `manage` on the group.
    """
    states = await _states(access, tools, stream, [group.name for group in groups])
    now_ms = tools.now_ms()
    return lambda group: group_wire(group, states.get(group.name), now_ms)


async def group_described(
    access: Access, tools: PushTools, stream: bytes, group: GroupInfo
) -> Group:
    """Describe a group of a stream, with its verdict."""
    return (await group_wire_of(access, tools, stream, [group]))(group)


async def _states(
    access: Access, tools: PushTools, stream: bytes, groups: Sequence[bytes]
) -> dict[bytes, PushState]:
    known: frozenset[bytes] | None = None
    if len(groups) > 1:  # one list in place of a look at each
        infos = await tools.perform(ListStreams(pushes.PREFIX, None, PUSHES_MAX))
        known = frozenset(info.name for info in infos)
    states: dict[bytes, PushState] = {}
    turn = this_turn()
    for group in groups if known is None or known else ():
        name = PushPlace(stream, group).name
        if (known is None or name in known) and access.principal.may(
            Need((Verb.MANAGE,), stream, group)
        ):
            state = await _state(tools, name)
            if state is not None:
                states[group] = state
        await turn.pause()
    return states


async def _state(tools: PushTools, name: bytes) -> PushState | None:
    stored = await pushes.load(tools.perform, name)
    if stored is None:
        return None
    push = stored.push
    is_readable = await tools.sealing.unseal(push.sealed, PushSecrets) is not None
    phase = push.phase if is_readable else PushPhase.UNREADABLE
    return PushState(phase, push.failing_since_ms, push.disabled_reason)
