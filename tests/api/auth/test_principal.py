"""Every caller can read its own principal and rights."""

from pathlib import Path

from headgate.app.auth.grants import Grant, Verb
from headgate.app.settings import Settings
from tests.api.auth.secured import secured
from tests.api.conftest import running

PATH = "/v1/principal"
ENDING_MS = 4_000_000_000_000


async def test_a_key_has_its_grants_with_its_name_filled_in(tmp_path: Path) -> None:
    reading = Grant(streams=["news*", "orders"], do=[Verb.APPEND, Verb.READ], create=True)
    own = Grant(streams=["jobs"], do=[Verb.CONSUME], groups=["workers"], consumer="{sub}")
    async with secured(tmp_path) as gateway:
        key = await gateway.key(reading, own, name="bob", expires_at_ms=ENDING_MS)
        async with gateway.client(key) as http:
            who = (await http.get(PATH)).json()
        async with gateway.client(None) as http:
            nobody = await http.get(PATH)

    assert who == {
        "id": "bob",
        "anonymous": False,
        "expires_at_ms": ENDING_MS,
        "allowed": [
            {
                "streams": ["news*", "orders"],
                "do": ["read", "append"],
                "groups": None,
                "consumer": None,
                "create": True,
            },
            {
                "streams": ["jobs"],
                "do": ["consume"],
                "groups": ["workers"],
                "consumer": "bob",
                "create": False,
            },
        ],
    }
    assert nobody.status_code == 401


async def test_at_home_everybody_may_do_everything() -> None:
    async with running(Settings()) as live:
        who = (await live.http.get(PATH)).json()

    assert (who["anonymous"], who["expires_at_ms"]) == (True, None)
    [allowed] = who["allowed"]
    assert (allowed["streams"], allowed["do"]) == (["*"], [verb.value for verb in Verb])
