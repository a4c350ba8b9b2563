"""The packages that `npm pack` makes of `clients/typescript` are of use once installed."""

import asyncio
import json
import tomllib
from pathlib import Path

import pytest

from tests.sdk.typescript import README, WORKSPACE, app_folder, packages, snippets
from tests.sdk.workshop import ROOT, output_of, tool

SIZE_BYTES_MAX = 14_200
"""Of gzip, of the client: what a page loads before anything happens."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def bin_folder() -> Path:
    return packages() / ".bin"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return app_folder(tmp_path_factory.mktemp("app"))


async def test_what_is_known_of_the_contract_is_what_the_documents_say(tmp_path: Path) -> None:
    packages()
    documents = (ROOT / "openapi" / "openapi.json", ROOT / "openapi" / "asyncapi.json")
    await output_of(tool("node"), "types.mjs", *documents, tmp_path, folder=WORKSPACE)
    for name in ("types.ts", "frames.ts"):
        committed = (WORKSPACE / "client" / "src" / "wire" / name).read_text()
        assert (tmp_path / name).read_text() == committed, "run `npm run types`"


@pytest.mark.parametrize("package", ["client", "react"])
async def test_linters_of_packages_have_nothing_to_say(bin_folder: Path, package: str) -> None:
    folder = WORKSPACE / package
    attw = ("--pack", ".", "--profile", "esm-only")  # whoever requires it gets an error from Node
    outputs = await asyncio.gather(
        output_of(bin_folder / "publint", "--strict", folder=folder),
        output_of(bin_folder / "attw", *attw, folder=folder),
    )
    assert "All good!" in outputs[0]


def test_each_package_carries_the_licence_of_all(app: Path) -> None:
    for package in ("client", "react"):
        installed = app / "node_modules" / "@headgate" / package
        assert (installed / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
        manifest = json.loads((installed / "package.json").read_text())
        assert manifest["license"] == PROJECT["license"]


def test_nothing_else_is_installed_with_them() -> None:
    client, react = (
        json.loads((WORKSPACE / package / "package.json").read_text())
        for package in ("client", "react")
    )
    assert not {"dependencies", "peerDependencies"} & client.keys()
    assert "dependencies" not in react
    assert react["peerDependencies"]["@headgate/client"] == client["version"] == react["version"]


async def test_plain_node_imports_them(app: Path) -> None:
    client, react = json.loads(await output_of(tool("node"), "plain.mjs", folder=app))
    assert {"createClient", "Problem", "RowChanged", "isProblem", "Disconnected"} <= set(client)
    assert set(react) == {
        *("HeadgateProvider", "useAppend", "useChannel", "useClient", "useGroup", "usePresence"),
        *("useStream", "useTable"),
    }


async def test_the_client_is_small(app: Path) -> None:
    size = json.loads(await output_of(tool("node"), "size.mjs", folder=app))
    assert size["first"] <= SIZE_BYTES_MAX, size
    assert size["all"] == size["files"] + 1, "events, which few need, are loaded when needed"


async def test_an_app_with_its_types_is_built(app: Path, bin_folder: Path) -> None:
    for kind in ("ts", "tsx"):
        for number, text in enumerate(snippets(README, kind)):
            (app / f"readme-{number}.{kind}").write_text(text)
    await asyncio.gather(
        output_of(bin_folder / "tsc", "--project", ".", folder=app),
        output_of(bin_folder / "vite", "build", folder=app),
    )
    [script] = (app / "dist" / "assets").glob("index-*.js")
    assert "createElement" in script.read_text()


async def test_a_page_is_rendered_on_a_server_without_a_connection(
    app: Path, bin_folder: Path
) -> None:
    built = ("build", "--ssr", "server.tsx", "--outDir", "served")
    await output_of(bin_folder / "vite", *built, folder=app)
    page = await output_of(tool("node"), "served/server.js", folder=app)
    assert 'data-state="connecting"' in page
    assert page.startswith("<main>"), "nothing was said about a connection"


async def test_the_client_of_the_examples_is_this_one(tmp_path: Path) -> None:
    packages()
    made = tmp_path / "headgate-client.js"
    await output_of(tool("node"), "example.mjs", made, folder=WORKSPACE)
    committed = ROOT / "examples" / "headgate-client.js"
    assert made.read_text() == committed.read_text(), "run `npm run example`"
