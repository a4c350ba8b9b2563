"""A release: its files, reproducible from the last commit, and tested."""
