"""Settings: read once, in `cli` or by a test, and handed down as one frozen value.

Flags win over `HEADGATE_*` variables, these over the TOML file, that over the defaults here.
"""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    HttpUrl,
    SecretStr,
    model_validator,
)
from pydantic_core import from_json, to_json, to_jsonable_python
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from headgate.app.auth.bad_credentials import BAD_PER_S_MAX
from headgate.app.auth.grants import Grants, Limit
from headgate.app.auth.tokens.compact import Algorithm
from headgate.app.automation.targets import PUBLIC_PORTS
from headgate.app.backends.redis.address import check_prefix, read_url
from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.app.runtime import machine
from headgate.app.wire.name_rule import fault_of
from headgate.app.wire.schemas.limits import ChosenLimits
from headgate.engine.bucket.opening import check_url
from headgate.engine.journal.rewrites import REDIS_GROWTH
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.memory import WhenFull

MEMORY = Path(":memory:")
"""Instead of a directory: nothing is kept."""

PREFIX = "HEADGATE_"
"""Beginning of the name of each variable."""

WORKERS_MAX = 256

OBSERVED_MAX = 2_000
"""Each stream takes 75 KB after a day, and each group 130 KB."""

_HOST = re.compile(r"\*|[\w.-]+|[0-9a-fA-F:.]+", re.ASCII)
_ROOT_PATH = re.compile(r"(/[\w.~-]+)+", re.ASCII)
_OWN_PATHS = frozenset(
    {
        *("v1", "healthz", "readyz", "metrics"),
        *("docs", "openapi.json", "asyncapi.json", "static-offline-docs"),
    }
)
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^\s/,\"']+/?", re.ASCII | re.IGNORECASE)


