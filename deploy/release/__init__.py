"""A release: its files, made of the last commit so that they can be made again, and tried."""
