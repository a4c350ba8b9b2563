"""The process itself: its event loop, its memory, its log and its metrics."""
