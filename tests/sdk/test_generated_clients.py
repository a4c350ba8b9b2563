"""Clients generated from the served document do the main job against a live gateway."""

import json
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.key_files import EVERYTHING, Keys
from tests.processes.gateway import ROOT
from tests.sdk.workshop import FOLDER, node_modules, npm_tool, output_of, tool

SESSIONS = FOLDER / "sessions"
GENERATORS = ROOT / "openapi" / "generators"

# What openapi-generator says of every document like ours.
_SAID_ALWAYS = (
    "OpenAPI 3.1 support is still in beta",
    "Failed to get the schema name: null",  # of `additionalProperties: false`
    "Ignoring complex example on request body",
)


@pytest.fixture
async def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Live]:
    """A gateway that asks for a key, which the sessions have of HEADGATE_TOKEN."""
    key = Keys(tmp_path / "keys.json").add(EVERYTHING)
    monkeypatch.setenv("HEADGATE_TOKEN", key)
    async with running(Settings(keys_file=tmp_path / "keys.json")) as gateway:
        gateway.http.headers["Authorization"] = f"Bearer {key}"
        yield gateway


@pytest.fixture
async def document(live: Live, tmp_path: Path) -> Path:
    """Return a file with the document as the gateway serves it."""
    file = tmp_path / "openapi.json"
    file.write_text((await live.http.get("/openapi.json")).text)
    return file


async def check(live: Live, output: str) -> None:
    """Check the output of a session, and the state of the gateway."""
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    first, second, third = result["ids"]

    assert result == {
        "ids": [first, second, third],
        "lag": 3,
        "read": [[first, "one"], [second, "two"]],
        "outcomes": ["acked"],
        "pending": [[second, "me"]],
        "problem": "group_not_found",
        "refused": "unauthenticated",
    }
    entries = (await live.http.get("/v1/streams/talk/entries")).json()["entries"]
    assert [entry["id"] for entry in entries] == [first, second, third]
    group = await live.group("talk", "readers")
    assert (group["pending"], group["lag"]) == (1, 1)


async def generate(document: Path, language: str) -> Path:
    """Make a client with openapi-generator; returns its folder."""
    folder = document.parent / language
    words: list[str | Path] = ["generate", "-i", document, "-o", folder]
    words += ["-c", GENERATORS / f"{language}.yaml"]
    output = await output_of(tool("openapi-generator-cli"), *words, folder=document.parent)
    complaints = [
        line
        for line in output.splitlines()
        if re.search(r"\b(WARN|ERROR)\b", line) and not any(text in line for text in _SAID_ALWAYS)
    ]
    assert not complaints, "\n".join(complaints)
    return folder


async def test_python_with_openapi_python_client(live: Live, document: Path) -> None:
    client = document.parent / "client"
    output = await output_of(
        tool("openapi-python-client"),
        *("generate", "--path", document, "--output-path", client),
        *("--config", GENERATORS / "openapi-python-client.yaml", "--fail-on-warning"),
        folder=document.parent,
    )
    assert "arning" not in output, output

    session = SESSIONS / "openapi_python_client.py"
    path = {"PYTHONPATH": str(client)}
    output = await output_of(sys.executable, session, live.url, folder=client, variables=path)
    await check(live, output)


async def test_python_with_openapi_generator(live: Live, document: Path) -> None:
    client = await generate(document, "python")

    session = SESSIONS / "openapi_generator.py"
    path = {"PYTHONPATH": str(client)}
    output = await output_of(sys.executable, session, live.url, folder=client, variables=path)
    await check(live, output)


@pytest.fixture
def typescript(tmp_path: Path) -> Path:
    """Return a folder for strict TypeScript that imports npm packages."""
    folder = tmp_path / "typescript"
    folder.mkdir()
    (folder / "node_modules").symlink_to(node_modules())
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(SESSIONS / "tsconfig.json", folder)
    return folder


async def test_typescript_with_openapi_typescript_and_openapi_fetch(
    live: Live, document: Path, typescript: Path
) -> None:
    output = await output_of(
        npm_tool("openapi-typescript"),
        *(document, "-o", "schema.ts", "--default-non-nullable=false"),
        folder=typescript,
    )
    assert "warn" not in output.lower(), output

    shutil.copy(SESSIONS / "openapi-fetch.ts", typescript / "session.ts")
    await output_of(npm_tool("tsc"), "--project", ".", folder=typescript)
    await check(live, await output_of("node", "out/session.js", live.url, folder=typescript))


@pytest.mark.long
async def test_typescript_with_hey_api(live: Live, document: Path, typescript: Path) -> None:
    shutil.copy(GENERATORS / "openapi-ts.config.mjs", typescript)
    output = await output_of(npm_tool("openapi-ts"), "-i", document, folder=typescript)
    assert "warn" not in output.lower(), output

    shutil.copy(SESSIONS / "hey-api.ts", typescript / "session.ts")
    await output_of(npm_tool("tsc"), "--project", ".", folder=typescript)
    await check(live, await output_of("node", "out/session.js", live.url, folder=typescript))


@pytest.mark.long
async def test_java_with_openapi_generator(live: Live, document: Path) -> None:
    javac = tool("javac")
    client = await generate(document, "java")
    sources = [*(client / "src" / "main" / "java").rglob("*.java")]
    sources += (SESSIONS / "java").rglob("*.java")
    (client / "sources").write_text("\n".join(map(str, sources)))
    jackson = await jar_of_openapi_generator(client)
    await output_of(
        *(
            javac,
            "-encoding",
            "UTF-8",
            "-nowarn",
            "--release",
            "17",
            "-cp",
            jackson,
            "-d",
            "out",
            "@sources",
        ),
        folder=client,
    )
    output = await output_of(
        tool("java"), "-cp", f"out:{jackson}", "Session", live.url, folder=client
    )
    await check(live, output)


async def jar_of_openapi_generator(folder: Path) -> str:
    """Return the generator's own jar: it has the Jackson that its clients need, too."""
    text = "import importlib.resources as r; print(r.files('openapi_generator_cli'))"
    home = await output_of(sys.executable, "-c", text, folder=folder)
    return f"{home.strip()}/openapi-generator.jar"


@pytest.mark.long
async def test_go_with_openapi_generator(live: Live, document: Path) -> None:
    go = tool("go")
    client = await generate(document, "go")
    shutil.rmtree(client / "test", ignore_errors=True)  # needs a library
    (client / "go.mod").write_text("module headgate\n\ngo 1.18\n")
    shutil.copytree(SESSIONS / "go", client / "session")
    alone = {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    await output_of(go, "vet", "./...", folder=client, variables=alone)
    await output_of(go, "build", "-o", "run", "./session", folder=client, variables=alone)
    await check(live, await output_of(client / "run", live.url, folder=client))


def test_the_page_names_the_versions_that_are_tried() -> None:
    page = (ROOT / "openapi" / "README.md").read_text("utf-8")
    named = dict(re.findall(r"^\| `([^`]+)` \| ([0-9.]+) \|", page, re.MULTILINE))
    pins = (ROOT / "requirements-dev.txt").read_text("utf-8")
    packages = json.loads((FOLDER / "npm" / "package-lock.json").read_text("utf-8"))["packages"]
    tried = dict(re.findall(r"^(openapi-[a-z-]+)==([0-9.]+)$", pins, re.MULTILINE))
    tried |= {
        name: packages[f"node_modules/{name}"]["version"] for name in named if name not in tried
    }
    assert named == {name: tried[name] for name in named}
    assert len(named) == 5
