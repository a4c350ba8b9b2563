"""Streams: describe, create, change and delete them."""

from __future__ import annotations

from headgate.app.backends.redis.performing import Performers

PERFORMERS: Performers = {}
