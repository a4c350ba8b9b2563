"""Settings: read once, in `cli` or by a test, and handed down as one frozen value.

Flags win over `HEADGATE_*` variables, these over the TOML file, that over the defaults here.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from headgate.app.wire.schemas.limits import Limits
from headgate.engine.journal.journal import FsyncPolicy
from headgate.engine.limits import CONSUMERS_MAX, GROUPS_MAX, PRODUCERS_MAX, STREAMS_MAX
from headgate.engine.state.memory import WhenFull

MEMORY = Path(":memory:")
"""Instead of a directory: nothing is kept."""

PREFIX = "HEADGATE_"
"""What the name of each variable begins with."""

_HOST = re.compile(r"\*|[\w.-]+|[0-9a-fA-F:.]+", re.ASCII)
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


def _origin(text: str) -> str:
    if _ORIGIN.fullmatch(text) is None:
        raise ValueError("should be an origin such as https://app.example, without a path")
    return text


Hosts = Annotated[list[Annotated[str, AfterValidator(_host)]], NoDecode, BeforeValidator(_split)]
Origins = Annotated[
    list[Annotated[str, AfterValidator(_origin)]], NoDecode, BeforeValidator(_split)
]


class LogLevel(StrEnum):
    """How much the log says."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _limit(name: str, default: int | None, *, ge: int) -> Any:
    """Return the field of a setting that `/v1/limits` tells of, in the words it has there."""
    return Field(default, ge=ge, description=Limits.model_fields[name].description)


class Settings(BaseSettings):
    """Everything an operator can choose."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    data_dir: Path = Field(
        Path("data"), description="Where the journal is kept; `:memory:` keeps nothing."
    )
    fsync: FsyncPolicy = Field(
        FsyncPolicy.ALWAYS, description="When the journal is forced to disk."
    )
    rewrite_percentage: int = Field(
        100, ge=0, description="Growth of the journal after which it is rewritten; 0 is never."
    )
    rewrite_bytes_min: int = Field(
        64 * 2**20, ge=0, description="A journal smaller than this is not rewritten by itself."
    )
    disk_bytes_max: int | None = Field(
        None, ge=2**20, description="Size of the journal from which appends are refused."
    )
    disk_free_bytes_min: int = _limit("disk_free_bytes_min", 64 * 2**20, ge=2**20)
    memory_bytes_max: int | None = Field(
        None,
        ge=2**20,
        description="Memory of the streams from which appends are refused; unless given, 70 % of "
        "what the machine or the cgroup has.",
    )
    full: WhenFull = Field(
        WhenFull.REFUSE,
        description="When memory is full: refuse appends, or trim the oldest entries.",
    )
    streams_max: int = _limit("streams_max", STREAMS_MAX, ge=1)
    groups_max: int = _limit("groups_max", GROUPS_MAX, ge=1)
    consumers_max: int = _limit("consumers_max", CONSUMERS_MAX, ge=1)
    producers_max: int = _limit("producers_max", PRODUCERS_MAX, ge=1)
    log_level: LogLevel = Field(LogLevel.INFO, description="How much the log says.")
    loop_delay_warn_ms: int = Field(
        100, ge=10, description="What holds the event loop for longer is named in a warning."
    )
    allowed_hosts: Hosts = Field(
        [], description="Host names to answer to besides the loopback ones; `*` is any."
    )
    allowed_origins: Origins = Field(
        [], description="Origins whose pages may call, such as `https://app.example`; `*` is any."
    )
    body_bytes_max: int = _limit("body_bytes_max", 16 * 2**20, ge=1024)
    batch_entries_max: int = _limit("batch_entries_max", 10_000, ge=1)
    # At least what a request asks for that does not say how much.
    read_entries_max: int = _limit("read_entries_max", 10_000, ge=100)
    staged_bytes_max: int = _limit("staged_bytes_max", 2 * 2**30, ge=1024)
    staged_ttl_ms: int = _limit("staged_ttl_ms", 3_600_000, ge=1000)
    read_bytes_max: int = _limit("read_bytes_max", 16 * 2**20, ge=1024)
    ids_max: int = _limit("ids_max", 10_000, ge=100)
    request_ms_max: int = Field(
        30_000, ge=100, description="How long a request may take to arrive, header and body."
    )
    wait_ms_max: int = _limit("wait_ms_max", 60_000, ge=0)
    waiters_max: int = _limit("waiters_max", 100_000, ge=1)
    sockets_max: int | None = Field(
        None,
        ge=16,
        description="Connections of any kind at once; if not set, what open files allow.",
    )
    arriving_bytes_max: int = _limit("arriving_bytes_max", 256 * 2**20, ge=2**20)
    unsent_bytes_max: int = _limit("unsent_bytes_max", 256 * 2**20, ge=2**20)
    connections_max: int = _limit("connections_max", 10_000, ge=1)
    subscriptions_max: int = _limit("subscriptions_max", 100, ge=1)
    connection_ms_max: int | None = Field(
        None, ge=1000, description="After so long a connection is told to come back."
    )
    frame_bytes_max: int = _limit("frame_bytes_max", 2**20, ge=1024)
    credit_max: int = _limit("credit_max", 65_536, ge=64)
    heartbeat_ms: int = _limit("heartbeat_ms", 15_000, ge=100)
    ping_interval_ms: int = _limit("ping_interval_ms", 20_000, ge=100)
    pong_wait_ms: int = _limit("pong_wait_ms", 10_000, ge=100)
    send_ms_max: int = _limit("send_ms_max", 10_000, ge=100)

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
