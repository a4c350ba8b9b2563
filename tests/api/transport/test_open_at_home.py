"""Without credentials a gateway serves this machine only."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.app.auth.exposure import Exposed
from headgate.app.cli import main
from headgate.app.main import create_app
from headgate.app.server import Server
from headgate.app.settings import MEMORY, Settings
from tests.api.conftest import running
from tests.api.transport.certificates import Authority
from tests.complaints import complaints
from tests.conditions import until
from tests.processes.gateway import Gateway, failure_of

ABROAD = "0.0.0.0"


@pytest.mark.parametrize("host", [ABROAD, "::"])
def test_a_host_that_others_reach_is_refused(host: str, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    alone = CliRunner(env={"HEADGATE_TEST_BACKEND": None})  # the command would warn of it
    ended = alone.invoke(
        main, ["serve", "--port", "0", "--host", host, "--data-dir", f"{data_dir}"]
    )

    assert (ended.exit_code, ended.stdout) == (1, "")
    failure = failure_of(ended.stderr)
    assert failure.startswith(f"Other machines reach {host}, ")
    for way_on in ("headgate keys add me --grant '{", f"--data-dir {data_dir}\n", "--allow-anon"):
        assert way_on in failure
    assert not data_dir.exists()


async def test_a_first_key_opens_it_to_others(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, {"host": ABROAD, "first_key": "true"})
    await gateway.stop()

    key = (tmp_path / "first-key").read_text().strip()
    assert key.startswith("hg_")
    for text in (key, "unencrypted"):
        assert sum(text in line for line in gateway.log_lines) == 1


@pytest.mark.parametrize("host", [ABROAD, "127.0.0.1"])
async def test_browsers_stay_with_tls_unless_it_is_local(host: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = authority.settings(host=host, data_dir=MEMORY, allow_anonymous=True)
    async with running(settings, trust=authority.trust) as live:
        for path in ("/healthz", "/v1/streams", "/nowhere"):
            answer = await live.http.get(path)
            assert ("strict-transport-security" in answer.headers) == (host == ABROAD)


async def test_a_server_of_a_program_is_no_way_around() -> None:
    settings = Settings(data_dir=MEMORY, host=ABROAD, port=0)
    app = await asyncio.to_thread(create_app, settings)

    with pytest.raises(Exposed):
        await Server(app, settings).serve()


@pytest.mark.parametrize("host", [ABROAD, "127.0.0.1"])
async def test_everybody_may_be_let_in_with_a_warning(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    is_open = host == ABROAD
    settings = Settings(data_dir=MEMORY, host=host, port=0, allow_anonymous=is_open)
    app = await asyncio.to_thread(create_app, settings)
    server = Server(app, settings)
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    server.should_exit = True
    await serving

    assert ["allow_anonymous" in line for line in complaints(caplog)] == [True] * is_open
