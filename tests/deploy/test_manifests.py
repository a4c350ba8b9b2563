"""Files for other programs are valid, as far as these programs' own checks can tell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.app.settings import Settings
from tests.deploy.cluster_tools import cluster_tool
from tests.deploy.yaml_files import (
    BIN,
    check_manifest,
    documents_of,
    faults_of,
    run,
    write_document,
)
from tests.installed import program

DEPLOY = Path(__file__).parents[2] / "deploy"
FORMS = DEPLOY.parent / ".github" / "ISSUE_TEMPLATE"
KUBERNETES = DEPLOY / "kubernetes"
MANIFESTS = sorted(KUBERNETES.rglob("*.yaml"))
COMPOSED = [DEPLOY / folder / "compose.yaml" for folder in (".", "bucket", "one")]


def check_compose(path: Path) -> subprocess.CompletedProcess[str]:
    return check_schema("compose-spec", path)


def check_schema(name: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    return run(BIN / "check-jsonschema", "--builtin-schema", f"vendor.{name}", *paths)


@pytest.mark.parametrize("path", COMPOSED, ids=lambda path: path.parent.name)
def test_a_compose_file_is_valid(path: Path) -> None:
    outcome = check_compose(path)
    assert outcome.returncode == 0, outcome.stdout


def test_a_word_that_compose_does_not_know_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text((DEPLOY / "compose.yaml").read_text().replace("restart:", "restarts:"))
    assert check_compose(path).returncode == 1


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_manifest_is_valid(path: Path) -> None:
    if path.stem == "kustomization":  # not of Kubernetes itself: what it lists is there
        listed = re.findall(r"^  - (\S+\.yaml)$", path.read_text(), re.MULTILINE)
        assert listed
        assert {path.parent / name for name in listed} <= set(MANIFESTS) - {path}
        return
    assert faults_of([path]) == []


@pytest.mark.parametrize("folder", [".", "bucket", "keda", "one"])
def test_kustomize_takes_a_folder(folder: str, tmp_path: Path) -> None:
    shutil.copytree(KUBERNETES / folder, tmp_path / "folder")
    for name in ("keys.json", "secrets.env"):  # those that are in no repository
        (tmp_path / "folder" / name).write_text("a=b\n")
    outcome = run(cluster_tool("kubectl"), "kustomize", tmp_path / "folder")
    assert outcome.returncode == 0, outcome.stderr
    documents = documents_of(outcome.stdout)
    assert (
        faults_of(
            [
                write_document(document, tmp_path / f"{at}.yaml")
                for at, document in enumerate(documents)
            ]
        )
        == []
    )
    # Without the secrets that are generated, each file is a resource.
    text = (KUBERNETES / folder / "kustomization.yaml").read_text()
    listed = re.findall(r"^  - \S+\.yaml$", text, re.MULTILINE)
    assert len([one for one in documents if one["kind"] != "Secret"]) == len(listed)


def test_a_word_that_kubernetes_does_not_know_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deployment.yaml"
    text = (KUBERNETES / "deployment.yaml").read_text()
    path.write_text(text.replace("readinessProbe:", "readynessProbe:"))
    assert check_manifest(path).returncode != 0


@pytest.mark.parametrize(
    ("name", "word", "other"),
    [
        ("scaledobject.yaml", "valueLocation:", "valuePath:"),
        ("scaledobject.yaml", 'target: "100"', "target: 100"),
        ("redis-scaledobject.yaml", "lagCount:", "lag:"),
        ("triggerauthentication.yaml", "parameter: token", "parameter: bearer"),
    ],
)
def test_a_word_that_keda_does_not_know_is_refused(
    tmp_path: Path, name: str, word: str, other: str
) -> None:
    text = (KUBERNETES / "keda" / name).read_text()
    assert word in text
    path = tmp_path / name
    path.write_text(text.replace(word, other))
    assert len(faults_of([path])) == 1


@pytest.mark.parametrize("name", ["compose.yaml", "one/compose.yaml", "kubernetes/configmap.yaml"])
def test_every_setting_is_one(name: str) -> None:
    settings = {f"HEADGATE_{field.upper()}" for field in Settings.model_fields}
    named = set(re.findall(r"^ *(HEADGATE_\w+): ", (DEPLOY / name).read_text(), re.MULTILINE))
    assert named
    assert named <= settings


def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    nginx = program("nginx")
    # The names of the gateways are those of the containers.
    text = re.sub(r"gateway-\d", "127.0.0.1", (DEPLOY / "nginx.conf").read_text())
    (tmp_path / "nginx.conf").write_text(text.replace("/tmp/nginx.pid", "nginx.pid"))
    outcome = run(nginx, "-t", "-p", tmp_path, "-c", "nginx.conf")
    assert outcome.returncode == 0, outcome.stderr
    assert "warn" not in outcome.stderr


@pytest.mark.parametrize("name", ["bucket/Caddyfile", "one/Caddyfile", "proxy/Caddyfile"])
def test_caddy_takes_its_configuration(name: str) -> None:
    words = ["--adapter", "caddyfile", "--config", DEPLOY / name]
    outcome = subprocess.run(
        [program("caddy"), "validate", *map(str, words)],
        env={**os.environ, "GATEWAY_DOMAIN": "gw.example"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert '"warn"' not in outcome.stderr


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:  # a container has no use for it
        pytest.skip("systemd-analyze is missing")
    unit = tmp_path / "headgate.service"
    text = (DEPLOY / "headgate.service").read_text()
    unit.write_text(text.replace("/opt/headgate/bin/headgate", sys.executable))
    outcome = run(analyze, "verify", unit)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr == ""


def test_the_forms_of_issues_are_valid() -> None:
    config, forms = FORMS / "config.yml", set(FORMS.glob("*.yml")) - {FORMS / "config.yml"}
    assert {path.stem for path in forms} == {"bug", "feature", "question"}
    for outcome in (
        check_schema("github-issue-forms", *forms),
        check_schema("github-issue-config", config),
    ):
        assert outcome.returncode == 0, outcome.stdout


def test_a_word_that_forms_do_not_know_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bug.yml"
    path.write_text((FORMS / "bug.yml").read_text().replace("type: input", "type: line"))
    assert check_schema("github-issue-forms", path).returncode == 1
