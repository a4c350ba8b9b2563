"""The guide's programs in TypeScript: the compiler takes them, and Node runs them."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from headgate.app.routes import guide
from tests.api.conftest import Live
from tests.api.documents.answers import check_output
from tests.api.documents.snippets import run, snippets, snippets_of_tab
from tests.sdk.typescript import packages, program_folder
from tests.sdk.workshop import output_of, tool
from tests.servers.chosen import URL

_STRICT = {
    "strict": True,
    "noEmit": True,
    "skipLibCheck": True,
    "jsx": "react-jsx",
    "target": "es2022",
    "module": "nodenext",
    "lib": ["es2022", "dom"],
    "types": ["node"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program_folder(tmp_path_factory.mktemp("guide") / "programs")


async def test_the_compiler_takes_each_program(folder: Path) -> None:
    names = []
    for task in guide.TASKS:
        for number, snippet in enumerate(snippets(task, "ts", "tsx")):
            names.append(f"{task}{number}.{snippet.language}")
            (folder / names[-1]).write_text(snippet.code.replace('from "ws"', 'from "./ws.js"'))
    (folder / "ws.d.ts").write_text("declare const it: typeof WebSocket; export default it;")
    compiler = packages() / ".bin" / "tsc"
    config = {"compilerOptions": _STRICT, "files": ["ws.d.ts", *names]}
    (folder / "tsconfig.json").write_text(json.dumps(config))
    await output_of(tool("node"), compiler, "--project", ".", folder=folder)
    assert len(names) >= 6


@pytest.mark.parametrize(
    "task", [task for task in guide.TASKS if "TypeScript" in guide.parts_of(task).tabs]
)
async def test_node_runs_a_tab_from_its_beginning(live: Live, folder: Path, task: str) -> None:
    ids: dict[str, str] = {}
    for snippet in await asyncio.to_thread(snippets_of_tab, task, "TypeScript", "ts"):
        if snippet.is_check:
            continue
        program = folder / f"{task}.mjs"
        await asyncio.to_thread(program.write_text, snippet.at(live.url))
        output = await run(
            tool("node"),
            program.name,
            shell=dict(os.environ),
            place=folder,
            is_endless=snippet.is_endless,
            lines=snippet.answer.count("\n") or 1,
        )
        assert output, snippet.code
        if URL is None:  # servers differ in details
            check_output(snippet, output, live.url, ids)
