"""What KEDA 2.20 does with a ScaledObject: it asks the triggers, and calculates the replicas.

The names of triggers, parameters and errors are those of KEDA's source.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import redis
from redis.exceptions import ResponseError

from tests.deploy.yaml_files import document_of
from tests.installed import program
from tests.processes.gateway import HOST, GatewayProcess

GOCODE: Final = Path("/usr/share/gocode")
"""Where Debian has the sources of libraries of Go."""

FORMULAS: Final[Mapping[str, Callable[[Mapping[str, float]], float]]] = {
    "lag + pending": lambda of: of["lag"] + of["pending"],
    "abs(lag) + pending": lambda of: abs(of["lag"]) + of["pending"],
}


class NoMetric(Exception):
    """A trigger has no value. KEDA then leaves the replicas as they are."""


def build_gjson(folder: Path) -> Path:
    """Build the program that finds a value as KEDA does."""
    built = folder / "gjson"
    subprocess.run(
        [program("go"), "build", "-o", built, Path(__file__).with_name("gjson.go")],
        env={**os.environ, "GO111MODULE": "off", "GOPATH": str(GOCODE), "GOFLAGS": ""},
        check=True,
    )
    return built


def found_by(gjson: Path, body: str, path: str) -> float:
    """Return the number in a JSON text, as metrics-api finds it. Raises NoMetric."""
    done = subprocess.run([gjson, path], input=body, capture_output=True, text=True, check=True)
    kind, _, raw = done.stdout.rstrip("\n").partition(" ")
    if kind != "Number":
        raise NoMetric(f"valueLocation {path!r} must point to a numeric value, got {kind}")
    return float(raw)


@dataclass
class Keda:
    """KEDA with the manifests of a folder, in a cluster whose services lead to one gateway."""

    folder: Path
    gateway: GatewayProcess
    gjson: Path
    secrets: dict[tuple[str, str], str]  # by name and key

    def value(self, name: str) -> float:
        """Return the value of the ScaledObject in a file. Raises NoMetric."""
        spec = document_of(self.folder / name)["spec"]
        values = {trigger["name"]: self._ask(trigger) for trigger in spec["triggers"]}
        return FORMULAS[spec["advanced"]["scalingModifiers"]["formula"]](values)

    def replicas(self, name: str) -> int:
        """Return how many replicas there are after a while. Raises NoMetric."""
        spec = document_of(self.folder / name)["spec"]
        modifiers, value = spec["advanced"]["scalingModifiers"], self.value(name)
        if value <= float(modifiers["activationTarget"]):
            return int(spec["minReplicaCount"])
        wanted = math.ceil(value / float(modifiers["target"]))  # AverageValue
        return min(max(wanted, 1), int(spec["maxReplicaCount"]))

    def _ask(self, trigger: Mapping[str, Any]) -> float:
        parameters = self._parameters(trigger["authenticationRef"]["name"])
        ask = {"metrics-api": self._ask_http, "redis-streams": self._ask_redis}[trigger["type"]]
        return ask(trigger["metadata"], parameters)

    def _parameters(self, name: str) -> dict[str, str]:
        """Return the parameters of a TriggerAuthentication."""
        [found] = [
            document
            for path in self.folder.glob("*triggerauthentication.yaml")
            if (document := document_of(path))["metadata"]["name"] == name
        ]
        return {
            ref["parameter"]: self.secrets[ref["name"], ref["key"]]
            for ref in found["spec"]["secretTargetRef"]
        }

    def _ask_http(self, metadata: Mapping[str, str], parameters: Mapping[str, str]) -> float:
        service, path = re.fullmatch(r"http://([^/:]+)(/.*)", metadata["url"]).groups()  # type: ignore[union-attr]
        assert service == "headgate.default.svc"
        assert metadata["authMode"] == "bearer"
        answer = httpx.get(
            self.gateway.url + path, headers={"Authorization": f"Bearer {parameters['token']}"}
        )
        if answer.status_code != httpx.codes.OK:
            raise NoMetric(f"{path}: api returned {answer.status_code}")
        return found_by(self.gjson, answer.text, metadata["valueLocation"])

    def _ask_redis(self, metadata: Mapping[str, str], parameters: Mapping[str, str]) -> float:
        assert metadata["address"] == "headgate-redis.default.svc:6379"
        stream, group = metadata["stream"], metadata["consumerGroup"]
        # As go-redis does: RESP3, and a password without a user.
        with redis.Redis(
            HOST,
            self.gateway.redis_port,
            password=parameters["password"],
            protocol=3,
            decode_responses=True,
        ) as client:
            client.ping()
            try:
                if "lagCount" in metadata:
                    return _lag(client, stream, group)
                return float(client.xpending(stream, group)["pending"])
            except ResponseError as error:
                raise NoMetric(str(error)) from None


def _lag(client: Any, stream: str, group: str) -> float:
    version = client.info()["redis_version"]
    assert int(version.split(".")[0]) >= 7, "redis version 7+ required for lag"
    try:
        groups = client.xinfo_groups(stream)
    except ResponseError as error:
        if str(error) == "no such key":  # redis-py takes ERR away
            return 0
        groups = []
    for found in groups:
        if found["name"] == group:
            return -1 if found["lag"] is None else float(found["lag"])
    return float(client.xlen(stream))
