"""API keys: list, create, rotate and revoke, in the file that `headgate keys` changes, too."""

import heapq
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from typing_extensions import TypeAliasType

from headgate.app.auth.grants import GRANTS_MAX, Grant, UsageLimits, Verb
from headgate.app.auth.key_file import ApiKey, KeyName, KeyState, KeyText, make_key
from headgate.app.auth.needs import needs
from headgate.app.auth.principal import Unauthenticated
from headgate.app.backends.leading import bucket_of
from headgate.app.http.dependencies import CURSOR, access_of, cursor_of, gateway_of, page_after
from headgate.app.http.operation import Operation
from headgate.app.wire.problems import Code, GatewayError, responses
from headgate.app.wire.schemas.entries import NextCursor
from headgate.engine.errors import NotLeader
from headgate.engine.replies import LeaderRole
from headgate.engine.threads import this_turn

router = APIRouter(prefix="/v1/keys", tags=["Keys"], route_class=Operation)

STREAMS_MAX = 500
"""Of all grants of a key together."""

_CENTURY_MS = 36_525 * 86_400_000

GrantVerb = TypeAliasType(
    "GrantVerb",
    Literal["read", "append", "consume", "manage", "push", "publish", "subscribe", "admin"],
)


class KeyGrant(Grant):
    """Streams or channels, and what a key may do with them."""

    model_config = ConfigDict(strict=True)

    do: list[GrantVerb] = Field(min_length=1, description="Allowed verbs.")  # type: ignore[assignment]

    @classmethod
    def of(cls, grant: Grant) -> "KeyGrant":
        fields = {**grant.model_dump(), "do": [verb.value for verb in grant.do]}
        return cls.model_construct(**fields)  # it was valid already, and there may be many

    def to_grant(self) -> Grant:
        return Grant.model_validate(self.model_dump())


class KeyLimits(UsageLimits):
    """Limits of use of a key. The settings of the gateway fill in those left out."""

    model_config = ConfigDict(strict=True)


class NewKey(BaseModel):
    """A key to create."""

    model_config = ConfigDict(extra="forbid")

    name: KeyName = Field(
        description="Name of the principal. Keys of one name share their limits of use. `{sub}` in "
        "a pattern stands for it.",
        examples=["shop"],
    )
    grants: Annotated[list[KeyGrant], Field(min_length=1, max_length=GRANTS_MAX)] = Field(
        description="Rights of the key. They add up."
    )
    limits: KeyLimits = Field(
        default_factory=KeyLimits, description="Limits of use that replace those of the settings."
    )
    ttl_ms: Annotated[int, Field(ge=1, le=_CENTURY_MS, strict=True)] | None = Field(
        None, description="Lifetime of the key. Default: it never expires."
    )

    @field_validator("grants", mode="before")
    @classmethod
    def _check_size(cls, grants: Any) -> Any:
        """Refuse what would take long to check: a file may have more."""
        listed = grants if isinstance(grants, list) else []
        given = [grant.get("streams") for grant in listed if isinstance(grant, dict)]
        if sum(len(streams) for streams in given if isinstance(streams, list)) > STREAMS_MAX:
            raise ValueError(f"over the API, a key has at most {STREAMS_MAX} names and patterns")
        return grants

    @field_validator("grants")
    @classmethod
    def _check_claims(cls, grants: list[KeyGrant], info: ValidationInfo) -> list[KeyGrant]:
        if "name" in info.data:
            for grant in grants:
                grant.bind({"sub": info.data["name"]})
        return grants

    def to_key(self, text: KeyText, now_ms: int) -> ApiKey:
        return ApiKey(
            id=text.id,
            name=self.name,
            sha256=text.sha256,
            grants=[grant.to_grant() for grant in self.grants],
            limits=UsageLimits(**self.limits.model_dump()),
            created_at_ms=now_ms,
            expires_at_ms=None if self.ttl_ms is None else now_ms + self.ttl_ms,
        )


class KeyRotation(BaseModel):
    """How a key gets its new secret."""

    model_config = ConfigDict(extra="forbid")

    overlap_ms: Annotated[int, Field(ge=0, le=_CENTURY_MS, strict=True)] | None = Field(
        None,
        description="How long the previous secret stays valid. Default: it ends immediately, and "
        "so do the connections that it opened.",
    )


