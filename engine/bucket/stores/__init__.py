"""Stores: the directories and object stores that can be a bucket."""