def _split(given: object) -> object:
    """Return the parts of a text, or of the texts of a list, that commas part."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return given
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _host(text: str) -> str:
    if _HOST.fullmatch(text) is None:
        raise ValueError("should be a host name such as gw.example, without scheme and port")
    return text


def _observed(text: str) -> str:
    name = text.removesuffix("*")
    fault = fault_of(name) if name or text != "*" else None
    if fault is not None:
        raise ValueError(fault)
    return text


def _origin(text: str) -> str:
    if _ORIGIN.fullmatch(text) is None:
        raise ValueError("should be an origin such as https://app.example, without a path")
    return text


def _network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        raise ValueError("should be an address or a network such as 10.0.0.0/8") from None
    return text


def _root_path(text: str) -> str:
    if text and _ROOT_PATH.fullmatch(text) is None:
        raise ValueError("should be a path such as /streams, without a slash at its end")
    if text.partition("/")[2].partition("/")[0] in _OWN_PATHS:
        raise ValueError("should not begin as a path of the gateway itself does")
    return text


def _url(secret: SecretStr) -> SecretStr:
    read_url(secret.get_secret_value())
    return secret


def _address(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in ("http", "https") or not parts.hostname or "@" in text):
        raise ValueError("should be a URL such as https://gw-1.example:8080")
    return text


def _bucket(text: str) -> str:
    check_url(text)
    return text


def _prefix(text: str) -> str:
    check_prefix(text.encode())
    return text


def _from_json(given: object) -> object:
    """Return the value of a text, as a variable has it; in a TOML file it is a value already."""
    if not isinstance(given, str):
        return given
    try:
        return from_json(given)
    except ValueError:
        raise ValueError("should be a list of grants, as JSON") from None


GivenGrants = Annotated[Grants, NoDecode, BeforeValidator(_from_json)]


def _worker_count(given: object) -> object:
    return max(machine.core_count() - 1, 1) if given == "auto" else given


Workers = Annotated[int, BeforeValidator(_worker_count)]

ObservedNames = Annotated[
    list[Annotated[str, AfterValidator(_observed)]], NoDecode, BeforeValidator(_split)
]
Algorithms = Annotated[list[Algorithm], NoDecode, BeforeValidator(_split)]
Networks = Annotated[
    list[Annotated[str, AfterValidator(_network)]], NoDecode, BeforeValidator(_split)
]
Ports = Annotated[list[Annotated[int, Field(ge=1, le=65_535)]], NoDecode, BeforeValidator(_split)]
Hosts = Annotated[list[Annotated[str, AfterValidator(_host)]], NoDecode, BeforeValidator(_split)]
Origins = Annotated[
    list[Annotated[str, AfterValidator(_origin)]], NoDecode, BeforeValidator(_split)
]


class LogLevel(StrEnum):
    """The lowest level of lines in the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Choices(BaseSettings):
    """The settings of an operator besides the limits."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    redis_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port for Redis clients (RESP2 and RESP3); 0 takes a free one; null: none.",
    )
    redis_host: str | None = Field(
        None, description="Address to listen on for Redis clients; null: that of `host`."
    )
    data_dir: Path = Field(
        Path("data"), description="Directory of the journal; `:memory:` keeps nothing."
    )
    fsync: FsyncPolicy = Field(
        FsyncPolicy.ALWAYS,
        description="When the journal is forced to disk: before each answer, every second, or when "
        "the system likes.",
    )
    rewrite_percentage: int = Field(
        REDIS_GROWTH.percentage,
        ge=0,
        description="Growth of the journal after which it is rewritten; 0 is never.",
    )
    rewrite_bytes_min: int = Field(
        REDIS_GROWTH.size_bytes_min,
        ge=0,
        description="A journal smaller than this is not rewritten by itself.",
    )
    rewrite_patience_s: int = Field(
        300,
        ge=5,
        description="A rewrite that makes no progress for so long is ended, and tried again later. "
        "It has to be more than the longest sync of the disk.",
    )
    full: WhenFull = Field(
        WhenFull.REFUSE,
        description="When there is no room for entries: refuse appends, or trim the oldest.",
    )
    log_level: LogLevel = Field(LogLevel.INFO, description="Lowest level of lines in the log.")
    log_requests: bool = Field(
        False,
        description="Write a line into the log for each request: method, route, status, "
        "milliseconds, principal, request id.",
    )
    loop_delay_warn_ms: int = Field(
        100, ge=10, description="A longer hold of the event loop is named in a warning."
    )
    observe: ObservedNames = Field(
        ["*"],
        description="Names of streams, or beginnings of names with `*`, that have metrics and a "
        "history, with their groups.",
    )
    observed_max: int = Field(
        200,
        ge=0,
        le=OBSERVED_MAX,
        description="Streams and groups, together, that have metrics and a history: the first ones "
        "by name.",
    )
    allowed_hosts: Hosts = Field(
        [], description="Host names to answer to besides the loopback ones; `*` is any."
    )
    allowed_origins: Origins = Field(
        [], description="Origins whose pages may call, such as `https://app.example`; `*` is any."
    )
    request_ms_max: int = Field(
        30_000, ge=100, description="Time for a request to arrive, header and body."
    )
    keepalive_s: int = Field(
        80,
        ge=1,
        le=86_400,
        description="Time for which a connection waits for its next request. A proxy has to close "
        "its own end earlier: the usual ones do after 60 or 75 s.",
    )
    workers: Workers = Field(
        1,
        ge=1,
        le=WORKERS_MAX,
        description="Processes that serve requests, before one process more that has the engine; "
        "`auto` is one fewer than the cores. 1 is a single process that does everything.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags, environment, file."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


class CredentialChoices(BaseModel):
    """The credentials that the gateway accepts: keys, tokens, tickets, or none."""

    keys_file: Path | None = Field(
        None, description="File of API keys; `keys.json` of the data directory unless given."
    )
    first_key: bool = Field(
        False,
        description="Without any credentials, make an admin key at the first start, write it to "
        "`first-key` in the data directory, and print it once.",
    )
    jwt_secret: SecretStr | None = Field(
        None, description="Secret of tokens signed with HS256, HS384 or HS512."
    )
    jwt_public_key_file: Path | None = Field(
        None, description="PEM file of the public key that verifies tokens."
    )
    jwt_jwks: str | None = Field(
        None, description="File or `https://` URL of the key set (JWKS) that verifies tokens."
    )
    jwt_algorithms: Algorithms = Field(
        [], description="Algorithms of tokens, such as `ES256`; those of the keys unless given."
    )
    jwt_audience: str | None = Field(None, description="`aud` that a token must have.")
    jwt_issuer: str | None = Field(None, description="`iss` that a token must have.")
    jwt_leeway_s: int = Field(
        0, ge=0, le=300, description="Allowed difference of the issuer's clock, in seconds."
    )
    jwt_grants: GivenGrants = Field(
        [], description="Grants, as JSON, of a token without the claim `headgate`."
    )
    ticket_secret: SecretStr | None = Field(
        None,
        description="Secret that signs tickets, the same for all gateways that share them; one is "
        "made in the data directory unless given.",
    )
    allow_anonymous: bool = Field(
        False, description="Serve requests without a credential, as `anonymous` says."
    )
    anonymous: GivenGrants | None = Field(
        None,
        description="Grants, as JSON, of requests without a credential where these are allowed; "
        "everything but `admin` and `push` unless given.",
    )
    otlp_url: HttpUrl | None = Field(
        None,
        description="URL of a collector of traces (OTLP over HTTP), such as "
        "`http://localhost:4318`. Requests under a sampled parent (`traceparent`) have spans.",
    )
    trace_field: str = Field(
        "",
        max_length=256,
        description="Field in which the trace of an append travels with its entry, so that "
        "deliveries link to it, such as `traceparent`. Empty: in none.",
    )
    open_metrics: bool = Field(False, description="Answer `/metrics` without a credential.")
    bad_credentials_per_s_max: Limit = Field(
        BAD_PER_S_MAX,
        description="Bad credentials from one address (of IPv6 the first 64 bits) in a second. "
        "Beyond that, credentials that are not known to be good are refused unseen.",
    )
    requests_per_s_max: Limit | None = Field(
        None, description="Requests, frames and commands of one principal in a second."
    )
    entries_per_s_max: Limit | None = Field(
        None, description="Entries that one principal appends and is sent in a second."
    )
    bytes_per_s_max: Limit | None = Field(
        None, description="Bodies and frames that one principal sends in a second."
    )
    principal_connections_max: Limit | None = Field(
        None, description="Event streams and WebSockets of one principal at once."
    )
    principal_waiters_max: Limit | None = Field(
        None, description="Blocked reads of one principal at once."
    )
    principal_subscriptions_max: Limit | None = Field(
        None, description="Subscriptions of one principal at once."
    )


class NetworkChoices(BaseModel):
    """The network around the gateway: TLS, and proxies in front of it."""

    tls_cert: Path | None = Field(
        None, description="PEM file of the certificate and its chain: serve HTTPS."
    )
    tls_key: Path | None = Field(None, description="PEM file of the key of the certificate.")
    root_path: Annotated[str, AfterValidator(_root_path)] = Field(
        "", description="Path under which a proxy serves the gateway, such as `/streams`."
    )
    trusted_proxies: Networks = Field(
        [],
        description="Addresses or networks of proxies that may say where a request comes from, "
        "such as `10.0.0.0/8`.",
    )
    push_allow: Networks = Field(
        [],
        description="Networks that are not public to which webhooks may be sent, such as "
        "`10.1.0.0/16`; also by plain HTTP.",
    )
    push_deny: Networks = Field(
        [], description="Networks to which webhooks are never sent, public ones or not."
    )
    push_ports: Ports = Field(
        list(PUBLIC_PORTS), description="Ports of public addresses to which webhooks may be sent."
    )
    push_identity: Annotated[str, Field(pattern=r"^[ -~]{1,128}$")] | None = Field(
        None,
        description="Who sends webhooks, for their receivers, such as a URL: it is a part of "
        "`User-Agent`.",
    )
    push_key_file: Path | None = Field(
        None,
        description="File of the keys that encrypt the secrets of pushes, one a line, the first of "
        "them those that are new; `push.key` of the data directory unless given, which is made "
        "when it is needed. Gateways over the same servers, or on one bucket, need the same.",
    )


class RedisChoices(BaseModel):
    """Servers that keep the streams in place of the engine in this process."""

    backend: Annotated[SecretStr, AfterValidator(_url)] | None = Field(
        None,
        description="URL of the servers that keep the streams, such as `redis://10.0.0.5`, "
        "`redis+cluster://10.0.0.5,10.0.0.6` or `redis+sentinel://10.0.0.5/mymaster`; `rediss` "
        "in place of `redis` is TLS. The engine in this process keeps them unless given.",
    )
    redis_durability: DurabilityLevel = Field(
        DurabilityLevel.NONE,
        description="Durability of an answered change: none, on the disk of the primary, or "
        "on the disks of the primary and of a replica.",
    )
    redis_prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        "headgate:",
        description="Prefix of the keys of streams at the servers; the names of the streams "
        "come behind it.",
    )
    redis_username: str | None = Field(
        None, description="User of the servers, unless the URL names one."
    )
    redis_password: SecretStr | None = Field(
        None, description="Password of this user, unless the URL has one."
    )
    redis_tls_ca: Path | None = Field(
        None, description="PEM file of the authorities that the servers' certificates are from."
    )
    redis_tls_cert: Path | None = Field(
        None, description="PEM file of the certificate that the gateway shows to the servers."
    )
    redis_tls_key: Path | None = Field(None, description="PEM file of the key of it.")
    redis_answer_ms_max: int = Field(5_000, ge=100, description="Time for a server's answer.")


class DurableIn(StrEnum):
    """The place that an answer waits for."""

    DISK = "disk"
    BUCKET = "bucket"


class BucketChoices(BaseModel):
    """A bucket (object store) behind the data directory, and a second gateway on it."""

    bucket: Annotated[str, AfterValidator(_bucket)] | None = Field(
        None,
        description="URL of a bucket that gets everything: `s3://name/prefix`, `gs://name/prefix`, "
        "`az://name/prefix` or `file:///directory`. Credentials are those that the tools of the "
        "store read (`AWS_ACCESS_KEY_ID` and so on).",
    )
    durable: DurableIn = Field(
        DurableIn.DISK,
        description="What an answer waits for: the disk, as `fsync` says, or also the bucket, so "
        "that losing the machine loses nothing.",
    )
    standby: bool = Field(
        False,
        description="One of several gateways on a bucket: wait until no other one leads, and "
        "refuse changes while it cannot be sure that it does.",
    )
    standby_reads: bool = Field(
        False,
        description="While another gateway leads, answer reads; `Headgate-Behind-Ms` says how far "
        "they may be behind.",
    )
    standby_redirect: bool = Field(
        False,
        description="While another gateway leads, send requests to its `address` (status 307) in "
        "place of a problem.",
    )
    address: Annotated[str, AfterValidator(_address)] = Field(
        "",
        description="URL at which clients reach this gateway. A standby names the address of the "
        "leader in its problems.",
    )
    lease_ms: int = Field(
        10_000,
        ge=1_000,
        le=600_000,
        description="Time after which a gateway that does not renew its lease is replaced.",
    )
    ship_ms: int | None = Field(
        None,
        ge=10,
        le=60_000,
        description="Time between two parts of the journal in the bucket; 1000 unless given, 100 "
        "where answers wait for the bucket.",
    )
    bucket_kept_ms: int = Field(
        86_400_000,
        ge=600_000,
        description="Time for which the bucket can be restored as it was (`headgate bucket "
        "restore --at`).",
    )

    @model_validator(mode="after")
    def _has_a_bucket(self) -> Self:
        if self.bucket is None:
            for name in ("standby", "standby_reads", "standby_redirect"):
                if getattr(self, name):
                    raise ValueError(f"{name} is set, and bucket is not")
            if self.durable is DurableIn.BUCKET:
                raise ValueError("durable is bucket, and no bucket is set")
        return self


class Settings(
    ChosenLimits, NetworkChoices, RedisChoices, BucketChoices, CredentialChoices, Choices
):
    """Everything an operator can choose. The fields of `Choices` come first."""

    @property
    def keyspace_bounds(self) -> KeyspaceBounds:
        """The limits of streams, groups and consumers."""
        return KeyspaceBounds(**self.model_dump(include=set(KeyspaceBounds._fields)))

    @model_validator(mode="after")
    def _has_a_directory_for_the_bucket(self) -> Self:
        if self.bucket is not None and (self.backend is not None or self.data_dir == MEMORY):
            other = "data_dir is :memory:" if self.backend is None else "backend is set, too"
            raise ValueError(f"bucket is set, and {other}: it is behind a data directory")
        return self

    @model_validator(mode="after")
    def _has_both_files_of_tls(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            present, missing = ("tls_cert", "tls_key")[:: 1 if self.tls_cert else -1]
            raise ValueError(f"{present} is set, and {missing} is not: TLS needs both")
        return self


def with_secrets(settings: Settings) -> bytes:
    """Return settings as JSON, their secrets as well: only another process of ours may read it."""
    values = {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in settings
    }
    return to_json(to_jsonable_python(values))


def settings_of(text: bytes) -> Settings:
    """Return the settings that `with_secrets` has written; nothing else counts."""

    class GivenSettings(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del settings_cls, env_settings, dotenv_settings, file_secret_settings
            return (init_settings,)

    return GivenSettings(**from_json(text))


def read_settings(file: Path | None, flags: dict[str, Any]) -> Settings:
    """Read the settings.

    Args:
        file: a TOML file, or None.
        flags: what was said on the command line, by setting name.

    Raises:
        pydantic.ValidationError: a value is wrong, or a name in the file unknown.
        tomllib.TOMLDecodeError, UnicodeDecodeError: the file is not TOML.
        OSError: the file cannot be read.
    """

    class FileSettings(Settings):
        model_config = SettingsConfigDict(toml_file=file)

    return FileSettings(**flags)
