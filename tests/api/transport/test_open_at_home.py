"""Without credentials a gateway serves this machine only."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

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


def serve(*words: str) -> Result:
    alone = {"HEADGATE_TEST_BACKEND": None}  # the command would warn of it
    return CliRunner(env=alone).invoke(main, ["serve", "--port", "0", *words])


@pytest.mark.parametrize("host", [ABROAD, "::"])
def test_a_host_that_others_reach_is_refused(host: str, tmp_path: Path) -> None:
    ended = serve("--host", host, "--data-dir", str(tmp_path / "data"))

    assert (ended.exit_code, ended.stdout) == (1, "")
    failure = failure_of(ended.stderr)
    assert failure.startswith(f"Other machines reach {host}, ")
    assert "headgate keys add me --grant '{" in failure
    assert f"--data-dir {tmp_path}/data\n" in failure
    assert "--allow-anonymous" in failure
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_this_machine_is_served(host: str) -> None:
    gateway = await Gateway.start(MEMORY, {"host": host})
    await gateway.stop()

    assert not any("anonymous" in line for line in gateway.log_lines)


async def test_a_first_key_opens_it_to_others(tmp_path: Path) -> None:
    settings = {"host": ABROAD, "first_key": "true"}
    first = await Gateway.start(tmp_path, settings)
    await first.stop()
    again = await Gateway.start(tmp_path, settings)
    await again.stop()

    key = (tmp_path / "first-key").read_text().strip()
    assert key.startswith("hg_")
    assert sum(key in line for line in first.log_lines) == 1
    assert sum("unencrypted" in line for line in first.log_lines) == 1
    assert not any(key in line for line in again.log_lines)


@pytest.mark.parametrize(("host", "expects_it"), [(ABROAD, True), ("127.0.0.1", False)])
async def test_browsers_are_told_to_stay_with_tls_unless_this_machine_alone_is_served(
    host: str, expects_it: bool, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    settings = authority.settings(host=host, data_dir=MEMORY, allow_anonymous=True)
    async with running(settings, trust=authority.trust) as live:
        for path in ("/healthz", "/v1/streams", "/nowhere"):
            answer = await live.http.get(path)
            assert ("strict-transport-security" in answer.headers) == expects_it


async def test_the_operator_may_let_everybody_in_and_the_log_warns_once() -> None:
    gateway = await Gateway.start(MEMORY, {"host": ABROAD, "allow_anonymous": "true"})
    await gateway.stop()

    [line] = [line for line in gateway.log_lines if "allow_anonymous" in line]
    assert '"WARNING"' in line


async def test_a_server_of_a_program_is_no_way_around() -> None:
    settings = Settings(data_dir=MEMORY, host=ABROAD, port=0)
    app = await asyncio.to_thread(create_app, settings)

    with pytest.raises(Exposed):
        await Server(app, settings).serve()


async def test_a_server_of_a_program_serves_this_machine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = Settings(data_dir=MEMORY, port=0)
    app = await asyncio.to_thread(create_app, settings)
    server = Server(app, settings)
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    server.should_exit = True
    await serving

    assert complaints(caplog) == []
