"""Backends: the port between the web shell and the streams, and the engine that implements it."""
