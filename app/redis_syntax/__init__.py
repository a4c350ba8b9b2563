"""The stream commands of Redis: words in, replies out, exactly as Redis parses and writes them.

Each file turns the words of some commands into a `Plan`: a request to the engine, and a way to make
its reply. This package does no I/O of its own and does not depend on HTTP.
"""
