"""Redis words in, Redis replies out: the stream commands to the letter, as decisions of the engine.

Each file turns the words of some commands into a `Plan`. Nothing here does I/O or knows HTTP.
"""
