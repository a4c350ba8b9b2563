"""Shapes: the JSON that the gateway takes and answers, as it stands in its OpenAPI document."""
