"""Makes a release in a folder, and tries it: `make release`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from console.bundle import NotBuilt
from deploy.release.documents import write_bill, write_changes, write_checksums
from deploy.release.image import write_context
from deploy.release.installation import try_tarballs, try_wheel
from deploy.release.packages import make_wheel, take_tarballs
from deploy.release.processes import NotReleased
from deploy.release.tree import Tree, copy_tree
from deploy.release.version import version_of


@click.command(context_settings={"show_default": True})
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path, resolve_path=True),
    default=Path("dist"),
    help="The folder of the release: a new or an empty one.",
)
@click.option("--with-changes", is_flag=True, help="Take files that are not committed, too.")
@click.option("--untried", is_flag=True, help="Do not install and try the packages.")
def main(output: Path, with_changes: bool, untried: bool) -> None:
    """Make the files of a release: the same bytes for the same commit."""
    output.mkdir(parents=True, exist_ok=True)
    if any(output.iterdir()):
        raise click.ClickException(f"{output} is not empty.")
    try:
        with tempfile.TemporaryDirectory(prefix="headgate-release-") as name:
            tree = copy_tree(Path(name, "sources"), with_changes=with_changes)
            version = version_of(tree.folder)
            make(tree, version, output)
            if not untried:
                pins = tree.folder / "requirements.txt"
                [wheel] = output.glob("*.whl")
                try_wheel(wheel, pins, version, Path(name, "python"))
                try_tarballs(sorted(output.glob("*.tgz")), Path(name, "node"))
    except (NotReleased, NotBuilt) as problem:
        raise click.ClickException(str(problem)) from problem
    for path in sorted(output.iterdir()):
        click.echo(f"{path.stat().st_size:>12,}  {path.name}")


def make(tree: Tree, version: str, output: Path) -> None:
    """Make all files of a release; the checksums come last."""
    make_wheel(tree, output)
    take_tarballs(tree, output)
    write_context(tree, output / f"headgate-{version}-image.tar.gz")
    write_bill(tree, output / f"headgate-{version}.cdx.json")
    write_changes(tree, output / f"headgate-{version}-changes.md", version)
    write_checksums(output)


if __name__ == "__main__":
    main()
