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

from headgate.app.wire.schemas.limits import ChosenLimits
from headgate.engine.journal.journal import REDIS_GROWTH, FsyncPolicy
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


class Choices(BaseSettings):
    """What an operator can choose besides the limits."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    data_dir: Path = Field(
        Path("data"), description="Where the journal is kept; `:memory:` keeps nothing."
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
    full: WhenFull = Field(
        WhenFull.REFUSE,
        description="When memory is full: refuse appends, or trim the oldest entries.",
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
    request_ms_max: int = Field(
        30_000, ge=100, description="How long a request may take to arrive, header and body."
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


class Settings(ChosenLimits, Choices):
    """Everything an operator can choose. The fields of `Choices` come first."""


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
