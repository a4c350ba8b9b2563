"""Push: a group whose entries the gateway itself sends to a URL.

A push is a stream of the gateway, `__push:` and a digest of its stream and group. Its definition,
its secrets (encrypted) and its state are attributes, and its entries are the last answers. Each
change is announced in the stream `__push`, which all gateways over the same streams follow.
"""
