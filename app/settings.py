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
        raise ValueError("should be a host name such as gw.example, without scheme or port")
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
        raise ValueError("should be a path such as /streams, without a trailing slash")
    if text.partition("/")[2].partition("/")[0] in _OWN_PATHS:
        raise ValueError("should not start with a path of the gateway itself")
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
        raise ValueError("should be a JSON list of grants") from None


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
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 picks a free port.")
    redis_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port for Redis clients (RESP2 and RESP3); 0 picks a free port; null disables "
        "it.",
    )
    redis_host: str | None = Field(
        None, description="Address to listen on for Redis clients; null uses `host`."
    )
    data_dir: Path = Field(
        Path("data"), description="Directory of the journal; `:memory:` keeps data in memory only."
    )
    fsync: FsyncPolicy = Field(
        FsyncPolicy.ALWAYS,
        description="When to sync the journal to disk: before each answer, every second, or when "
        "the operating system decides.",
    )
    rewrite_percentage: int = Field(
        REDIS_GROWTH.percentage,
        ge=0,
        description="Growth of the journal, in percent, that triggers a rewrite; 0 disables "
        "automatic rewrites.",
    )
    rewrite_bytes_min: int = Field(
        REDIS_GROWTH.size_bytes_min,
        ge=0,
        description="Size of the journal below which no automatic rewrite starts.",
    )
    rewrite_patience_s: int = Field(
        300,
        ge=5,
        description="Time without progress after which a rewrite is aborted and retried later. "
        "Must exceed the longest sync of the disk.",
    )
    full: WhenFull = Field(
        WhenFull.REFUSE,
        description="What to do when there is no room for entries: refuse appends, or trim the "
        "oldest entries.",
    )
    log_level: LogLevel = Field(LogLevel.INFO, description="Lowest level of log lines.")
    log_requests: bool = Field(
        False,
        description="Log a line for each request: method, route, status, milliseconds, principal, "
        "request id.",
    )
    loop_delay_warn_ms: int = Field(
        100, ge=10, description="Time that the event loop may be held before a warning is logged."
    )
    observe: ObservedNames = Field(
        ["*"],
        description="Streams that have metrics and a history, together with their groups. Names, "
        "or prefixes with `*`.",
    )
    observed_max: int = Field(
        200,
        ge=0,
        le=OBSERVED_MAX,
        description="Maximum number of observed streams and groups, counted together. The first "
        "ones by name are observed.",
    )
    allowed_hosts: Hosts = Field(
        [], description="Host names to accept besides the loopback names; `*` accepts any."
    )
    allowed_origins: Origins = Field(
        [],
        description="Origins whose pages may call the gateway, such as `https://app.example`; `*` "
        "allows any.",
    )
    request_ms_max: int = Field(
        30_000, ge=100, description="Time limit for a request to arrive, header and body."
    )
    keepalive_s: int = Field(
        80,
        ge=1,
        le=86_400,
        description="Time that an idle connection waits for its next request. A proxy must close "
        "idle connections earlier; common proxies do so after 60 or 75 s.",
    )
    workers: Workers = Field(
        1,
        ge=1,
        le=WORKERS_MAX,
        description="Number of processes that serve requests; `auto` is the number of cores minus "
        "one. With more than 1, the engine runs in an additional process. With 1, a single "
        "process does everything.",
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
        None, description="File of API keys. Default: `keys.json` in the data directory."
    )
    first_key: bool = Field(
        False,
        description="If there are no credentials at the first start, create an admin key, write "
        "it to `first-key` in the data directory, and print it once.",
    )
    jwt_secret: SecretStr | None = Field(
        None, description="Secret for tokens signed with HS256, HS384 or HS512."
    )
    jwt_public_key_file: Path | None = Field(
        None, description="PEM file of the public key that verifies tokens."
    )
    jwt_jwks: str | None = Field(
        None, description="File or `https://` URL of the key set (JWKS) that verifies tokens."
    )
    jwt_algorithms: Algorithms = Field(
        [],
        description="Accepted algorithms of tokens, such as `ES256`. Default: those of the keys.",
    )
    jwt_audience: str | None = Field(None, description="Required `aud` claim of tokens.")
    jwt_issuer: str | None = Field(None, description="Required `iss` claim of tokens.")
    jwt_leeway_s: int = Field(
        0,
        ge=0,
        le=300,
        description="Allowed difference between the clocks of the issuer and the gateway, in "
        "seconds.",
    )
    jwt_grants: GivenGrants = Field(
        [], description="Grants, as JSON, for tokens without the claim `headgate`."
    )
    ticket_secret: SecretStr | None = Field(
        None,
        description="Secret that signs tickets. Gateways that accept each other's tickets need "
        "the same secret. Default: a secret generated in the data directory.",
    )
    allow_anonymous: bool = Field(
        False, description="Serve requests without a credential, with the grants in `anonymous`."
    )
    anonymous: GivenGrants | None = Field(
        None,
        description="Grants, as JSON, for requests without a credential if these are allowed. "
        "Default: everything except `admin` and `push`.",
    )
    otlp_url: HttpUrl | None = Field(
        None,
        description="URL of a trace collector (OTLP over HTTP), such as `http://localhost:4318`. "
        "Requests with a sampled parent (`traceparent`) get spans.",
    )
    trace_field: str = Field(
        "",
        max_length=256,
        description="Field that carries the trace of an append in its entry, such as "
        "`traceparent`, so that deliveries link to it. Empty: no field.",
    )
    open_metrics: bool = Field(False, description="Serve `/metrics` without a credential.")
    bad_credentials_per_s_max: Limit = Field(
        BAD_PER_S_MAX,
        description="Bad credentials per second from one address (for IPv6, from its first 64 "
        "bits). Above this rate, the gateway rejects credentials from that address without "
        "checking them, except those that it knows to be good.",
    )
    requests_per_s_max: Limit | None = Field(
        None, description="Requests, frames and commands per second of one principal."
    )
    entries_per_s_max: Limit | None = Field(
        None, description="Entries per second that one principal appends and receives."
    )
    bytes_per_s_max: Limit | None = Field(
        None, description="Bytes of bodies and frames per second that one principal sends."
    )
    principal_connections_max: Limit | None = Field(
        None, description="Concurrent event streams and WebSockets of one principal."
    )
    principal_waiters_max: Limit | None = Field(
        None, description="Concurrent blocked reads of one principal."
    )
    principal_subscriptions_max: Limit | None = Field(
        None, description="Concurrent subscriptions of one principal."
    )


