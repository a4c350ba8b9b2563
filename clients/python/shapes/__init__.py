"""Shapes: the JSON that the gateway accepts and returns, as in its OpenAPI document."""
