"""Contract: what of a later OpenAPI document would break the clients of an earlier one.

A client is broken if what it sends is refused, or if what it is sent is not what it was told: a
request may only be asked for less, an answer may only say more. Names that generated clients are
made of (operations, and schemas they import) stay. Texts, examples and additions are free.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Node = Mapping[str, Any]

_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def breaks(old: Node, new: Node) -> list[str]:
    """Return the changes in `new` that break clients of `old`, a line each with the place."""
    return list(_Comparison(old, new).all())


def schema_breaks(old: Node, new: Node, name: str, *, is_sent: bool) -> list[str]:
    """Return the changes that break clients in one schema of the documents' components.

    Args:
        old: the document that clients know.
        new: the document they meet.
        name: of the schema.
        is_sent: whether clients send it; else they are sent it.
    """
    place = {"$ref": f"#/components/schemas/{name}"}
    return list(_Comparison(old, new).schema(place, place, name, is_sent=is_sent))


class _Comparison:
    def __init__(self, old: Node, new: Node) -> None:
        self._old, self._new = old, new
        self._seen: set[tuple[str, str, bool]] = set()

    def all(self) -> Iterator[str]:
        for name in _schemas(self._old):
            if name not in _schemas(self._new):
                yield f"schema {name}: removed"
        for path, operations in self._old["paths"].items():
            for method, old in operations.items():
                place = f"{method.upper()} {path}"
                new = self._new["paths"].get(path, {}).get(method)
                if new is None:
                    yield f"{place}: operation removed"
                else:
                    yield from self._operation(old, new, place)

    def _operation(self, old: Node, new: Node, place: str) -> Iterator[str]:
        if old["operationId"] != new["operationId"]:
            yield f"{place}: operationId {old['operationId']} became {new['operationId']}"
        yield from self._parameters(old, new, place)
        yield from self._body(old.get("requestBody"), new.get("requestBody"), place)
        for status, response in old["responses"].items():
            at = f"{place} -> {status}"
            if status not in new["responses"]:
                yield f"{at}: status removed"
                continue
            answer = new["responses"][status]
            yield from self._contents(response, answer, at, is_sent=False)
            for name in response.get("headers", {}):
                if name not in answer.get("headers", {}):
                    yield f"{at} header {name}: removed"

    def _parameters(self, old: Node, new: Node, place: str) -> Iterator[str]:
        before, after = _parameters(old), _parameters(new)
        for (where, name), parameter in before.items():
            at = f"{place} {where} parameter {name}"
            if (where, name) not in after:
                yield f"{at}: removed"
                continue
            now = after[where, name]
            if now.get("required") and not parameter.get("required"):
                yield f"{at}: became required"
            yield from self.schema(parameter["schema"], now["schema"], at, is_sent=True)
        for (where, name), parameter in after.items():
            if (where, name) not in before and parameter.get("required"):
                yield f"{place} {where} parameter {name}: added as required"

    def _body(self, old: Node | None, new: Node | None, place: str) -> Iterator[str]:
        if new is None:
            if old is not None:
                yield f"{place} body: removed"
            return
        if new.get("required") and not (old or {}).get("required"):
            yield f"{place} body: became required"
        if old is not None:
            yield from self._contents(old, new, f"{place} body", is_sent=True)

    def _contents(self, old: Node, new: Node, place: str, *, is_sent: bool) -> Iterator[str]:
        for media_type, content in old.get("content", {}).items():
            at = f"{place} {media_type}"
            if media_type not in new.get("content", {}):
                yield f"{at}: media type removed"
                continue
            now = new["content"][media_type]
            yield from self.schema(
                content.get("schema", {}), now.get("schema", {}), at, is_sent=is_sent
            )

    def schema(self, old: Node, new: Node, place: str, *, is_sent: bool) -> Iterator[str]:
        """Yield the changes that break clients which send `old`, or are sent it, under `new`."""
        names = (old.get("$ref", ""), new.get("$ref", ""))
        if all(names):
            if (*names, is_sent) in self._seen:
                return
            self._seen.add((*names, is_sent))
            place = f"{place} ({names[0].rpartition('/')[2]})"
        named_old, named_new = old, new
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        if _variants(old) or _variants(new):
            known, met = _variants(old) or [named_old], _variants(new) or [named_new]
            yield from self._alternatives(known, met, place, is_sent=is_sent)
            return
        yield from _type_breaks(old, new, place, is_sent=is_sent)
        if is_sent:
            yield from _bound_breaks(old, new, place)
        yield from self._fields(old, new, place, is_sent=is_sent)
        for part in ("items", "additionalProperties"):
            before, now = old.get(part), new.get(part)
            if isinstance(before, Mapping) and isinstance(now, Mapping):
                yield from self.schema(before, now, f"{place}[]", is_sent=is_sent)
        if is_sent and new.get("additionalProperties") is False != old.get("additionalProperties"):
            yield f"{place}: further fields are refused"

    def _fields(self, old: Node, new: Node, place: str, *, is_sent: bool) -> Iterator[str]:
        before, now = old.get("properties", {}), new.get("properties", {})
        were_required, are_required = set(old.get("required", ())), set(new.get("required", ()))
        for name, field in before.items():
            at = f"{place}.{name}"
            if name not in now:
                yield f"{at}: field removed"
                continue
            if is_sent and name in are_required - were_required:
                yield f"{at}: became required"
            if not is_sent and name in were_required - are_required:
                yield f"{at}: is not always there any more"
            yield from self.schema(field, now[name], at, is_sent=is_sent)
        for name in sorted(are_required - before.keys()):
            if is_sent and name in now:
                yield f"{place}.{name}: added as required"

    def _alternatives(
        self, before: list[Node], now: list[Node], place: str, *, is_sent: bool
    ) -> Iterator[str]:
        """Each one that the narrower side has must fit one of the wider side."""
        for narrow in before if is_sent else now:
            others = now if is_sent else before
            reasons = []
            for other in others:
                pair = (narrow, other) if is_sent else (other, narrow)
                seen = set(self._seen)
                reasons.append(list(self.schema(*pair, place, is_sent=is_sent)))
                if not reasons[-1]:
                    break
                self._seen = seen
            if all(reasons):
                what = "is not taken any more" if is_sent else "may be answered now"
                alike = [each for each in reasons if not any(": type " in text for text in each)]
                yield from min(alike, key=len, default=[f"{place}: {_kind_of(narrow)} {what}"])


def _schemas(document: Node) -> Node:
    schemas: Node = document.get("components", {}).get("schemas", {})
    return schemas


def _parameters(operation: Node) -> dict[tuple[str, str], Node]:
    return {
        (parameter["in"], parameter["name"]): parameter
        for parameter in operation.get("parameters", ())
    }


def _resolved(schema: Node, document: Node) -> Node:
    while "$ref" in schema:
        schema = _schemas(document)[schema["$ref"].rpartition("/")[2]]
    return schema


def _variants(schema: Node) -> list[Node]:
    variants: list[Node] = schema.get("anyOf", schema.get("oneOf", []))
    return variants


def _types(schema: Node) -> set[str]:
    """Return the types a value may have; none: any."""
    types = schema.get("type", ())
    return {types} if isinstance(types, str) else set(types)


def _type_breaks(old: Node, new: Node, place: str, *, is_sent: bool) -> Iterator[str]:
    sent, taken = (old, new) if is_sent else (new, old)
    narrow, wide = _types(sent), _types(taken)
    fits = not wide or (narrow and narrow <= wide | ({"integer"} if "number" in wide else set()))
    if not fits:
        yield f"{place}: type {_kind_of(old)} became {_kind_of(new)}"
    elif old.get("format", new.get("format")) != new.get("format", old.get("format")):
        yield f"{place}: format {old['format']} became {new['format']}"
    choices = set(map(str, _choices(taken)))
    others = set(map(str, _choices(sent))) - choices
    if choices and (others or not _choices(sent)):
        lost = ", ".join(sorted(others)) or "any value"
        yield f"{place}: {lost} {'is not taken any more' if is_sent else 'may be answered now'}"


def _choices(schema: Node) -> list[Any]:
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def _bound_breaks(old: Node, new: Node, place: str) -> Iterator[str]:
    for bound in _LOWER_BOUNDS:
        if bound in new and (bound not in old or new[bound] > old[bound]):
            yield f"{place}: {bound} {old.get(bound, 'none')} became {new[bound]}"
    for bound in _UPPER_BOUNDS:
        if bound in new and (bound not in old or new[bound] < old[bound]):
            yield f"{place}: {bound} {old.get(bound, 'none')} became {new[bound]}"
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        yield f"{place}: pattern {old.get('pattern', 'none')} became {new['pattern']}"


def _kind_of(schema: Node) -> str:
    return " or ".join(sorted(_types(schema))) or schema.get("$ref", "anything").rpartition("/")[2]
