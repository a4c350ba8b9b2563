"""The process itself: its event loop, its memory, what it logs and counts."""