class NetworkChoices(BaseModel):
    """The network around the gateway: TLS, and proxies in front of it."""

    tls_cert: Path | None = Field(
        None,
        description="PEM file of the TLS certificate and its chain. It makes the gateway serve "
        "HTTPS.",
    )
    tls_key: Path | None = Field(
        None, description="PEM file of the private key of the certificate."
    )
    root_path: Annotated[str, AfterValidator(_root_path)] = Field(
        "", description="Path under which a proxy serves the gateway, such as `/streams`."
    )
    trusted_proxies: Networks = Field(
        [],
        description="Addresses or networks of proxies whose forwarding headers are trusted, such "
        "as `10.0.0.0/8`.",
    )
    push_allow: Networks = Field(
        [],
        description="Non-public networks to which webhooks may be sent, such as `10.1.0.0/16`, "
        "also over plain HTTP.",
    )
    push_deny: Networks = Field(
        [], description="Networks to which webhooks are never sent, public or not."
    )
    push_ports: Ports = Field(
        list(PUBLIC_PORTS), description="Ports of public addresses to which webhooks may be sent."
    )
    push_identity: Annotated[str, Field(pattern=r"^[ -~]{1,128}$")] | None = Field(
        None,
        description="Sender of webhooks, such as a URL. It is part of the `User-Agent` header.",
    )
    push_key_file: Path | None = Field(
        None,
        description="File of the keys that encrypt the secrets of pushes, one per line; the first "
        "key encrypts new secrets. Default: `push.key` in the data directory, created when "
        "needed. Gateways over the same servers or on the same bucket need the same keys.",
    )


