"""Catalog: descriptions of commands, and what COMMAND makes of them.

A description stands beside the function that reads the words of its command.
"""
