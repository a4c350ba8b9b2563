"""The Helm chart renders what the manifests in `deploy/kubernetes` have."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headgate.app.settings import Settings
from tests.deploy.cluster_tools import cluster_tool
from tests.deploy.test_manifests import DEPLOY, KUBERNETES
from tests.deploy.yaml_files import document_of, documents_of, faults_of, write_document
from tests.processes.gateway import ROOT

CHART = DEPLOY / "helm" / "headgate"
PREFIX = "HEADGATE_"
SECRETS = {"keysSecret": "headgate-keys", "envSecret": "headgate-secrets"}
BUCKET = {**SECRETS, "bucket": {"url": "s3://orders/gateway"}}
BACKEND = {**SECRETS, "backend": {"url": "redis://valkey:6379"}}
REST = {
    "image": {"repository": "registry.example/headgate", "tag": "1", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "env": {"HEADGATE_LOG_LEVEL": "debug"},
    "redisPort": 6379,
    "service": {"type": "LoadBalancer", "port": 8080, "annotations": {"a.example/b": "c"}},
    "ingress": {"enabled": True, "className": "traefik", "annotations": {"a.example/b": "c"}},
    "metrics": {
        "open": True,
        "annotations": True,
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "resources": {"requests": {"cpu": "2"}},
    "serviceAccountName": "gateway",
    "podAnnotations": {"a.example/b": "c"},
    "podLabels": {"team": "streams"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "gateways", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "extraVolumes": [{"name": "ca", "secret": {"secretName": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca", "readOnly": True}],
}
SCENARIOS: dict[str, Mapping[str, Any]] = {
    "volume": {},
    "bucket and standby": BUCKET,
    "bucket": {**SECRETS, "bucket": {"url": "s3://orders/gateway", "standby": False}},
    "backend": BACKEND,
    "autoscaling": {**BACKEND, "autoscaling": {"enabled": True}},
    "monitored with a key": {
        "metrics": {"serviceMonitor": {"enabled": True, "keySecret": {"name": "prometheus-key"}}}
    },
    "everything, volume": {**REST, "volume": {"storageClass": "fast"}},
    "everything, bucket": {**BUCKET, **REST},
    "everything, backend": {**BACKEND, **REST},
}
ANY = pytest.mark.parametrize("values", SCENARIOS.values(), ids=SCENARIOS)


def helm(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    homes = {f"HELM_{name}_HOME": str(folder) for name in ("CACHE", "CONFIG", "DATA")}
    return subprocess.run(
        [cluster_tool("helm"), *words],
        cwd=ROOT,
        env={**os.environ, **homes},
        capture_output=True,
        text=True,
        check=False,
    )


def given(values: Mapping[str, Any], folder: Path) -> list[str | Path]:
    path = folder / "values.json"
    path.write_text(json.dumps(values))
    return ["--values", path]


def rendered(folder: Path, *words: str | Path, name: str = "headgate") -> dict[str, Any]:
    """Return the resources of a release, by kind."""
    outcome = helm(folder, "template", name, *words)
    assert outcome.returncode == 0, outcome.stderr
    documents = documents_of(outcome.stdout)
    by_kind = {document["kind"]: document for document in documents}
    assert len(by_kind) == len(documents)
    return by_kind


def in_files(resources: Mapping[str, Any], folder: Path) -> list[Path]:
    return [write_document(each, folder / f"{kind}.yaml") for kind, each in resources.items()]


def test_all_resources_are_valid(tmp_path: Path) -> None:
    paths: list[Path] = []
    for name, values in SCENARIOS.items():
        folder = tmp_path / name
        folder.mkdir()
        resources = rendered(tmp_path, CHART, *given(values, tmp_path))
        assert {resource["metadata"]["name"] for resource in resources.values()} == {"headgate"}
        paths += in_files(resources, folder)
    assert faults_of(paths) == []


def test_a_word_that_kubernetes_does_not_know_is_found(tmp_path: Path) -> None:
    values = given({"affinity": {"podAffinities": {}}}, tmp_path)
    [fault] = faults_of(in_files(rendered(tmp_path, CHART, *values), tmp_path))
    assert "podAffinities" in fault


@ANY
def test_helm_finds_nothing_to_say(values: Mapping[str, Any], tmp_path: Path) -> None:
    outcome = helm(tmp_path, "lint", "--strict", CHART, *given(values, tmp_path))
    assert outcome.returncode == 0, outcome.stdout
    assert re.findall(r"\[(?!INFO)\w+\].*", outcome.stdout) == []


@ANY
def test_the_notes_name_the_pods_and_the_service(values: Mapping[str, Any], tmp_path: Path) -> None:
    words = ["install", "shop", CHART, "--dry-run=client", *given(values, tmp_path)]
    outcome = helm(tmp_path, *words)
    assert outcome.returncode == 0, outcome.stderr
    notes = outcome.stdout.partition("\nNOTES:\n")[2]
    port = values.get("service", {}).get("port", 80)
    assert f"service/shop-headgate 8080:{port}\n" in notes
    assert ("shop-headgate-0 | grep hg_" in notes) is ("keysSecret" not in values)


# As the manifests


def without_names(resource: Any) -> Any:
    """Return a resource without what a release chooses: labels, and what selects them."""
    if isinstance(resource, list):
        return [without_names(item) for item in resource]
    if not isinstance(resource, dict):
        return resource
    left_out = {"labels", "selector", "labelSelector", "matchLabels"}
    return {key: without_names(value) for key, value in resource.items() if key not in left_out}


def variables_of(container: Mapping[str, Any], config: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a container that change something."""
    variables = {variable["name"]: variable["value"] for variable in container.get("env", [])}
    if any("configMapRef" in source for source in container.get("envFrom", [])):
        variables |= config
    defaults = {f"{PREFIX}{name.upper()}": str(value) for name, value in Settings()}
    return {name: text for name, text in variables.items() if defaults.get(name) != text}


