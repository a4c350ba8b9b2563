"""The AsyncAPI 3 document of the WebSocket, generated from the frame models."""

import inspect
from importlib.metadata import version
from typing import Any, get_args, get_type_hints
from urllib.parse import quote

from pydantic import TypeAdapter

from headgate.app.live.frames.client import AnyClientFrame, ClientFrame
from headgate.app.live.frames.server import CommitProblemFrame, ServerFrame
from headgate.app.wire.credentials import SECURITY_SCHEMES
from headgate.app.wire.examples import examples

_DESCRIPTION = """\
Each frame is a JSON object in text, with a `type`. A frame with a `rid` gets exactly one answer,
with the same `rid`.

The client presents its credential in the handshake: in `Authorization`, in the subprotocol
`headgate.bearer.` followed by a token, in a ticket in the URL, or in a cookie. Otherwise its first
frame is `auth`. The gateway sends `welcome` once it knows the client.

Close codes:

- 1000: normal
- 1001, 1012: going away
- 1009: too big
- 1011: failed
- 1013: too much at once
- 4400: bad frame
- 4401: the credential is missing, invalid or expired
- 4403: the credential does not allow this
- 4404: the stream or group is gone
- 4508: the client did not read for too long
- 4529: the client exceeded its limits

Reconnect after a random delay, but not after 4400 to 4499; after 4401, use a new credential.
"""

_CHANNELS = {
    "socket": ("/v1/ws", "Any number of subscriptions, and appends."),
    "streamSocket": (
        "/v1/streams/{stream}/ws",
        "One subscription to a stream, named 0. Query parameters configure it.",
    ),
    "groupSocket": (
        "/v1/streams/{stream}/groups/{group}/ws",
        "One subscription as a consumer of a group, named 0. Query parameters configure it.",
    ),
}
_PARAMETERS = {"stream": "Name of the stream.", "group": "Name of the group."}

_ACTIONS = {
    "receive": "Frames from the client to the gateway.",
    "send": "Frames from the gateway to the client.",
}

_SERVERS = {
    "local": {
        "host": "127.0.0.1:8080",
        "protocol": "ws",
        "description": "A gateway on this machine with its default port.",
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
    shown = examples()["frames"]
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
            "messages": {
                name: _message(name, model, shown.get(name))
                for name, (_, model) in messages.items()
            },
            "schemas": _schemas(received, sent),
            "securitySchemes": {
                name: {**scheme, "type": _ASYNC_TYPES[scheme["type"]]}
                for name, scheme in SECURITY_SCHEMES.items()
            },
        },
    }


def document_of_stream(stream: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the document of the entries of one stream, whose fields have a schema."""
    fields = dict(schema)
    definitions = fields.pop("$defs", {})
    return {
        "asyncapi": "3.1.0",
        "info": _info() | {"title": f"Entries of {stream}"},
        "defaultContentType": "application/json",
        "channels": {
            "entries": {
                "address": f"/v1/streams/{quote(stream, safe='')}/events",
                "description": "Events of the stream. The fields are texts; `payload` describes "
                "their values, which are JSON unless the schema of a field allows a text.",
                "messages": {"entry": {"name": "entry", "payload": _moved(fields)}},
            }
        },
        "operations": {
            "sendEntries": {
                "action": "send",
                "description": _ACTIONS["send"],
                "channel": {"$ref": "#/channels/entries"},
            }
        },
        "components": {"schemas": _moved(definitions)},
    }


def _moved(schema: Any) -> Any:
    """Return a schema whose references lead to where its definitions are now."""
    if isinstance(schema, list):
        return [_moved(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: _moved(value) for name, value in schema.items()}
    if isinstance(ref := schema.get("$ref"), str):
        moved["$ref"] = ref.replace("#/$defs/", "#/components/schemas/", 1)
    return moved


def _scheme(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/securitySchemes/{name}"}


def _info() -> dict[str, Any]:
    return {
        "title": "Headgate",
        "version": version("headgate"),
        "description": _DESCRIPTION,
        "contact": {"name": "The developers of Headgate"},
        "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        "tags": [
            {
                "name": "streams",
                "description": "Follow streams, process entries in groups, append entries.",
            }
        ],
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


def _message(name: str, model: type, example: dict[str, Any] | None) -> dict[str, Any]:
    message: dict[str, Any] = {
        "name": _name_of(model),
        "title": name,
        "summary": inspect.cleandoc(model.__doc__ or ""),
        "payload": {"$ref": f"#/components/schemas/{model.__name__}"},
    }
    if issubclass(model, ClientFrame) and model.needs.verbs:
        message["x-needs"] = sorted(model.needs.verbs)
    if example is not None:
        message["examples"] = [{"payload": example}]
    return message


def _by_name(models: tuple[type, ...]) -> _Models:
    return {_name_of(model): model for model in models}


def _name_of(model: type) -> str:
    kind: str = get_args(get_type_hints(model)["type"])[0]
    return _NAMES.get(model, kind)


def _messages(models: _Models, action: str) -> _Messages:
    return {f"{action}_{kind}": (action, model) for kind, model in models.items()}
