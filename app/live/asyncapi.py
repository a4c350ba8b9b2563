"""The AsyncAPI 3 document of the WebSocket, generated from the frame models."""

import inspect
from importlib.metadata import version
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter

from headgate.app.live.frames.client import AnyClientFrame, ClientFrame
from headgate.app.live.frames.server import CommitProblemFrame, ServerFrame
from headgate.app.wire.credentials import SECURITY_SCHEMES

_DESCRIPTION = """\
Frames are JSON objects in text, one object a frame, each with a `type`. A frame with a `rid` is
answered exactly once, with that `rid`. Close codes: 1000 normal, 1001 and 1012 going away, 1009 too
big, 1011 failed, 1013 too much at once, 4400 bad frame, 4401 the credential is missing, bad or has
ended, 4403 it does not allow this, 4404 the stream or group is gone, 4508 the client took nothing
for too long, 4529 it used too much. Come back with a random delay, but not after 4400 to 4499;
after 4401 with a new credential.

A handshake says who is there by `Authorization`, by the subprotocol `headgate.bearer.` and a token
behind it, by a ticket in the URL, or by a cookie; or the first frame is `auth`. `welcome` comes
once it is known.
"""

_CHANNELS = {
    "socket": ("/v1/ws", "Any number of subscriptions, and appends."),
    "streamSocket": (
        "/v1/streams/{stream}/ws",
        "One subscription, named 0, to a stream; the query says how.",
    ),
    "groupSocket": (
        "/v1/streams/{stream}/groups/{group}/ws",
        "One subscription, named 0, as a consumer of a group; the query says how.",
    ),
}
_PARAMETERS = {"stream": "Name of the stream.", "group": "Name of the group."}

_ACTIONS = {
    "receive": "What a client says to the gateway.",
    "send": "What the gateway says to a client.",
}

_SERVERS = {
    "local": {
        "host": "127.0.0.1:8080",
        "protocol": "ws",
        "description": "A gateway on this machine, as it is started.",
    }
}

_ASYNC_TYPES = {"http": "http", "apiKey": "httpApiKey"}
"""AsyncAPI's names of the types of OpenAPI."""

_NAMES: dict[type, str] = {CommitProblemFrame: "commit_problem"}
"""Names of the frames that are not the only ones of their type."""

_Models = dict[str, type]
_Messages = dict[str, tuple[str, type]]
"""By name: the action that it is a message of, and its model."""


def document() -> dict[str, Any]:
    received: _Models = _by_name(get_args(get_args(AnyClientFrame)[0]))
    sent: _Models = _by_name(get_args(ServerFrame))
    messages = {**_messages(received, "receive"), **_messages(sent, "send")}
    return {
        "asyncapi": "3.1.0",
        "info": _info(),
        "servers": {
            name: server | {"security": [_scheme(name) for name in SECURITY_SCHEMES]}
            for name, server in _SERVERS.items()
        },
        "defaultContentType": "application/json",
        "channels": {
            name: _channel(address, text, messages) for name, (address, text) in _CHANNELS.items()
        },
        "operations": {
            f"{action}{channel[0].upper()}{channel[1:]}": _operation(action, channel, messages)
            for channel in _CHANNELS
            for action in _ACTIONS
        },
        "components": {
            "messages": {name: _message(name, model) for name, (_, model) in messages.items()},
            "schemas": _schemas(received, sent),
            "securitySchemes": {
                name: {**scheme, "type": _ASYNC_TYPES[scheme["type"]]}
                for name, scheme in SECURITY_SCHEMES.items()
            },
        },
    }


def _scheme(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/securitySchemes/{name}"}


def _info() -> dict[str, Any]:
    return {
        "title": "Headgate",
        "version": version("headgate"),
        "description": _DESCRIPTION,
        "contact": {"name": "The developers of Headgate"},
        "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        "tags": [{"name": "streams", "description": "Follow streams, work in groups, append."}],
    }


def _schemas(received: _Models, sent: _Models) -> dict[str, Any]:
    _, schemas = TypeAdapter.json_schemas(
        [
            *((name, "validation", TypeAdapter(model)) for name, model in received.items()),
            *((name, "serialization", TypeAdapter(model)) for name, model in sent.items()),
        ],
        ref_template="#/components/schemas/{model}",
    )
    definitions: dict[str, Any] = schemas["$defs"]
    for model in sent.values():  # what tells the frames apart is always there
        schema = definitions[model.__name__]
        required = [name for name in schema.get("required", ()) if name != "type"]
        schema["required"] = ["type", *required]
    return definitions


def _channel(address: str, text: str, messages: _Messages) -> dict[str, Any]:
    return {
        "address": address,
        "description": text,
        "parameters": {
            name: {"description": meaning}
            for name, meaning in _PARAMETERS.items()
            if f"{{{name}}}" in address
        },
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
    }


def _operation(action: str, channel: str, messages: _Messages) -> dict[str, Any]:
    return {
        "action": action,
        "description": _ACTIONS[action],
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [
            {"$ref": f"#/channels/{channel}/messages/{name}"}
            for name, (of_action, _) in messages.items()
            if of_action == action
        ],
    }


def _message(name: str, model: type) -> dict[str, Any]:
    message: dict[str, Any] = {
        "name": _name_of(model),
        "title": name,
        "summary": inspect.cleandoc(model.__doc__ or ""),
        "payload": {"$ref": f"#/components/schemas/{model.__name__}"},
    }
    if issubclass(model, ClientFrame) and model.needs.verbs:
        message["x-needs"] = sorted(model.needs.verbs)
    return message


def _by_name(models: tuple[type, ...]) -> _Models:
    return {_name_of(model): model for model in models}


def _name_of(model: type) -> str:
    kind: str = get_args(get_type_hints(model)["type"])[0]
    return _NAMES.get(model, kind)


def _messages(models: _Models, action: str) -> _Messages:
    return {f"{action}_{kind}": (action, model) for kind, model in models.items()}
