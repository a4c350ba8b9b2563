"""Streams of plain Redis or Valkey, without any key or function of a gateway."""
