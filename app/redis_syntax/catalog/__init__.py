"""Catalog: each command as data: its purpose, its arguments, flags and keys.

The arity and the rights stand beside the function that reads the words of a command, in the tables
of commands. Everything else that COMMAND tells of a command stands here, once.
"""
