"""What the gateway does by itself: it appends what is due, and sends entries to URLs.

A push is a group whose entries the gateway sends. It is a stream, `__push:` and a digest of its
stream and group, or `__push:match:` and that of its pattern and group. Its definition, its secrets
(encrypted) and its state are attributes, and its entries are the last answers. Each change is
announced in the stream `__push`, which all gateways over the same streams follow.
"""
