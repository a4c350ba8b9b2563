"""The gateway serves the clients that fit it, and they install from there."""

import asyncio
import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.api.conftest import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

VERSION = "0.1.0"
WHEEL = f"headgate-{VERSION}-py3-none-any.whl"
NPM = [f"headgate-client-{VERSION}.tgz", f"headgate-react-{VERSION}.tgz"]


async def test_they_are_listed_with_checksums_that_hold(shared: Live, console_bundle: None) -> None:
    listed = (await shared.http.get("/clients")).json()["clients"]
    names = [package["url"].rpartition("/")[2] for package in listed]
    assert names == ["client.js", *NPM, WHEEL]
    for package in listed:
        content = (await shared.http.get(package["url"])).content
        assert len(content) == package["bytes"]
        assert hashlib.sha256(content).hexdigest() == package["sha256"]
        digest = base64.b64encode(hashlib.sha384(content).digest()).decode()
        assert package["integrity"] == f"sha384-{digest}"


async def test_one_that_is_there_already_is_not_sent_again(shared: Live) -> None:
    sent = await shared.http.get(f"/clients/{WHEEL}")
    etag = sent.headers["etag"]
    again = await shared.http.get(f"/clients/{WHEEL}", headers={"If-None-Match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert (await shared.http.get("/clients/none.whl")).json()["code"] == "not_found"


async def test_pip_installs_the_wheel_and_it_knows_itself(shared: Live, tmp_path: Path) -> None:
    content = (await shared.http.get(f"/clients/{WHEEL}")).content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
    assert {"headgate/client/client.py", "headgate/app/page.css", "headgate/py.typed"} <= {*names}
    assert not [name for name in names if name.startswith("headgate/app/clients/")]
    url = f"{shared.url}/clients/{WHEEL}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    target = tmp_path / "site"
    await run([*pip, "--no-deps", "--target", str(target), url], tmp_path)
    program = "import headgate; print(headgate.__file__)"
    shown = await run([sys.executable, "-c", program], target)
    assert shown.strip() == str(target / "headgate" / "__init__.py")
    assert VERSION in await run([sys.executable, "bin/headgate", "--version"], target)


@pytest.mark.parametrize("name", NPM)
async def test_an_archive_of_npm_is_one(shared: Live, console_bundle: None, name: str) -> None:
    content = (await shared.http.get(f"/clients/{name}")).content
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        names = archive.getnames()
        described = archive.extractfile("package/package.json")
        assert described is not None
        package = json.loads(described.read())
    assert package["version"] == VERSION
    expected = {"README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"}
    assert {f"package/{each}" for each in expected} <= {*names}


async def run(command: list[str], folder: Path) -> str:
    """Run a command that must end well; returns what it printed."""
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
