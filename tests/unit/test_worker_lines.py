"""The workers in `clients/README.md` have as many lines as the page says."""

import re
from pathlib import Path

PAGE = (Path(__file__).parent.parent.parent / "clients" / "README.md").read_text("utf-8")


def test_each_worker_that_is_shown_is_counted_right() -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    shown = [sum(bool(line.strip()) for line in program.splitlines()) for program in programs]

    counted = [
        int(count)
        for name in ("headgate, Python", "redis-py", "nats-py, JetStream")
        for count in re.findall(rf"^\| {name} \| (\d+) \|", PAGE, re.MULTILINE)
    ]

    assert shown == counted
