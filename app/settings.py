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
    disk_free_bytes_min: int = Field(
        64 * 2**20, ge=2**20, description="Free bytes of the disk below which appends are refused."
    )
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
    streams_max: int = Field(STREAMS_MAX, ge=1, description="Streams.")
    groups_max: int = Field(GROUPS_MAX, ge=1, description="Groups of one stream.")
    consumers_max: int = Field(CONSUMERS_MAX, ge=1, description="Consumers of one group.")
    producers_max: int = Field(
        PRODUCERS_MAX, ge=1, description="Producers of one stream whose keys are remembered."
    )
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
    body_bytes_max: int = Field(16 * 2**20, ge=1024, description="Largest request body.")
    batch_entries_max: int = Field(10_000, ge=1, description="Entries in one batch.")
    # At least what a request asks for that does not say how much.
    read_entries_max: int = Field(10_000, ge=100, description="Entries in one JSON answer.")
    staged_bytes_max: int = Field(
        2 * 2**30, ge=1024, description="Chunks of batches that are not committed yet."
    )
    staged_ttl_ms: int = Field(
        3_600_000, ge=1000, description="A batch that gets no chunk for so long is forgotten."
    )
    read_bytes_max: int = Field(
        16 * 2**20, ge=1024, description="Names and values in one answer or page, about."
    )
    ids_max: int = Field(10_000, ge=100, description="Ids in one ack, nack, claim or delete.")
    request_ms_max: int = Field(
        30_000, ge=100, description="How long a request may take to arrive, header and body."
    )
    wait_ms_max: int = Field(60_000, ge=0, description="Longest wait of a long poll.")
    waiters_max: int = Field(100_000, ge=1, description="Reads blocked at once.")
    sockets_max: int | None = Field(
        None,
        ge=16,
        description="Connections of any kind at once; if not set, what open files allow.",
    )
    arriving_bytes_max: int = Field(
        256 * 2**20, ge=2**20, description="Request bodies that arrive at once, together."
    )
    unsent_bytes_max: int = Field(
        256 * 2**20, ge=2**20, description="What clients have not taken of answers, together."
    )
    connections_max: int = Field(10_000, ge=1, description="Event streams and WebSockets at once.")
    subscriptions_max: int = Field(100, ge=1, description="Subscriptions of one WebSocket.")
    connection_ms_max: int | None = Field(
        None, ge=1000, description="After so long a connection is told to come back."
    )
    frame_bytes_max: int = Field(2**20, ge=1024, description="Largest WebSocket frame.")
    credit_max: int = Field(65_536, ge=64, description="Most credit a subscription may hold.")
    heartbeat_ms: int = Field(15_000, ge=100, description="Silence on an event stream at most.")
    ping_interval_ms: int = Field(20_000, ge=100, description="How often a WebSocket is pinged.")
    pong_wait_ms: int = Field(10_000, ge=100, description="How long its answer may take.")
    send_ms_max: int = Field(10_000, ge=100, description="How long a slow socket may block.")

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
