"""Random histories of a fair group, beside a naive one: each read brings the same, in order."""

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from headgate.app.backends.port import Backend
from headgate.engine.config import FieldName, GroupPolicy
from headgate.engine.entry import Draft
from headgate.engine.requests.deliveries import Ack, Nack, NackMode
from headgate.engine.requests.entries import Add, Delete, Trim, TrimTo
from headgate.engine.requests.groups import DescribeGroup
from tests.contract.backends import KINDS
from tests.contract.calls import G, S, entry_id, got, ids, read, ruled
from tests.contract.fair_group import FairGroup, Key, Rules

STEPS = 120
KEYS: list[Key] = ["a", "b", "c", "d", "e", None]


class History:
    """What happens to a group and to its model."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        weights = {"a": 3, "b": 2} if self.random.random() < 0.5 else {}
        bound = self.random.choice([None, 1, 2])
        self.rules = Rules(weights, bound, self.random.random() < 0.4)
        self.model = FairGroup(self.rules)
        self.last = 0
        self.waits: dict[Key, int] = {}

    @property
    def policy(self) -> GroupPolicy:
        who, bound = FieldName(b"who"), self.rules.bound
        return GroupPolicy(
            fair_field=who,
            weights=tuple((key.encode(), each) for key, each in self.rules.weights.items()),
            priority_field=FieldName(b"urgency") if self.rules.has_priorities else None,
            key_field=None if bound is None else who,
            key_pending_max=bound,
        )

    async def step(self, backend: Backend) -> None:
        steps = [self.append, self.append, self.read, self.read, self.ack, self.ack]
        rare = [self.nack, self.delete, self.trim, self.read_by_id, self.compare_lag]
        await self.random.choice(steps if self.random.random() < 0.8 else rare)(backend)

    async def append(self, backend: Backend) -> None:
        drafts = []
        for _ in range(self.random.choice([1, 1, 3, 10])):
            self.last += 1
            key, priority = self.random.choice(KEYS), self.random.choice([0, 0, 0, 5, 9])
            self.model.append(self.last, key, priority)
            fields = [] if key is None else [b"who", key.encode()]
            fields += [b"urgency", b"%d" % priority]
            drafts.append(Draft(entry_id(self.last), tuple(fields)))
        await backend.perform(Add(S, drafts))

    async def read(self, backend: Backend) -> None:
        consumer, limit = self.random.choice(["ana", "ben"]), self.random.choice([1, 1, 2, 5])
        waiting = self.model.deliverable()
        expected = self.model.read(consumer, limit)
        assert await got(backend, read(consumer.encode(), limit)) == expected
        self.check_waits(waiting, expected)

    def check_waits(self, waiting: set[Key], delivered: list[int]) -> None:
        """Check that no key waits for longer than a rotation, claims aside."""
        if self.rules.has_priorities:
            return
        served = {self.model.places[number][1] for number in delivered}
        for key in KEYS:
            waits = key in waiting and key not in served
            self.waits[key] = self.waits.get(key, 0) + len(delivered) if waits else 0
            a_rotation = sum(self.rules.weights.get(each or "", 1) for each in KEYS)
            assert self.waits[key] <= 2 * a_rotation + 5

    async def read_by_id(self, backend: Backend) -> None:
        expected = self.model.read_by_id("ben", 2)
        request = replace(read(b"ben", 2, by_policy=False), claim_released=False)
        assert await got(backend, request) == expected

    async def ack(self, backend: Backend) -> None:
        pending = sorted(self.model.pending)
        numbers = self.random.sample(pending, min(len(pending), self.random.choice([1, 3])))
        for number in numbers:
            self.model.settle(number)
        await backend.perform(Ack(S, G, ids(*numbers)))

    async def nack(self, backend: Backend) -> None:
        owned = sorted(each for each, owner in self.model.pending.items() if owner is not None)
        if owned:
            number = self.random.choice(owned)
            self.model.give_back(number)
            await backend.perform(Nack(S, G, ids(number), NackMode.FAIL))

    async def delete(self, backend: Backend) -> None:
        there = [each for each in range(1, self.last + 1) if each not in self.model.gone]
        if there:
            number = self.random.choice(there)
            self.model.delete(number)
            await backend.perform(Delete(S, ids(number)))

    async def trim(self, backend: Backend) -> None:
        first = self.random.randint(1, max(self.last // 2, 1))
        for number in range(1, first):
            if number not in self.model.gone:
                self.model.delete(number)
        await backend.perform(Trim(S, TrimTo(min_id=entry_id(first))))

    async def compare_lag(self, backend: Backend) -> None:
        info = await backend.perform(DescribeGroup(S, G))
        assert info.lag in (self.model.lag, None)
        assert info.pending_count == len(self.model.pending)


async def run(seed: int, place: Path) -> None:
    """Run a history; the backend is opened anew now and then."""
    history = History(seed)
    [kind] = [each for each in KINDS if each.name == "disk"]
    for life in range(4):
        async with kind.running(place) as backend:
            if not life:
                await ruled(backend, history.policy)
            for _ in range(STEPS // 4):
                await history.step(backend)


@pytest.mark.parametrize("seed", range(40))
async def test_a_group_is_as_fair_as_its_model(seed: int, tmp_path: Path) -> None:
    await run(seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 1_100, 100))
async def test_many_groups_are_as_fair_as_their_models(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 100):
        await run(seed, tmp_path / str(seed))
