"""Aspects: for each request the rights, the audit, the metering and the span, in a file a noun."""
