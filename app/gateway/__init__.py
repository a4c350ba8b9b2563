"""The parts of one app, and how they are assembled for a process or a test."""