class DescribedKey(BaseModel):
    """An API key without its secret."""

    id: str = Field(description="Id of the key. It is no secret.")
    name: str = Field(description="Name of the principal.")
    state: KeyState = Field(description="Only an `active` key is accepted.")
    grants: list[KeyGrant] = Field(description="Rights of the key.")
    limits: KeyLimits = Field(description="Limits of use of the key's own.")
    created_at_ms: int = Field(description="When the key was created, in unix time.")
    expires_at_ms: int | None = Field(description="When the key expires; null: never.")
    revoked_at_ms: int | None = Field(description="When the key was revoked.")
    previous_expires_at_ms: int | None = Field(
        description="Until when the previous secret is valid, too; null: there is none."
    )
    last_used_at_ms: int | None = Field(
        description="When the key was last used, as far as known. Saved once a minute."
    )

    @classmethod
    def of(cls, stored: ApiKey, used_at_ms: int | None, now_ms: int, **more: Any) -> Self:
        previous = None if stored.previous is None else stored.previous.expires_at_ms
        return cls(
            id=stored.id,
            name=stored.name,
            state=stored.state(now_ms),
            grants=list(map(KeyGrant.of, stored.grants)),
            limits=KeyLimits(**stored.limits.model_dump()),
            created_at_ms=stored.created_at_ms,
            expires_at_ms=stored.expires_at_ms,
            revoked_at_ms=stored.revoked_at_ms,
            previous_expires_at_ms=None if previous is None or previous <= now_ms else previous,
            last_used_at_ms=used_at_ms,
            **more,
        )


class IssuedKey(DescribedKey):
    """An API key with its secret, which is shown only here."""

    key: str = Field(
        description="The key itself. Store it now: it is not shown again. Send it as `Bearer`."
    )


class CreatedKey(IssuedKey):
    """A new API key with its secret, which is shown only here."""

    is_first: bool = Field(
        description="Whether the gateway was open until now. From now on, it requires a "
        "credential with each request."
    )


class DescribedKeys(BaseModel):
    """API keys, by id."""

    keys: list[DescribedKey]
    next_cursor: NextCursor


KeyPath = Annotated[
    str,
    Path(
        pattern="^[a-z0-9]{1,32}$",
        description="Id of the key, not the key itself.",
        examples=["6jze42yvcm"],
    ),
]

_CHANGE: tuple[Code, ...] = (
    *("malformed", "unsupported_media_type", "invalid_request", "limit_reached"),
    *("not_found", "not_supported", "not_leader", "unavailable"),
)


@router.get("", operation_id="listApiKeys", responses=responses("invalid_request", "not_found"))
@needs(Verb.ADMIN)
async def list_api_keys(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of keys per page.")] = (
        100
    ),
    cursor: Annotated[str | None, CURSOR] = None,
) -> DescribedKeys:
    """List the API keys by id, without their secrets. Revoked and expired keys stay in the list."""
    gateway, page = gateway_of(request), page_after(cursor, limit)
    after = (page.after or b"").decode(errors="replace")
    keys, now_ms = gateway.credentials.keys(), gateway.auth.now_ms()
    used_at_ms = await gateway.credentials.last_use_of_keys()
    ids = heapq.nsmallest(limit + 1, (key_id for key_id in keys if key_id > after))
    shown, turn = list[DescribedKey](), this_turn()
    for key_id in ids[:limit]:
        shown.append(DescribedKey.of(keys[key_id], used_at_ms.get(key_id), now_ms))
        await turn.pause()
    next_cursor = cursor_of(ids[limit - 1].encode()) if len(ids) > limit else None
    return DescribedKeys(keys=shown, next_cursor=next_cursor)


