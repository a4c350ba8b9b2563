"""Settings in the API: configurations of streams and policies of groups.

The fields of a model are generated from the settings that the engine declares.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args

import msgspec
from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic_core import from_json
from typing_extensions import TypeAliasType

from headgate.app.wire.filters import filter_text
from headgate.app.wire.names import NameText, check_name, text_of
from headgate.app.wire.schemas.entries import OnDisconnect, OnExpiry, Request
from headgate.engine import config
from headgate.engine.config import Form, Patch, Setting, settings_of

S = TypeVar("S", bound=msgspec.Struct)

_CHOICES: Mapping[tuple[str, ...], Any] = {
    get_args(config.OnDisconnect): OnDisconnect,
    get_args(config.OnExpiry): OnExpiry,
    get_args(config.Retained): TypeAliasType("Retained", config.Retained),
}
"""Choices by their words: each has a name in the API's document."""

_EXAMPLES: Mapping[Form, list[Any]] = {
    Form.NUMBERS: [[1000, 10000, 60000]],
    Form.WEIGHTS: [{"gold": 3}],
    Form.FILTERS: [[{"exact": {"kind": "sale"}}, {"not": {"prefix": {"who": "test-"}}}]],
}

_FIELD_LENGTH_MAX = 256
"""Characters of the name of a field in a policy."""

_VALUE_LENGTH_MAX = 64
"""Characters of a value that has a weight."""

_COLLECTIONS = (Form.NUMBERS, Form.FILTERS, Form.WEIGHTS)


class SettingsForm(Request, Generic[S]):
    """A configuration or a policy in the API; null is the default."""

    _kind: ClassVar[Any]  # the struct: a class variable cannot have the type `type[S]`
    _place: ClassVar[str]
    _shows_null: ClassVar[bool]

    def __init_subclass__(cls, **_: Any) -> None:
        super().__init_subclass__()

    @classmethod
    def __pydantic_init_subclass__(
        cls, of: type[S] | None = None, place: str = "/body", *, shows_null: bool = False, **_: Any
    ) -> None:
        """Generate the fields from the struct `of`."""
        if of is None:
            return
        cls._kind, cls._place, cls._shows_null = of, place, shows_null
        for name, setting in settings_of(of).items():
            cls.__pydantic_fields__[name] = FieldInfo.from_annotated_attribute(
                _type_of(setting), _field_of(setting)
            )
        cls.model_rebuild(force=True)

    def to_engine(self) -> S:
        return self.to_patch().applied_to(self._kind())

    def to_patch(self) -> Patch[S]:
        """Return the patch (RFC 7396: null removes)."""
        settings = settings_of(self._kind)
        given = self.model_dump(exclude_unset=True)
        changes = {name: self._read(settings[name], value) for name, value in given.items()}
        return Patch.of(self._kind, **changes)

    @classmethod
    def wire(cls, value: S) -> Any:
        written = {
            name: _written(setting, getattr(value, name))
            for name, setting in settings_of(cls._kind).items()
        }
        if cls._shows_null:
            return written
        return {name: value for name, value in written.items() if value is not None}

    def _read(self, setting: Setting, value: Any) -> Any:
        match setting.form:
            case Form.NUMBERS:
                return tuple(value or ())
            case Form.WEIGHTS:
                return tuple(sorted((key.encode(), each) for key, each in (value or {}).items()))
            case Form.FILTERS:
                return self._read_filters(value, f"{self._place}/{setting.name}")
            case Form.CHOICE:
                return value == setting.about.words[True]
            case Form.FLAG:
                return bool(value)
            case Form.STREAM if value is not None:
                return check_name(value, pointer=f"{self._place}/{setting.name}")
            case Form.FIELD if value is not None:
                return value.encode()
        return value

    @staticmethod
    def _read_filters(value: list[Any] | None, pointer: str) -> str | None:
        return filter_text(value or None, pointer=pointer)


def _type_of(setting: Setting) -> Any:
    about = setting.about
    number = Annotated[int, Field(ge=about.minimum, le=about.maximum, strict=True)]
    match setting.form:
        case Form.NUMBERS:
            return list[number] | None
        case Form.FILTERS:
            return list[dict[str, Any]] | None
        case Form.WEIGHTS:
            return dict[Annotated[str, Field(max_length=_VALUE_LENGTH_MAX)], number] | None
        case Form.STREAM:
            return NameText | None
        case Form.FIELD:
            return Annotated[str, Field(min_length=1, max_length=_FIELD_LENGTH_MAX)] | None
        case Form.CHOICE:
            return _CHOICES[about.words] | None
        case Form.FLAG:
            return Annotated[bool, Field(strict=True)] | None
    return number | None


def _field_of(setting: Setting) -> Any:
    return Field(
        None,
        description=setting.about.description,
        max_length=setting.about.items_max if setting.form in _COLLECTIONS else None,
        examples=_EXAMPLES.get(setting.form),
    )


def _written(setting: Setting, value: Any) -> Any:
    match setting.form:
        case Form.NUMBERS:
            return list(value) or None
        case Form.WEIGHTS:
            return {text_of(key): weight for key, weight in value} or None
        case Form.FILTERS if value is not None:
            return from_json(value)
        case Form.CHOICE:
            return setting.about.words[True] if value else None
        case Form.STREAM | Form.FIELD if value is not None:
            return text_of(value)
    return value


class StreamConfig(SettingsForm[config.StreamConfig], of=config.StreamConfig, shows_null=True):
    """Configuration of a stream: retention, idempotency keys and table. Null is the default."""


class Policy(SettingsForm[config.GroupPolicy], of=config.GroupPolicy, place="/body/policy"):
    """Rules that a group applies automatically. All parts are optional and may be null."""
