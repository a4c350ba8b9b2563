"""Pages of the gateway, the first one, and the clients that it serves."""

import asyncio
import base64
import hashlib
import html
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import urljoin

import pytest
from pydantic import SecretStr
from starlette.routing import Route

from headgate.app.main import create_app
from headgate.app.settings import MEMORY, Settings
from tests.api.conftest import Live, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

APP = Path(__file__).parents[3] / "app"
LINK = '<link rel="stylesheet" href="'


async def test_each_page_has_the_stylesheet_of_all(shared: Live) -> None:
    for path in ("/", "/guide", "/guide/work", "/problems", "/problems/draining"):
        page = await shared.http.get(path, headers={"Accept": "text/html"})
        href = page.text.partition(LINK)[2].partition('"')[0]
        stylesheet = await shared.http.get(urljoin(str(page.url), href))
        assert stylesheet.headers["content-type"].startswith("text/css"), path
        assert stylesheet.headers["x-content-type-options"] == "nosniff"
        assert stylesheet.text == (APP / "page.css").read_text("utf-8")
        assert " style-src 'self' 'sha256-" in page.headers["content-security-policy"]


async def test_each_page_says_what_it_may_load(shared: Live) -> None:
    app = await asyncio.to_thread(create_app, Settings(data_dir=MEMORY))
    routes = [route for route in app.routes if isinstance(route, Route)]
    names = {"task": "work", "code": "draining", "path": "streams"}
    paths = {re.sub(r"{(\w+)[^}]*}", lambda name: names.get(name[1], "x"), r.path) for r in routes}
    pages = set()
    for path in sorted(paths | {"/nothing", "/static-offline-docs/", "/docs/oauth2-redirect"}):
        async with shared.http.stream("GET", path, headers={"Accept": "text/html"}) as page:
            is_page = "html" in page.headers.get("content-type", "")
            if is_page:
                pages.add(path)
                policy = page.headers["content-security-policy"]
                assert policy.startswith("default-src 'none'; script-src "), path
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert page.headers["referrer-policy"] == "no-referrer"
                assert page.headers["x-content-type-options"] == "nosniff"
    assert pages - {"/console", "/console/streams"} == {
        *("/", "/docs", "/guide", "/guide/work", "/problems", "/problems/draining")
    }


HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def test_who_is_no_browser_is_told_what_to_do(console_bundle: None, shared: Live) -> None:
    for accept in ("*/*", "text/plain", "application/json", ""):
        answer = await shared.http.get("/", headers={"accept": accept})
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["vary"] == "Accept"
        assert f"curl {shared.url}/v1/streams/orders/entries " in answer.text
    lines = (await shared.http.get("/")).text.splitlines()
    pages = [line.split()[0] for line in lines if line.startswith("  http")]
    assert [page.removeprefix(shared.url) for page in pages] == [
        "/console", "/guide", "/docs", "/openapi.json", "/asyncapi.json", "/problems", "/metrics",
    ]  # fmt: skip
    for page in (*pages, "/guide/append", "/clients", "/problems/memory_full"):
        assert (await shared.http.get(page)).status_code == 200
        head = await shared.http.head(page)
        assert (head.status_code, head.content) == (200, b""), page


async def test_a_page_runs_its_own_script_and_no_other(shared: Live) -> None:
    answer = await shared.http.get("/", headers=HTML)
    head = await shared.http.head("/", headers=HTML)

    assert (head.status_code, head.content) == (200, b"")
    for headers in (answer.headers, head.headers):
        assert headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    for word in ("unsafe", "http"):
        assert word not in policy
    page = answer.text.replace("http://www.w3.org/2000/svg", "")
    page = page.replace("http://localhost:8080", "")
    for text in ("http://", "https://"):
        assert text not in page, "it needs no internet"


@pytest.mark.parametrize(
    ("trusted", "scheme"), [(["127.0.0.0/8"], "https"), ([], "http"), (["10.0.0.1"], "http")]
)
async def test_behind_a_proxy_it_is_as_that_was_asked(trusted: list[str], scheme: str) -> None:
    headers = {"host": "gate.localhost", "x-forwarded-proto": "https"}
    async with running(Settings(trusted_proxies=trusted)) as live:
        answer = await live.http.get("/", headers=headers)

    assert f"curl {scheme}://gate.localhost/v1/streams/orders/entries " in answer.text


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
async def test_where_a_key_is_needed_the_commands_have_it(accept: str) -> None:
    settings = Settings(jwt_secret=SecretStr("a secret of the issuer and the gateway"))
    async with running(settings) as live:
        answer = await live.http.get("/", headers={"accept": accept})

    text = html.unescape(answer.text)
    assert text.count("curl ") == text.count('curl -H "Authorization: Bearer $HEADGATE_TOKEN" ')
    assert "read -rs HEADGATE_TOKEN; export HEADGATE_TOKEN" in text


VERSION = "0.1.0"
WHEEL = f"headgate-{VERSION}-py3-none-any.whl"
NPM = [f"headgate-client-{VERSION}.tgz", f"headgate-react-{VERSION}.tgz"]


async def test_they_are_listed_with_checksums_that_hold(shared: Live, console_bundle: None) -> None:
    listed = (await shared.http.get("/clients")).json()["clients"]
    assert [package["url"].rpartition("/")[2] for package in listed] == ["client.js", *NPM, WHEEL]
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
    await output_of([*pip, "--no-deps", "--target", str(target), url], tmp_path)
    program = "import headgate; print(headgate.__file__)"
    shown = await output_of([sys.executable, "-c", program], target)
    assert shown.strip() == str(target / "headgate" / "__init__.py")
    assert VERSION in await output_of([sys.executable, "bin/headgate", "--version"], target)


async def output_of(command: list[str], folder: Path) -> str:
    """Run a command that must end well; returns what it printed."""
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
