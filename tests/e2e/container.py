"""A container without a container engine: a Dockerfile's steps, taken in order in a folder."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SYSTEM = "bin dev etc lib proc sys tmp usr"
_PATH = re.compile(rf"(?<![\w./])/(?!(?:{'|'.join(_SYSTEM.split())})\b)(?=\w)")
_KEPT = re.compile(r"HOME|PIP_.*|.*_(proxy|PROXY)|SSL_CERT_FILE|REQUESTS_CA_BUNDLE")
STEP_S_MAX = 300.0
USER = 10001


@dataclass
class Image:
    """The result of the last stage, with its commands and settings."""

    root: Path
    env: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict)
    user: int = 0
    volumes: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)
    stop_signal: str = ""
    command: list[str] = field(default_factory=list)

    def popen(
        self, words: list[str], settings: dict[str, str], **pipes: int
    ) -> subprocess.Popen[str]:
        """Run words as a container would: its variables, its user, nothing else of this machine."""
        env = {name: mapped(value, self.root) for name, value in self.env.items()} | settings
        program = shutil.which(words[0], path=env["PATH"])
        assert program, f"{words[0]} is not on the image's PATH"
        who: dict[str, Any] = {}
        if may_be(self):
            who = {"user": self.user, "group": self.user, "extra_groups": []}
        command = [program, *words[1:]]
        options: dict[str, Any] = {**pipes, **who}
        return subprocess.Popen(command, cwd=self.root, env=env, text=True, **options)

    def exit_code(self, words: list[str], settings: dict[str, str]) -> int:
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return self.popen(words, settings, **pipes).wait(STEP_S_MAX)


def may_be(image: Image) -> bool:
    """Tell whether this process may become the image's user and still start Python."""
    return os.geteuid() == 0 and _starts(_python(), image.user)


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """Return instructions with their arguments, comments and line ends taken out."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    parts = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(name.upper(), argument.strip()) for name, _, argument in parts]


def mapped(text: str, root: Path) -> str:
    """Return text with the absolute paths of the image below `root`; the system's own stay."""
    return _PATH.sub(f"{root}/", text)


def context(source: Path, target: Path) -> None:
    """Copy the files that the .dockerignore lets into a build."""
    patterns = (source / ".dockerignore").read_text().split("\n")
    rules = [
        pattern.strip() for pattern in patterns if pattern.strip() and not pattern.startswith("#")
    ]
    for top in source.iterdir():
        if not _is_let_in(top.name, rules):  # no rule of ours lets in part of a folder
            continue
        for path in [top, *top.rglob("*")]:
            name = path.relative_to(source)
            if (path.is_file() or path.is_symlink()) and _is_let_in(str(name), rules):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target / name, follow_symlinks=False)


def _is_let_in(name: str, rules: list[str]) -> bool:
    parents = ["/".join(name.split("/")[:depth]) for depth in range(1, name.count("/") + 2)]
    is_in = True
    for rule in rules:
        pattern = rule.removeprefix("!").removesuffix("/")
        anywhere = pattern.removeprefix("**/")
        if any(
            fnmatch.fnmatchcase(parent, pattern)
            or (anywhere != pattern and fnmatch.fnmatchcase(parent.rpartition("/")[2], anywhere))
            for parent in parents
        ):
            is_in = rule.startswith("!")
    return is_in


def build(source: Path, place: Path) -> Image:
    """Take the steps of `source/Dockerfile`.

    The root of the stage at work is always `place/root`, so that what knows its own absolute path
    (a virtual environment does) finds itself after a COPY --from, as in a container.
    """
    context(source, place / "context")
    base = place / "base"
    base.mkdir()
    shim = base / "python"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(_python())} "$@"\n')
    shim.chmod(0o755)
    steps = _Steps(place)
    for name, argument in instructions((source / "Dockerfile").read_text()):
        steps.take(name, argument)
    return steps.image


