"""The Durable Streams protocol, over the same streams.

A stream here is a stream of the gateway; what the protocol adds to it is in attributes
(`configuration`, `producers`). The specification: Durable Streams Protocol 1.0, by ElectricSQL.
"""