def workload(resource: Mapping[str, Any], config: Mapping[str, str]) -> dict[str, Any]:
    """Return a workload in the form in which those of chart and manifests are compared."""
    spec: dict[str, Any] = without_names(resource["spec"])
    [container] = spec["template"]["spec"]["containers"]
    container["env"] = variables_of(container, config)
    sources = [source for source in container.pop("envFrom", []) if "configMapRef" not in source]
    container["secrets"] = sources
    return {"kind": resource["kind"], "spec": spec}


@pytest.mark.parametrize("folder", ["one", "bucket", "."])
def test_the_chart_starts_the_gateways_of_the_manifests(folder: str, tmp_path: Path) -> None:
    manifests = {
        document["kind"]: document
        for path in (KUBERNETES / folder).glob("*.yaml")
        if path.stem not in ("ingress", "kustomization")
        for document in [document_of(path)]
    }
    config: dict[str, str] = manifests.pop("ConfigMap", {"data": {}})["data"]
    values: dict[str, Any] = {}
    if "HEADGATE_BUCKET" in config:
        bucket = {"url": config["HEADGATE_BUCKET"]}
        values = {**SECRETS, "bucket": bucket, "env": {"AWS_REGION": config["AWS_REGION"]}}
    elif "HEADGATE_BACKEND" in config:
        values = {**SECRETS, "backend": {"url": config["HEADGATE_BACKEND"]}}
    resources = rendered(tmp_path, CHART, *given(values, tmp_path))

    assert set(resources) == set(manifests)
    for kind in resources:
        if kind in ("StatefulSet", "Deployment"):
            assert workload(resources[kind], {}) == workload(manifests[kind], config)
        else:
            spec = without_names(resources[kind]["spec"])
            assert {**spec, "type": ""} == {**without_names(manifests[kind]["spec"]), "type": ""}


def test_the_ingress_is_that_of_the_manifests(tmp_path: Path) -> None:
    ingress = {"enabled": True, "host": "gw.example", "tlsSecret": "gw-example-tls"}
    resources = rendered(tmp_path, CHART, *given({"ingress": ingress}, tmp_path))
    assert resources["Ingress"]["spec"] == document_of(KUBERNETES / "ingress.yaml")["spec"]


