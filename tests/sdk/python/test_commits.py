"""Commits with the Python client: results and the acknowledgement together, or neither."""

import pytest

import headgate
from headgate.client import problems
from headgate.client.commits import append, cancel, delete_row, put_row, schedule
from tests.api.conftest import Live
from tests.sdk.python.test_streams import Losing


async def filled(hg: headgate.AsyncClient, count: int) -> list[str]:
    await hg.group("orders", "billing").create(start="0")
    return await hg.stream("orders").append_many([{"n": str(number)} for number in range(count)])


async def values(hg: headgate.AsyncClient, stream: str = "bills") -> list[object]:
    return [entry.fields["n"] async for entry in hg.stream(stream).scan()]


async def test_a_job_and_its_results_are_one_commit(hg: headgate.AsyncClient) -> None:
    ids = await filled(hg, 40)
    billing = hg.group("orders", "billing")
    async with billing.consume(credit=4) as jobs:
        for _ in ids:
            async with await anext(jobs) as job:
                [made] = await job.commit(append("bills", {"n": job.fields["n"]}))
                assert len(made) == 1
    assert await values(hg) == [str(number) for number in range(40)]
    assert (await billing.info())["pending"] == 0


async def test_a_job_that_somebody_else_has_makes_no_result(hg: headgate.AsyncClient) -> None:
    [entry_id] = await filled(hg, 1)
    billing = hg.group("orders", "billing")
    async with billing.consume() as jobs:
        job = await anext(jobs)
        await billing.claim([entry_id], consumer="ben")
        with pytest.raises(problems.NotYours) as lost:
            async with job:
                await job.commit(append("bills", {"n": "0"}))
        assert lost.value.held == [{"id": entry_id, "consumer": "ben", "deliveries": 2}]
        with pytest.raises(ValueError, match="settled"):
            await job.commit()
    assert [each["consumer"] for each in [*await billing.pending()]] == ["ben"]


async def test_a_commit_whose_answer_is_lost_is_sent_again(live: Live) -> None:
    async with headgate.AsyncClient(live.url, transport=Losing(1)) as hg:
        made = await hg.commit(append("bills", {"n": "1"}, {"n": "2"}), append("log", {"n": "3"}))
        assert [len(each) for each in made] == [2, 1]
        assert await values(hg) == ["1", "2"]


async def test_rows_and_timers_are_steps_as_well(hg: headgate.AsyncClient) -> None:
    await hg.stream("stock").create(config={"key_field": "sku"})
    table = hg.stream("stock").table()
    first = await table.put("42", {"count": "3"})
    await table.put("43", {"count": "1"})
    made = await hg.commit(
        put_row("stock", "42", {"count": "2"}, if_match=first),
        delete_row("stock", "43"),
        schedule("reorder:42", "reorders", {"sku": "42"}, at_ms=2**52),
    )
    assert [(row.key, row.id) async for row in table.rows()] == [("42", made[0][0])]
    assert [each["name"] async for each in hg.schedules()] == ["reorder:42"]
    with pytest.raises(problems.RowChanged) as changed:
        await hg.commit(cancel("reorder:42"), put_row("stock", "42", {}, if_absent=True))
    assert changed.value.row is None
    await hg.commit(cancel("reorder:42"))
    assert [each async for each in hg.schedules()] == []
