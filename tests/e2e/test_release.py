"""The files of a release, by `make release`: complete, of one version, the same when made again."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

from deploy.release.documents import section_of
from deploy.release.processes import NotReleased
from deploy.release.version import version_of

ROOT = Path(__file__).parents[2]
COMMAND_S_MAX = 300.0
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
WHEEL = f"headgate-{VERSION}-py3-none-any.whl"
SOURCES = f"headgate-{VERSION}.tar.gz"
TARBALLS = [f"headgate-client-{VERSION}.tgz", f"headgate-react-{VERSION}.tgz"]
CONTEXT = f"headgate-{VERSION}-image.tar.gz"
BILL = f"headgate-{VERSION}.cdx.json"
CHANGES = f"headgate-{VERSION}-changes.md"
SUMS = "SHA256SUMS"


def make(
    folder: Path, *words: str, variables: Mapping[str, str] | None = None, umask: int = 0o022
) -> Path:
    """Make a release of this checkout as it is."""
    command = sys.executable, "-m", "deploy.release", "--with-changes", "--output", str(folder)
    ended = subprocess.run(
        [*command, *words],
        cwd=ROOT,
        env={**os.environ, **(variables or {})},
        umask=umask,
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release, and try it: the command installs its packages and starts a gateway."""
    for program in ("git", "npm"):
        if shutil.which(program) is None:
            assert "CI" not in os.environ, f"{program} is missing"
            pytest.skip(f"{program} is not installed")
    return make(tmp_path_factory.mktemp("release"))


def names_in(archive: Path) -> list[str]:
    with tarfile.open(archive) as members:
        return members.getnames()


def test_it_has_all_files_and_no_others(release: Path) -> None:
    names = [WHEEL, SOURCES, *TARBALLS, CONTEXT, BILL, CHANGES, SUMS]
    assert sorted(path.name for path in release.iterdir()) == sorted(names)


def test_its_checksums_are_those_of_its_files(release: Path) -> None:
    sums = dict(line.split("  ")[::-1] for line in (release / SUMS).read_text().splitlines())
    files = {path.name: path.read_bytes() for path in release.iterdir() if path.name != SUMS}
    assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def test_the_wheel_has_the_console(release: Path) -> None:
    with zipfile.ZipFile(release / WHEEL) as archive:
        names = archive.namelist()
    assert "headgate/app/console/index.html" in names
    assert any(name.startswith("headgate/app/console/assets/index-") for name in names)
    assert f"headgate-{VERSION}.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if name.endswith(".pyc") or "node_modules" in name]


def test_the_archive_of_sources_makes_that_wheel_without_node(
    release: Path, tmp_path: Path
) -> None:
    with tarfile.open(release / SOURCES) as members:
        members.extractall(tmp_path, filter="data")
        [time_s] = {member.mtime for member in members.getmembers()}
    build = sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir"
    subprocess.run(
        [*build, tmp_path, tmp_path / f"headgate-{VERSION}"],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(int(time_s)), "PATH": "/nowhere"},
        capture_output=True,
        timeout=COMMAND_S_MAX,
        check=True,
    )
    assert (tmp_path / WHEEL).read_bytes() == (release / WHEEL).read_bytes()


@pytest.mark.parametrize("tarball", TARBALLS)
def test_a_package_of_npm_has_its_modules_types_license_and_page(
    tarball: str, release: Path
) -> None:
    names = {*names_in(release / tarball)}
    own = {"LICENSE", "README.md", "package.json", "dist/index.js", "dist/index.d.ts"}
    assert {f"package/{name}" for name in own} <= names
    others = {name.removeprefix("package/") for name in names} - own
    assert all(name.startswith("dist/") and name.endswith((".js", ".d.ts")) for name in others)
    for name in names:
        if name.endswith(".js"):
            assert name.removesuffix(".js") + ".d.ts" in names


@pytest.mark.parametrize("name", [SOURCES, CONTEXT, *TARBALLS])
def test_an_archive_shows_nothing_of_the_machine(name: str, release: Path) -> None:
    with tarfile.open(release / name) as archive:
        members = archive.getmembers()
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {
        (0, 0, "", "")
    }
    assert {member.mode for member in members if member.isfile()} <= {0o644, 0o755}
    assert len({member.mtime for member in members}) == 1