@router.post("", operation_id="createApiKey", status_code=201, responses=responses(*_CHANGE))
@needs(Verb.ADMIN)
async def create_api_key(request: Request, response: Response, new: NewKey) -> CreatedKey:
    """Create an API key. The answer has the key itself, once.

    The key works immediately at all workers of the gateway. `admin` applies to the whole gateway,
    so it may grant every right. A repeated request creates another key: if the answer is lost,
    revoke the key that you do not have.

    The first key of a gateway without credentials must have `admin`. From then on, the gateway
    requires a credential, as after `headgate keys add`; `is_first` is true in the answer.
    """
    access, now_ms = access_of(request), gateway_of(request).auth.now_ms()
    text, is_first = make_key(), access.principal.is_home
    made: list[ApiKey] = []

    def put(keys: dict[str, ApiKey]) -> None:
        key = new.to_key(text, now_ms)
        if is_first and keys:
            raise Unauthenticated("The gateway now requires a credential.")
        if is_first and not key.is_admin:
            detail = "the first key must have `admin`, or nobody could manage keys over the API"
            raise GatewayError("invalid_request", detail, pointer="/body/grants")
        if keys.setdefault(text.id, key) is not key:
            raise GatewayError("unavailable", "The random id of the key is in use: try again.")
        made.append(key)

    with access.act("create_key", {"of_key": text.id, "of_principal": new.name}):
        await _change(request, put)
    response.headers["Cache-Control"] = "no-store"
    return CreatedKey.of(made[0], None, now_ms, key=str(text), is_first=is_first)


@router.post("/{key}/rotate", operation_id="rotateApiKey", responses=responses(*_CHANGE, "gone"))
@needs(Verb.ADMIN)
async def rotate_api_key(
    request: Request, response: Response, key: KeyPath, rotation: KeyRotation | None = None
) -> IssuedKey:
    """Create a new secret for a key. The answer has the key itself, once.

    With `overlap_ms`, the previous secret stays valid for this time, so that clients can change to
    the new one without an outage. Connections that it opened end with the overlap.
    """
    overlap_ms = None if rotation is None else rotation.overlap_ms
    now_ms, text = gateway_of(request).auth.now_ms(), make_key(key)

    def rotated(keys: dict[str, ApiKey]) -> ApiKey:
        state = keys[key].state(now_ms)
        if state != "active":
            raise GatewayError(
                "gone", f"The key is {state}. Create a new one.", pointer="/path/key"
            )
        return keys[key].rotated(text, overlap_ms, now_ms)

    changed = await _change_key(request, "rotate_key", key, rotated)
    response.headers["Cache-Control"] = "no-store"
    used_at_ms = await gateway_of(request).credentials.last_use_of_keys()
    return IssuedKey.of(changed, used_at_ms.get(key), now_ms, key=str(text))


@router.delete(
    "/{key}",
    operation_id="revokeApiKey",
    status_code=204,
    responses=responses(*_CHANGE, "last_admin_key"),
)
@needs(Verb.ADMIN)
async def revoke_api_key(request: Request, key: KeyPath) -> None:
    """Revoke a key permanently. Connections that were opened with it end.

    The key stays in the list. The last active key with `admin` cannot be revoked over the API.
    """
    now_ms = gateway_of(request).auth.now_ms()

    def revoked(keys: dict[str, ApiKey]) -> ApiKey:
        admins = [each.id for each in keys.values() if each.is_admin and _is_active(each, now_ms)]
        if admins == [key]:
            text = "This is the last active key with `admin`, and nobody could manage keys"
            raise GatewayError(
                "last_admin_key", f"{text}: create another one first.", pointer="/path/key"
            )
        return keys[key].revoked(now_ms)

    await _change_key(request, "revoke_key", key, revoked)


def _is_active(key: ApiKey, now_ms: int) -> bool:
    return key.state(now_ms) == "active"


async def _change_key(
    request: Request, what: str, key_id: str, changed: Callable[[dict[str, ApiKey]], ApiKey]
) -> ApiKey:
    names = {"of_key": key_id}
    done: list[ApiKey] = []

    def change(keys: dict[str, ApiKey]) -> None:
        if key_id not in keys:
            raise GatewayError("not_found", "no API key has this id", pointer="/path/key")
        names["of_principal"] = keys[key_id].name
        keys[key_id] = changed(keys)
        done.append(keys[key_id])

    with access_of(request).act(what, names):
        await _change(request, change)
    return done[0]


async def _change(request: Request, change: Callable[[dict[str, ApiKey]], None]) -> None:
    gateway = gateway_of(request)
    bucket = bucket_of(gateway.backend)
    if bucket is not None and bucket.role is not LeaderRole.LEADER:
        raise NotLeader(bucket.leader)  # the keys of the leader replace those of a standby
    await gateway.credentials.change_keys(change)
