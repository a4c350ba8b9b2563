"""Durable Streams: the protocol of that name, over the same streams.

A stream here is a stream of the gateway; what the protocol knows of it beyond that is in attributes
(`configuration`, `producers`). The specification: Durable Streams Protocol 1.0, by ElectricSQL.
"""