def test_the_context_has_all_that_the_image_copies(release: Path) -> None:
    names = names_in(release / CONTEXT)
    copied = [
        source
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert "pyproject.toml" in copied
    for source in copied:
        assert any(name == source or name.startswith(f"{source}/") for name in names), source
    assert {"Dockerfile", ".dockerignore"} <= {*names}
    assert not [name for name in names if name.startswith(("tests/", "examples/", ".git/"))]


def test_the_links_of_the_context_lead_into_it(release: Path, tmp_path: Path) -> None:
    with tarfile.open(release / CONTEXT) as members:
        links = [member.name for member in members.getmembers() if member.issym()]
        members.extractall(tmp_path, filter="data")
    assert "src/headgate/app" in links
    assert all((tmp_path / link).exists() for link in links)


def test_the_bill_of_materials_has_the_pinned_versions(release: Path) -> None:
    bill = json.loads((release / BILL).read_text())
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and line[0] not in " #"]
    urls = {part["purl"] for part in bill["components"]}
    of_python = {url for url in urls if url.startswith("pkg:pypi/")}
    assert of_python == {f"pkg:pypi/{pin.name}@{str(pin.specifier)[2:]}" for pin in pins}
    of_console = {url.rpartition("@")[0] for url in urls - of_python}
    wanted = json.loads((ROOT / "console" / "package.json").read_text())["dependencies"]
    assert of_console >= {f"pkg:npm/{name.replace('@', '%40')}" for name in wanted}
    assert "pkg:npm/vite" not in of_console  # it builds, and nothing of it is built in
    version = SchemaVersion.from_version(bill["specVersion"])
    assert JsonStrictValidator(version).validate_str(json.dumps(bill)) is None
    whole = bill["metadata"]["component"]
    assert (whole["name"], whole["version"]) == ("headgate", VERSION)


def test_the_changes_are_those_of_the_version(release: Path) -> None:
    text = (release / CHANGES).read_text()
    assert re.findall(r"^## (\S+)", text, re.MULTILINE) == [VERSION]
    assert text in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.long
def test_a_release_can_be_made_again(release: Path, tmp_path: Path) -> None:
    variables = {"TZ": "Asia/Tokyo", "LC_ALL": "C"}
    again = make(tmp_path / "again", "--untried", variables=variables, umask=0o077)
    for path in sorted(release.iterdir()):
        other = again / path.name
        assert same_contents(path, other), f"{path.name}: the members differ"
        assert path.read_bytes() == other.read_bytes(), path.name


def same_contents(path: Path, other: Path) -> bool:
    """Compare two archives without their compression."""
    if path.suffix not in {".gz", ".tgz"}:
        return True
    return gzip.decompress(path.read_bytes()) == gzip.decompress(other.read_bytes())


# What is refused


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    ended = subprocess.run(
        [sys.executable, "-m", "deploy.release", "--output", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"Error: {tmp_path} is not empty.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_all_files_have_one_version(tmp_path: Path) -> None:
    assert version_of(ROOT) == VERSION
    for name in ("clients/typescript", "deploy/helm", "deploy/kubernetes"):
        ignored = shutil.ignore_patterns("node_modules", "dist")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("pyproject.toml", "Dockerfile"):
        shutil.copy(ROOT / name, tmp_path)
    peer = tmp_path / "clients" / "typescript" / "react" / "package.json"
    peer.write_text(peer.read_text().replace(f'client": "{VERSION}"', 'client": "0.0.9"'))
    chart = tmp_path / "deploy" / "helm" / "headgate" / "Chart.yaml"
    chart.write_text(chart.read_text().replace(f'"{VERSION}"', '"0.0.8"'))
    places = (
        "@headgate/client in clients/typescript/react/package.json has 0.0.9",
        "deploy/helm/headgate/Chart.yaml has 0.0.8",
    )
    for place in places:
        with pytest.raises(NotReleased, match=place):
            version_of(tmp_path)


CHANGELOG = (
    "# Changes\n\n## 1.10.0\n\n- c\n\n## 1.1.0 (2026-12-01)\n\n### Added\n\n- b\n\n## 1.0.0\n- a\n"
)


@pytest.mark.parametrize(
    ("version", "section"),
    [
        ("1.10.0", "## 1.10.0\n\n- c\n"),
        ("1.1.0", "## 1.1.0 (2026-12-01)\n\n### Added\n\n- b\n"),
        ("1.0.0", "## 1.0.0\n- a\n"),
    ],
)
def test_a_section_ends_where_the_next_one_begins(version: str, section: str) -> None:
    assert section_of(CHANGELOG, version) == section


def test_a_version_without_a_section_is_refused() -> None:
    with pytest.raises(NotReleased, match=r"has no section of 1\.1\.1"):
        section_of(CHANGELOG, "1.1.1")
