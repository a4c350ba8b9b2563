"""The build context of the image: all that `docker build` needs, in one archive."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

from deploy.release.tree import Tree, mode_of

_OF_DOCKER = ["Dockerfile", ".dockerignore"]


def write_context(tree: Tree, archive: Path) -> None:
    """Write the files that .dockerignore lets through, and the Dockerfile."""
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as members,
    ):
        for name in context_of(tree):
            _add(members, tree, name)


def context_of(tree: Tree) -> list[str]:
    lines = (tree.folder / ".dockerignore").read_text("utf-8").splitlines()
    passed = {line[1:] for line in lines if line.startswith("!")} | {*_OF_DOCKER}
    return [name for name in tree.names if name.split("/")[0] in passed]


def _add(members: tarfile.TarFile, tree: Tree, name: str) -> None:
    """Add a file without what depends on the machine: owner, umask, times."""
    path = tree.folder / name
    member = tarfile.TarInfo(name)
    member.mtime = tree.time_s
    if path.is_symlink():
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        members.addfile(member)
        return
    member.size, member.mode = path.stat().st_size, mode_of(path)
    with path.open("rb") as file:
        members.addfile(member, file)