class _Steps:
    """The stage at work."""

    def __init__(self, place: Path) -> None:
        self.image = Image(place / "root", {})
        self._place = place
        self._stage = ""
        self._folder = "/"

    def take(self, name: str, argument: str) -> None:
        """Take a step; one that is not known here fails the test."""
        getattr(self, f"_{name.lower()}")(argument)

    def _from(self, argument: str) -> None:
        if self._stage:
            self.image.root.rename(self._place / self._stage)
        self._stage, self._folder = argument.partition(" AS ")[2] or "last", "/"
        path = f"{self._place / 'base'}:/usr/local/bin:/usr/bin:/bin"
        self.image = Image(self._place / "root", {"PATH": path})
        self.image.root.mkdir()

    def _run(self, argument: str) -> None:
        _run(argument, self.image, self._folder)

    def _copy(self, argument: str) -> None:
        _copy(argument, self._place, self.image.root, self._folder)

    def _workdir(self, argument: str) -> None:
        self._folder = argument
        (self.image.root / argument.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def _env(self, argument: str) -> None:
        for pair in shlex.split(argument):
            key, _, value = pair.partition("=")
            self.image.env[key] = value.replace("$PATH", self.image.env["PATH"])

    def _label(self, argument: str) -> None:
        self.image.labels |= dict(pair.split("=", 1) for pair in shlex.split(argument))

    def _user(self, argument: str) -> None:
        self.image.user = int(argument.partition(":")[0])

    def _volume(self, argument: str) -> None:
        self.image.volumes.append(argument)

    def _healthcheck(self, argument: str) -> None:
        self.image.health = json.loads(argument.partition("CMD ")[2])

    def _stopsignal(self, argument: str) -> None:
        self.image.stop_signal = argument

    def _entrypoint(self, argument: str) -> None:
        self.image.command = [*json.loads(argument), *self.image.command]

    def _cmd(self, argument: str) -> None:
        self.image.command += json.loads(argument)

    def _expose(self, argument: str) -> None:
        """Nothing to do: every port of this machine is there."""


def _python() -> str:
    """Return a Python to stand for the base image's: one a user without rights can start."""
    own = getattr(sys, "_base_executable", sys.executable)
    others = [shutil.which(name, path="/usr/local/bin:/usr/bin") for name in ("python3.11",)]
    return next((image for image in [own, *others] if image and _starts(image, USER)), own)


def _starts(python: str, user: int) -> bool:
    who: dict[str, Any] = {"user": user} if os.geteuid() == 0 else {}
    command = [python, "-c", "import ensurepip, venv"]
    try:
        return subprocess.run(command, check=False, cwd="/", **who).returncode == 0
    except PermissionError:
        return False


def _run(argument: str, work: Image, folder: str) -> None:
    if os.geteuid() != 0:  # then everything is ours anyway
        argument = re.sub(r"--(owner|group)=\S+", "", argument)
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    done = subprocess.run(
        ["sh", "-ec", mapped(argument, work.root)],
        cwd=work.root / folder.lstrip("/"),
        env={**kept, **{name: mapped(value, work.root) for name, value in work.env.items()}},
        capture_output=True,
        text=True,
        timeout=STEP_S_MAX,
        check=False,
    )
    assert done.returncode == 0, f"RUN {argument}\n{done.stdout}\n{done.stderr}"


def _copy(argument: str, place: Path, root: Path, folder: str) -> None:
    words = shlex.split(argument)
    source = place / "context"
    if words[0].startswith("--from="):
        source = place / words.pop(0).removeprefix("--from=")
    *names, target = words
    into = root / folder.lstrip("/") / target if not target.startswith("/") else root / target[1:]
    for name in names:
        path = source / name.lstrip("/")
        if path.is_dir():
            shutil.copytree(path, into, symlinks=True, dirs_exist_ok=True)
        else:
            file = into / path.name if target.endswith("/") else into
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, file)