# Values


def test_services_select_the_pods_of_their_release(tmp_path: Path) -> None:
    values = given({**BACKEND, **REST, "autoscaling": {"enabled": True}}, tmp_path)
    resources = rendered(tmp_path, CHART, *values, name="shop")
    pods = resources["Deployment"]["spec"]["template"]["metadata"]["labels"]
    chosen: Sequence[Mapping[str, str]] = [
        resources["Service"]["spec"]["selector"],
        resources["Deployment"]["spec"]["selector"]["matchLabels"],
        resources["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ]
    for labels in chosen:
        assert labels["app.kubernetes.io/instance"] == "shop"
        assert labels.items() <= pods.items()
    monitored = resources["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= resources["Service"]["metadata"]["labels"].items()
    target = resources["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"]
    assert target == resources["Deployment"]["metadata"]["name"] == "shop-headgate"
    assert "replicas" not in resources["Deployment"]["spec"]


def test_env_wins_over_what_the_chart_sets(tmp_path: Path) -> None:
    env = {"HEADGATE_WORKERS": "auto", "HEADGATE_STREAMS_MAX": "10000000"}
    resources = rendered(tmp_path, CHART, *given({"env": env}, tmp_path))
    [container] = resources["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert {variable["name"]: variable["value"] for variable in container["env"]} == env


@ANY
def test_each_variable_is_a_setting(values: Mapping[str, Any], tmp_path: Path) -> None:
    resources = rendered(tmp_path, CHART, *given(values, tmp_path))
    pods = resources.get("StatefulSet") or resources["Deployment"]
    [container] = pods["spec"]["template"]["spec"]["containers"]
    names = {variable["name"] for variable in container["env"]}
    assert names <= {f"{PREFIX}{field.upper()}" for field in Settings.model_fields}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({**BUCKET, **BACKEND}, "set bucket.url or backend.url, not both"),
        ({**BUCKET, "keysSecret": ""}, "set keysSecret"),
        ({**BACKEND, "envSecret": ""}, "set envSecret"),
        ({"autoscaling": {"enabled": True}}, "autoscaling needs backend.url"),
        ({**BUCKET, "autoscaling": {"enabled": True}}, "autoscaling needs backend.url"),
        ({"metrics": {"annotations": True}}, "metrics.annotations needs metrics.open"),
        ({"metrics": {"serviceMonitor": {"enabled": True}}}, "metrics.serviceMonitor needs"),
        ({"replicas": 3}, "'replicas' not allowed"),
        ({"env": {"HEADGATE_STREAMS_MAX": 10}}, "got number, want string"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    values: Mapping[str, Any], why: str, tmp_path: Path
) -> None:
    outcome = helm(tmp_path, "template", "headgate", CHART, *given(values, tmp_path))
    assert outcome.returncode == 1
    assert why in outcome.stderr


def test_prometheus_sends_a_key_unless_the_metrics_are_open(tmp_path: Path) -> None:
    secret = {"name": "prometheus-key", "key": "token"}
    for name, sent in (
        ("monitored with a key", {"authorization": {"credentials": secret}}),
        ("everything, volume", {}),
    ):
        resources = rendered(tmp_path, CHART, *given(SCENARIOS[name], tmp_path))
        [endpoint] = resources["ServiceMonitor"]["spec"]["endpoints"]
        assert endpoint == {"port": "http", "interval": "15s", **sent}


def test_the_commands_of_the_page_install_it(tmp_path: Path) -> None:
    text = (DEPLOY / "README.md").read_text()
    commands = re.findall(r"^helm install (headgate .*)$", text, re.MULTILINE)
    kinds = set()
    for command in commands:
        name, *words = shlex.split(command)
        kinds |= set(rendered(tmp_path, *words, name=name))
    assert len(commands) == 3
    assert kinds == {"StatefulSet", "Deployment", "Service", "PodDisruptionBudget"}
