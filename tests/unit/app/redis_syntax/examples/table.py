"""All examples, by subject: commands, and the reply of the last one."""

from __future__ import annotations

from tests.unit.app.redis_syntax.console import Case
from tests.unit.app.redis_syntax.examples.named_twice import NAMED_TWICE
from tests.unit.app.redis_syntax.examples.newer import NEWER
from tests.unit.app.redis_syntax.examples.observed import OBSERVED
from tests.unit.app.redis_syntax.examples.traps import TRAPS

EXAMPLES: dict[str, list[Case]] = {
    **NEWER,
    "observed": OBSERVED,
    "traps": TRAPS,
    "named twice": NAMED_TWICE,
}