class RedisChoices(BaseModel):
    """Servers that keep the streams in place of the engine in this process."""

    backend: Annotated[SecretStr, AfterValidator(_url)] | None = Field(
        None,
        description="URL of the servers that store the streams, such as `redis://10.0.0.5`, "
        "`redis+cluster://10.0.0.5,10.0.0.6` or `redis+sentinel://10.0.0.5/mymaster`. For TLS, "
        "write `rediss` in place of `redis`. Default: the engine in this process stores the "
        "streams.",
    )
    redis_durability: DurabilityLevel = Field(
        DurabilityLevel.NONE,
        description="Durability of a change when it is answered: none, on the disk of the "
        "primary, or on the disks of the primary and a replica.",
    )
    redis_prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        "headgate:",
        description="Prefix of the keys that hold the streams at the servers. The name of the "
        "stream follows it.",
    )
    redis_username: str | None = Field(
        None, description="User name for the servers, unless the URL has one."
    )
    redis_password: SecretStr | None = Field(
        None, description="Password for the servers, unless the URL has one."
    )
    redis_tls_ca: Path | None = Field(
        None, description="PEM file of the authorities that issue the servers' certificates."
    )
    redis_tls_cert: Path | None = Field(
        None, description="PEM file of the certificate that the gateway presents to the servers."
    )
    redis_tls_key: Path | None = Field(
        None, description="PEM file of the private key of that certificate."
    )
    redis_answer_ms_max: int = Field(
        5_000, ge=100, description="Timeout for an answer from a server."
    )


class DurableIn(StrEnum):
    """The place that an answer waits for."""

    DISK = "disk"
    BUCKET = "bucket"


class BucketChoices(BaseModel):
    """A bucket (object store) behind the data directory, and a second gateway on it."""

    bucket: Annotated[str, AfterValidator(_bucket)] | None = Field(
        None,
        description="URL of a bucket that stores all data: `s3://name/prefix`, "
        "`gs://name/prefix`, `az://name/prefix` or `file:///directory`. The gateway reads "
        "credentials from where the tools of the store read them (`AWS_ACCESS_KEY_ID` and so on).",
    )
    durable: DurableIn = Field(
        DurableIn.DISK,
        description="Where a change must be stored before it is answered: on the disk (see "
        "`fsync`), or also in the bucket, so that losing the machine loses nothing.",
    )
    standby: bool = Field(
        False,
        description="Run as one of several gateways on a bucket. The gateway waits until no other "
        "gateway leads, and refuses changes while it is not sure that it leads.",
    )
    standby_reads: bool = Field(
        False,
        description="Answer reads while another gateway leads. `Headgate-Behind-Ms` says how far "
        "the answers may be behind.",
    )
    standby_redirect: bool = Field(
        False,
        description="While another gateway leads, redirect requests to its `address` (status 307) "
        "instead of answering with a problem.",
    )
    address: Annotated[str, AfterValidator(_address)] = Field(
        "",
        description="URL at which clients reach this gateway. A standby names the leader's "
        "address in its problems.",
    )
    lease_ms: int = Field(
        10_000,
        ge=1_000,
        le=600_000,
        description="Time after which another gateway replaces a leader that does not renew its "
        "lease.",
    )
    ship_ms: int | None = Field(
        None,
        ge=10,
        le=60_000,
        description="Interval at which the journal is uploaded to the bucket. Default: 1000, or "
        "100 if answers wait for the bucket.",
    )
    bucket_kept_ms: int = Field(
        86_400_000,
        ge=600_000,
        description="How far back the bucket can be restored (`headgate bucket restore --at`).",
    )

    @model_validator(mode="after")
    def _has_a_bucket(self) -> Self:
        if self.bucket is None:
            for name in ("standby", "standby_reads", "standby_redirect"):
                if getattr(self, name):
                    raise ValueError(f"{name} is set, but bucket is not")
            if self.durable is DurableIn.BUCKET:
                raise ValueError("durable is bucket, but no bucket is set")
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
            other = "data_dir is :memory:" if self.backend is None else "backend is set"
            raise ValueError(f"bucket is set, but {other}: a bucket needs a data directory")
        return self

    @model_validator(mode="after")
    def _has_both_files_of_tls(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            present, missing = ("tls_cert", "tls_key")[:: 1 if self.tls_cert else -1]
            raise ValueError(f"{present} is set, but {missing} is not: TLS needs both")
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
