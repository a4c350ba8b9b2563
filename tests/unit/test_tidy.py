"""The rules of the project that no other tool checks. Each message says what to do instead."""

import ast
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
CODE = ["app", "clients", "console", "deploy", "engine", "pipeline"]
FILES_MAX = 16
"""Beside each other in a folder."""

ONE_FILE_EACH = ["app/cli/commands", "app/routes", "pipeline/jobs"]
"""Folders with one file for each command, noun or job: they have as many as there are."""

FUNCTION_LINES_MAX = 60
"""Of a function, without its docstring."""

NO_NOUNS = ["common", "core", "handler", "helper", "helpers", "manager", "managers", "misc"]
NO_NOUNS += ["service", "services", "tools", "util", "utils"]

EMPTY_DOCSTRINGS = ["Keep the name.", "Keep the names.", "Return the wire form."]
"""They repeat the name, which is worse than none."""

RELATIVE = {"how", "what", "where", "which", "who", "whom", "whose"}
PREPOSITIONS = {"after", "at", "by", "for", "from", "in", "into", "of", "on", "to", "up", "with"}
OF_NOUNS = {"which", "whom", "whose"}
"""They may follow the noun with which a line begins."""

VERBS = {"find", "name", "note", "return", "say", "show", "tell", "yield"}
SHORT_MAX = 14
"""Words of a sentence that says `whether` or `how many`."""

NAMED = ["app", "clients", "console", "deploy", "engine", "examples", "pipeline", "tests"]
"""Folders whose names and docstrings are checked."""

INSTEAD_OF_PART = {
    "aside": "in_thread, or the place where it goes",
    "buried": "dead_letter",
    "bury": "dead_letter",
    "hand": "what it points at, or the clock",
    "house": "housekeeping",
    "lane": "wait_queue",
    "shadow": "tombstone",
    "told": "on_claim, on_event: when it is called; or warned, reported",
    "unasked": "what is sent: heartbeat, notice",
}
"""Words that no name has in it, with what to say instead: figures of speech."""

INSTEAD_OF = {
    "found": "what was found: entry, group, match",
    "least": "minimum, or a name that ends in _min",
    "letter": "dead_letter",
    "most": "limit, or a name that ends in _max",
    "one": "what it is: entry, group, result",
    "rest": "delay, remaining or next_part",
    "said": "what said it: output, answer, problem, headers",
    "some": "what these are some of: portion, batch",
    "tell": "on_claim, on_event: when it is called; or report, warn",
}
"""Words that say nothing when they are the whole name, with what to say instead."""

NAMES_IN_JSON = {"pipeline/jobs/doctor.py": {"found"}}
"""Names that users read, so they stay."""

FORMS = ["app/live/frames/", "app/routes/events.py", "app/wire/schemas/"]
"""Models of the wire have the names of the things that they are forms of."""


class Function(NamedTuple):
    """A function: how many lines it has without its docstring."""

    name: str
    lines: int
    docstring: str


class Source(NamedTuple):
    """The definitions of a file."""

    names: list[tuple[int, str]]  # with their lines
    functions: list[Function]
    classes: list[str]
    first_lines: list[tuple[int, str]]  # of docstrings, with their lines


