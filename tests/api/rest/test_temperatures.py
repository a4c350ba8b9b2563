"""The main job on real input: three transports, one cut off, every reading acknowledged once."""

import pytest

from examples import temperatures
from tests.api.conftest import Live


@pytest.mark.parametrize("victim", temperatures.CONSUMERS)
async def test_every_reading_is_settled_once_though_one_is_cut_off(live: Live, victim: str) -> None:
    job = await temperatures.run(live.url, victim=victim, claim_idle_ms=500)

    assert len(job.readings) == len(job.ids) == 8759
    assert sorted(job.acked) == sorted(job.ids)
    assert set(job.acked.values()) == {1}
    assert all(job.acked_by[consumer] > 0 for consumer in temperatures.CONSUMERS)
    assert job.stranded
    assert job.stranded <= job.rescued
    url = f"/v1/streams/{temperatures.STREAM}/entries?limit=10000"
    entries = (await live.http.get(url)).json()["entries"]
    assert [(entry["id"], entry["fields"]) for entry in entries] == list(
        zip(job.ids, job.readings, strict=True)
    )
    group = await live.group(temperatures.STREAM, temperatures.GROUP)
    assert (group["pending"], group["lag"]) == (0, 0)
    await live.until_waiting(0)
