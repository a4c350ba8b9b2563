"""Traces: what the gateway does for a client that traces, sent to a collector (OpenTelemetry)."""