def paths(*folders: str) -> Iterator[str]:
    """Yield the files of ours below folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT))


def sources(*folders: str) -> Iterator[tuple[str, Source]]:
    """Yield the files of ours below folders, and what they define."""
    for path in paths(*folders):
        yield path, source_of(path)


@cache
def source_of(path: str) -> Source:
    """Read a file once for all tests: to parse all takes seconds."""
    nodes = list(ast.walk(ast.parse((ROOT / path).read_text("utf-8"))))
    return Source(
        list(names_in(nodes)),
        [
            Function(node.name, length_of(node), ast.get_docstring(node) or "")
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ],
        [node.name for node in nodes if isinstance(node, ast.ClassDef)],
        list(first_lines_in(nodes)),
    )


def folders() -> list[str]:
    """Return the folders that hold code, but for those with one file for each thing."""
    return sorted({str(Path(path).parent) for path in paths(*CODE)} - {*ONE_FILE_EACH})


def test_a_file_is_named_by_a_noun_of_the_field() -> None:
    wrong = [path for path in paths(*CODE) if Path(path).stem in NO_NOUNS]
    assert not wrong, f"{wrong}: name the file by what is in it, a noun of the field"


@pytest.mark.parametrize("folder", folders())
def test_a_folder_can_be_taken_in_at_a_glance(folder: str) -> None:
    files = [path for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"]
    text = f"{folder} has {len(files)} files: put those that are about one thing into a folder"
    assert len(files) <= FILES_MAX, text


def test_a_function_can_be_read_at_once() -> None:
    long = [
        f"{path}: {function.name} has {function.lines} lines"
        for path, source in sources(*CODE)
        for function in source.functions
        if function.lines > FUNCTION_LINES_MAX
    ]
    assert not long, f"{long}: give a step of it a name, and a function of its own"


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many lines a function has, without its docstring."""
    first, has_docstring = function.body[0], ast.get_docstring(function) is not None
    docstring = lines_of(first) if has_docstring else 0
    return lines_of(function) - docstring


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("programs", [["app", "engine"], ["clients"], ["deploy"], ["pipeline"]])
def test_a_class_has_a_name_of_its_own(programs: list[str]) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, source in sources(*programs):
        if not path.startswith(tuple(FORMS)):
            for name in source.classes:
                if not name.startswith("_"):
                    places[name].append(path)
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert not twice, f"{twice}: one name means one thing: rename one by what it is"


def test_no_docstring_repeats_a_name() -> None:
    empty = [
        f"{path}: {function.name}"
        for path, source in sources(*CODE)
        for function in source.functions
        if function.docstring in EMPTY_DOCSTRINGS
    ]
    assert not empty, f"{empty}: say what it does, or say nothing"


@pytest.mark.parametrize("folder", NAMED)
def test_a_docstring_says_a_thing_by_its_noun(folder: str) -> None:
    riddles = [
        f"{path}:{line}: {first}: {fault}"
        for path, source in sources(folder)
        for line, first in source.first_lines
        if (fault := riddle_in(first))
    ]
    assert not riddles, "\n".join(riddles)


def first_lines_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the first lines of the docstrings of a file, those of constants too, with a line."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if docstring := ast.get_docstring(node):
                yield getattr(node, "lineno", 1), docstring.splitlines()[0]
            for pair in itertools.pairwise(node.body):
                match pair:
                    case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(docstring))):
                        yield pair[0].lineno, docstring.splitlines()[0]


def riddle_in(first: str) -> str | None:
    """Return the fault of a docstring's first line; None: it says a thing by its noun."""
    words = re.findall(r"`[^`]*`|[\w'-]+[,:]?", first.lower())
    if sum(word.strip(",:") in RELATIVE for word in words) > 1:
        return "one relative clause is enough"
    if words[0] in RELATIVE:
        return "begin with a noun or a verb"
    behind = list(itertools.dropwhile(PREPOSITIONS.__contains__, words[1:]))
    if behind[:1] == ["whether"] or behind[:2] in (["how", "many"], ["how", "much"]):
        sentence = re.split(r"[.;:] ", first)[0]
        return "say it in fewer words" if len(sentence.split()) > SHORT_MAX else None
    objects = RELATIVE if words[0] in VERBS else RELATIVE - OF_NOUNS
    is_noun = words[0][-1] in ",:"
    return "say the noun behind the verb" if not is_noun and {*behind[:1]} & objects else None


@pytest.mark.parametrize("folder", NAMED)
def test_a_name_says_what_a_thing_is(folder: str) -> None:
    wrong = [
        f"{path}:{line}: {name}: say {instead}"
        for path, source in sources(folder)
        for line, name in source.names
        if (instead := instead_of(name)) and name not in NAMES_IN_JSON.get(path, ())
    ]
    assert not wrong, "\n".join(wrong)


def names_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the names that a file defines, with their lines; those of tests are sentences."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) if name.startswith("test_"):
                continue
            case ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                continue
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield node.lineno, name
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)):
                yield node.lineno, name


@cache
def instead_of(name: str) -> str | None:
    """Return the advice about a name; None if it is well."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    if len(words) == 1 and (instead := _plural(words[0], INSTEAD_OF)):
        return instead
    return next(filter(None, (_plural(word, INSTEAD_OF_PART) for word in words)), None)


def _plural(word: str, instead: Mapping[str, str]) -> str | None:
    return instead.get(word) or instead.get(word.removesuffix("s"))
