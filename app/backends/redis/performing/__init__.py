"""Performing: the function for each request, as a table."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from headgate.app.backends.redis.client import Client
from headgate.engine.requests import Request

Performers = dict[type[Request[Any]], Callable[[Client, Any], Coroutine[Any, Any, Any]]]
"""For each type of request, the function that carries it out."""
