"""Thread pools: each kind of work has its own, so that no kind waits for another.

| threads | what they do |
|---|---|
| `GUARDS` | files of credentials and certificates: a revoked key stops working in time |
| `KEYS` | the keys file, where clients change it: a change waits for its lock |
| `METRICS` | the text of `/metrics` |
| `SCHEDULES` | the due times of schedules that are run |
| `WEBHOOKS` | addresses of webhook targets; what a client reads before its first request |
| `AGENTS` | the packages of `/mcp`, which are imported for its first request |
| `PAGES` | pages and documents, which clients ask for |
| of payloads (`backends/payloads.py`), Arrow, staging, the journal | what their names say |
| the event loop's (`asyncio.to_thread`) | what the process does by itself: memory, rewrites, exit |

Work that a client asks for never runs in the threads of the first row or the last.
"""

from __future__ import annotations

from headgate.engine.threads import Threads

AGENTS = Threads(1, "agents")
GUARDS = Threads(1, "guards")
KEYS = Threads(1, "keys")
METRICS = Threads(1, "metrics")
PAGES = Threads(1, "pages")
SCHEDULES = Threads(1, "schedules")
WEBHOOKS = Threads(4, "webhooks")
