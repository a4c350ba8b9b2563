"""Workers are scaled by what their group has to process: the recipe in `deploy/kubernetes/keda`."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from headgate.app.auth.grants import Grant
from tests.conditions import WITHIN_S, eventually
from tests.deploy.keda import GOCODE, Keda, NoMetric, build_gjson, found_by
from tests.deploy.test_manifests import DEPLOY, KUBERNETES
from tests.deploy.yaml_files import document_of
from tests.key_files import EVERYTHING, Keys
from tests.processes.gateway import HEADGATE, ROOT, GatewayProcess

FOLDER = KUBERNETES / "keda"
STREAM, GROUP = "/v1/streams/orders", "/v1/streams/orders/groups/billing"
ONE = {"fields": {"sku": "42"}}

HTTP, REDIS = "scaledobject.yaml", "redis-scaledobject.yaml"
BOTH = pytest.mark.parametrize("name", [HTTP, REDIS])


def grants_of(principal: str) -> list[list[Grant]]:
    """Return the grants that the page gives a principal, for each command that adds it."""
    section = (DEPLOY / "README.md").read_text().partition("### Autoscale workers with KEDA\n")[2]
    text = section.partition("\n### ")[0]
    commands = re.findall(rf"headgate keys add {principal}((?: --grant '[^']+')+)", text)
    return [
        [Grant.model_validate_json(grant) for grant in re.findall(r"'([^']+)'", command)]
        for command in commands
    ]


@pytest.fixture(scope="module")
def gjson(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (GOCODE / "src/github.com/tidwall/gjson").is_dir():
        assert not os.environ.get("CI"), "golang-github-tidwall-gjson-dev is missing"
        pytest.skip("golang-github-tidwall-gjson-dev is missing")
    return build_gjson(tmp_path_factory.mktemp("gjson"))


class Cluster(NamedTuple):
    """A gateway, who asks it, and the clients of its stream."""

    gateway: GatewayProcess
    keda: Keda
    worker: str  # a key
    admin: httpx.Client

    def append(self, count: int) -> list[str]:
        answer = self.admin.post(f"{STREAM}/entries/batch", json=[ONE] * count)
        return list(answer.raise_for_status().json()["ids"])

    def read(self, limit: int) -> list[str]:
        answer = self.admin.post(f"{GROUP}/read?consumer=one", json={"limit": limit})
        return [entry["id"] for entry in answer.raise_for_status().json()["entries"]]

    def ack(self, ids: list[str]) -> None:
        self.admin.post(f"{GROUP}/ack", json={"ids": ids}).raise_for_status()

    def lag(self) -> Any:
        return self.admin.get(GROUP).raise_for_status().json()["lag"]


@pytest.fixture(scope="module")
def clusters(gjson: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cluster]]:
    """Run a gateway with the keys of the page, for each ScaledObject that asks it."""
    keys = Keys(tmp_path_factory.mktemp("keys") / "keys.json")
    over_http, over_redis = grants_of("keda")
    [grants] = grants_of("worker")
    asking = {HTTP: keys.add(*over_http), REDIS: keys.add(*over_redis)}
    worker, everything = keys.add(*grants), keys.add(EVERYTHING)
    gateway = GatewayProcess.started(":memory:", {"keys_file": keys.path, "redis_port": 0})
    headers = {"Authorization": f"Bearer {everything}"}
    with httpx.Client(base_url=gateway.url, headers=headers) as admin:
        asked = {
            name: Keda(FOLDER, gateway, gjson, {("headgate-keda", "token"): key})
            for name, key in asking.items()
        }
        yield {name: Cluster(gateway, keda, worker, admin) for name, keda in asked.items()}
    gateway.terminate()


@pytest.fixture
def cluster(name: str, clusters: dict[str, Cluster]) -> Iterator[Cluster]:
    """Return a cluster in which the stream is not there yet."""
    yield clusters[name]
    clusters[name].admin.delete(STREAM).raise_for_status()


def create_group(cluster: Cluster) -> None:
    cluster.admin.put(GROUP, json={"start": "0", "create_stream": True}).raise_for_status()


@BOTH
def test_entries_count_until_they_are_acknowledged(cluster: Cluster, name: str) -> None:
    keda = cluster.keda
    create_group(cluster)
    assert (keda.value(name), keda.replicas(name)) == (0, 0)

    cluster.append(3)
    assert (keda.value(name), keda.replicas(name)) == (3, 1)
    read = cluster.read(2)
    assert keda.value(name) == 3
    cluster.ack(read)
    assert keda.value(name) == 1

    cluster.append(250)
    assert (keda.value(name), keda.replicas(name)) == (251, 3)
    cluster.append(1000)
    assert (keda.value(name), keda.replicas(name)) == (1251, 10)

    cluster.ack(cluster.read(2000))
    assert (keda.value(name), keda.replicas(name)) == (0, 0)


@BOTH
def test_a_worker_starts_where_a_delete_has_hidden_the_lag(cluster: Cluster, name: str) -> None:
    keda = cluster.keda
    create_group(cluster)
    ids = cluster.append(4)
    cluster.ack(cluster.read(1))
    cluster.admin.delete(f"{STREAM}/entries/{ids[2]}").raise_for_status()
    assert cluster.lag() is None
    assert (keda.value(name), keda.replicas(name)) == (1, 1)

    assert cluster.read(10) == [ids[1], ids[3]]  # what this worker does
    assert keda.value(name) == 2
    cluster.ack([ids[1], ids[3]])
    assert (keda.value(name), keda.replicas(name)) == (0, 0)


@BOTH
def test_nothing_is_scaled_without_the_group(cluster: Cluster, name: str) -> None:
    with pytest.raises(NoMetric, match=r"404|NOGROUP"):
        cluster.keda.value(name)
    cluster.append(1)
    with pytest.raises(NoMetric, match=r"404|NOGROUP"):
        cluster.keda.value(name)


@pytest.mark.parametrize("name", [HTTP])
def test_the_key_for_http_shows_no_entries(cluster: Cluster, name: str) -> None:
    create_group(cluster)
    cluster.append(1)
    assert cluster.keda.value(name) == 1
    [key] = cluster.keda.secrets.values()
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=cluster.gateway.url, headers=headers) as client:
        for path in (STREAM, f"{STREAM}/entries", f"{STREAM}/groups", f"{GROUP}/pending"):
            assert client.get(path).status_code == httpx.codes.FORBIDDEN
        read = client.post(f"{GROUP}/read?consumer=keda")
        assert read.status_code == httpx.codes.FORBIDDEN


@pytest.mark.parametrize("name", [HTTP])
async def test_the_worker_processes_the_entries(cluster: Cluster, name: str) -> None:
    create_group(cluster)
    cluster.append(5)
    [container] = document_of(FOLDER / "worker.yaml")["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "HEADGATE_URL", "value": "http://headgate"}]
    variables = {"HEADGATE_URL": cluster.gateway.url, "HEADGATE_TOKEN": cluster.worker}

    async def value() -> float:
        return cluster.keda.value(name)

    worker = await asyncio.create_subprocess_exec(
        *HEADGATE,
        *container["args"],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
    )
    try:
        await eventually(value, lambda value: value == 0)
        worker.terminate()  # the last one is removed
        async with asyncio.timeout(WITHIN_S):
            output, _ = await worker.communicate()
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
    assert worker.returncode == 0
    assert output.decode().splitlines() == ['{"sku": "42"}'] * 5


@pytest.mark.parametrize(("lag", "value"), [("0", 0), ("7", 7), ("null", 1)])
def test_an_unknown_lag_counts_as_one_entry(gjson: Path, lag: str, value: float) -> None:
    spec = document_of(FOLDER / HTTP)["spec"]
    [path] = [one["metadata"]["valueLocation"] for one in spec["triggers"] if one["name"] == "lag"]
    assert found_by(gjson, f'{{"name":"billing","lag":{lag},"pending":2}}', path) == value


def test_what_is_no_number_is_no_metric(gjson: Path) -> None:
    with pytest.raises(NoMetric, match="got Null"):
        found_by(gjson, '{"lag":null}', "lag")
